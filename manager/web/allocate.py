"""`POST /allocate` on the TCP port (M-6): the one route of the control plane that is there too.

Answers exactly as on the control socket (`control.py`). The checks of the door come first, as for every route
of the port.
"""

from __future__ import annotations

from manager.web import aiohttp_web as web
from manager.web.control import answer_allocate, refusal
from manager.web.services import Services


def allocate_routes(services: Services) -> list[web.RouteDef]:
    """The route for the port's application, with the caller check of the control plane."""

    async def allocate(request: web.Request) -> web.Response:
        if not services.peer_allowed(request):
            return refusal(403, "forbidden")
        return await answer_allocate(request, services)

    return [web.post("/allocate", allocate)]
