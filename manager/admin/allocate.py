"""`POST /allocate` on the TCP port: the one route of the control plane that is there too.

Answers exactly as on the control socket (`control_socket.py`). The checks of the door come first, as for
every route of the port.
"""

from __future__ import annotations

from manager.admin.control_socket import answer_allocate, refusal
from manager.admin.services import Services
from manager.http import lazy_aiohttp as web


def allocate_routes(services: Services) -> list[web.RouteDef]:
    """The route for the port's application, with the caller check of the control plane."""

    async def allocate(request: web.Request) -> web.Response:
        if not services.peer_allowed(request):
            return refusal(403, "forbidden")
        return await answer_allocate(request, services)

    return [web.post("/allocate", allocate)]
