"""Serves `POST /allocate` on the TCP port, the only route of the control plane there.

It answers as on the control socket (`control_socket.py`), after the admission checks of every route of the
port.
"""

from __future__ import annotations

from manager.admin.control.control_messages import refusal
from manager.admin.control.control_socket import allocate_handler
from manager.admin.control.services import Services
from manager.http import lazy_aiohttp as web


def allocate_routes(services: Services) -> list[web.RouteDef]:
    """The route for the port's application, with the caller check of the control plane."""

    answer = allocate_handler(services)

    async def allocate(request: web.Request) -> web.StreamResponse:
        if not services.peer_allowed(request.transport):
            return refusal(403, "forbidden")
        return await answer(request)

    return [web.post("/allocate", allocate)]
