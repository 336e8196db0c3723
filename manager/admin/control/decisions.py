"""Decides which routes of the control socket and of the port every program of the user may use.

All others decide something, or show what only a person needs: they refuse programs that we started, so that
no model decides through one. A new route therefore decides until it is listed here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from manager.admin.control.control_messages import refuse_own_child
from manager.http import lazy_aiohttp as web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

FOR_ANYONE: Final = frozenset(
    {
        # what runs here, on both
        "GET /health", "GET /list", "GET /mcp/health", "GET /mcp/log", "GET /mcp/log/", "GET /mcp/status",
        "GET /mcp/status/", "GET /metrics", "GET /status",
        # servers that register themselves
        "POST /allocate", "POST /bye", "POST /heartbeat",
        # questions about workspaces; each makes the server start at most
        "POST /calls", "POST /inspect", "POST /ready", "POST /refresh", "POST /resolve",
        # a restart of what runs already; whoever changes a server wants to try it
        "POST /restart_sources",
        # what browsers see first, which any program of the user may read
        "GET /",
    }
)  # fmt: skip
"""Method and path of each. Features add theirs (`manager/features.py`)."""


def decisions_by_persons(others_for_anyone: Collection[str] = ()) -> Middleware:
    """The middleware that asks who decides; for each application that has routes of this user's manager.

    Args:
        others_for_anyone: further routes that every program may use.
    """
    for_anyone = FOR_ANYONE.union(others_for_anyone)

    @web.middleware
    async def ask(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        method = "GET" if request.method == "HEAD" else request.method
        if resource is not None and f"{method} {resource.canonical}" not in for_anyone:
            refused = await refuse_own_child(request)
            if refused is not None:
                return refused
        return await handler(request)

    return ask
