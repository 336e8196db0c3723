"""Lists the routes of the manager's port that aiohttp serves, and renders the last log lines as a page.

Requests for MCP are recognised in `routing/request_metadata.py`; `listener/pages.py` serves
these routes. The page of the log is self-contained, escaped and without script.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from html import escape
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.protocol import jsonrpc
from manager.admin.control.control_socket import allocate_routes
from manager.admin.control.decisions import decisions_by_persons
from manager.admin.control.services import Services
from manager.admin.measures import MeasuresSnapshot, TakeSnapshot
from manager.admin.status import log_payload
from manager.http import lazy_aiohttp as web
from manager.log import recent_lines

if TYPE_CHECKING:
    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
    """Answers a GET."""


# Seconds. A person who watches sees new lines soon, and the page costs one small request each time.
REFRESH_S: Final = 5
_STYLE: Final = (
    ":root{color-scheme:light dark}body{margin:0}"
    # reversed, so that a browser shows the end of the log first
    "main{display:flex;flex-direction:column-reverse;height:100vh;overflow:auto}"
    "pre{margin:0;padding:1em;white-space:pre-wrap;overflow-wrap:anywhere}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The page's `Content-Security-Policy`: it loads and runs nothing."""


def render(lines: Iterable[str]) -> str:
    """The page with these lines, oldest first."""
    text = escape("\n".join(lines)) or "Nothing was logged yet."
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Log of LM Tools Bridge</title>'
        f'<meta http-equiv="refresh" content="{REFRESH_S}"><style>{_STYLE}</style></head>'
        f"<body><main><pre>{text}</pre></main></body></html>\n"
    )


def make_app(
    services: Services,
    status: Callable[[], dict[str, Any]],
    measures: TakeSnapshot,
    page: Handler | None = None,
    for_anyone: Collection[str] = (),
) -> web.Application:
    """The application of the port; admission is added by `pages.port_runner`.

    Args:
        page: shows the status to browsers; without it, they get JSON too.
        for_anyone: routes, to be added by features, that decide nothing.
    """
    app = web.Application(middlewares=[decisions_by_persons(for_anyone)])
    app.add_routes(allocate_routes(services))
    app.add_routes(diagnosis_routes(status, measures, slash=True, page=page))
    app.router.add_get("/", _negotiated(_shows(status), page), allow_head=False)
    return app


def diagnosis_routes(
    status: Callable[[], dict[str, Any]],
    measures: TakeSnapshot,
    *,
    slash: bool = False,
    page: Handler | None = None,
) -> list[web.RouteDef]:
    """Status, metrics, health and log: read-only, on the port and on the control socket."""
    handlers = {
        "/metrics": _metrics_handler(measures),
        "/mcp/status": _negotiated(_shows(status), page),
        "/mcp/log": _negotiated(_shows(log_payload), _log_page),
        "/mcp/health": _shows(lambda: {"ok": True}),
    }
    paths = {path: handlers[path] for path in handlers}
    if slash:
        paths |= {f"{path}/": handlers[path] for path in ("/mcp/status", "/mcp/log")}
    return [web.get(path, handler, allow_head=False) for path, handler in paths.items()]


def _metrics_handler(measures: TakeSnapshot) -> Handler:
    one_at_a_time = asyncio.Lock()

    async def handle(_: web.Request) -> web.Response:
        async with one_at_a_time:  # calls go on meanwhile: the text takes a while
            text, kind = await asyncio.to_thread(_render, measures())
        return web.Response(body=text, headers={"Content-Type": kind})

    return handle


def _render(snapshot: MeasuresSnapshot) -> tuple[bytes, str]:
    from manager.admin import prometheus_text  # noqa: PLC0415  slow to import; see installation.py

    return prometheus_text.render(snapshot), prometheus_text.CONTENT_TYPE


def _negotiated(as_json: Handler, page: Handler | None) -> Handler:
    """Shows the page to browsers and JSON to programs."""
    if page is None:
        return as_json

    async def show(request: web.Request) -> web.StreamResponse:
        return await (page if _wants_html(request) else as_json)(request)

    return show


def _wants_html(request: web.Request) -> bool:
    """Whether a browser asks: by `?format=`, else by `Accept`."""
    output_format = request.query.get("format")
    if output_format in ("html", "json"):
        return output_format == "html"
    return "text/html" in request.headers.get("Accept", "").lower()


async def _log_page(_: web.Request) -> web.Response:
    policy = {"Content-Security-Policy": POLICY}
    return web.Response(text=render(recent_lines), content_type="text/html", headers=policy)


def _shows(payload: Callable[[], dict[str, Any]]) -> Handler:
    async def show(_: web.Request) -> web.Response:
        return web.Response(body=jsonrpc.dumps(payload()), content_type="application/json")

    return show
