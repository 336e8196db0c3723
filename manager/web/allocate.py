"""`POST /allocate` on the TCP port (M-6): the one route of the control plane that is there too.

Answers exactly as on the control socket (`control.py`). The checks of the door come first, as for every route
of the port. Also asks the system whether a port is free, for both.
"""

from __future__ import annotations

import socket
import sys

from aiohttp import web

from manager.web.control import Services, answer_allocate, refusal


def allocate_routes(services: Services) -> list[web.RouteDef]:
    """The route for the port's application, with the caller check of the control plane."""

    async def allocate(request: web.Request) -> web.Response:
        if not services.peer_allowed(request):
            return refusal(403, "forbidden")
        return await answer_allocate(request, services)

    return [web.post("/allocate", allocate)]


def is_bindable(port: int) -> bool:
    """Whether the system lets 127.0.0.1 with this port be bound right now (M-134).

    Without SO_REUSEADDR, so that a port somebody has bound but does not listen on yet counts as taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if sys.platform == "win32":
            # otherwise Windows lets a port be bound that another program holds
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
