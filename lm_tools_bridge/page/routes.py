"""Serves the pages, their changes and their buttons on the port, and tickets on the control socket.

`feature.py` loads it with aiohttp, soon after the start: MCP clients do not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.page.access import Access
from lm_tools_bridge.page.actions import Means, act
from lm_tools_bridge.page.html import ASSET_PATHS
from lm_tools_bridge.page.live import LivePages
from lm_tools_bridge.page.overview_fragments import page
from lm_tools_bridge.page.project_fragments import project_page, unknown_project
from lm_tools_bridge.page.project_selection import Projects
from lm_tools_bridge.page.sign_in import SignIns
from lm_tools_bridge.protocol import sse
from manager.admin.control.control_messages import read_body, read_object, refusal, success
from manager.admin.control.project_command import ServerCommand, ToolChanges
from manager.admin.control.services import Services
from manager.admin.measures import Moment
from manager.configuration.paths import Paths
from manager.features import DaemonParts
from manager.http import lazy_aiohttp as web
from manager.routing.admission import AdmissionRefusal
from manager.waiting_calls import WaitingCalls

if TYPE_CHECKING:
    Handler = Callable[[web.Request], Any]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
MAX_BODY: Final = 16 * 1024
"""An action names a project, a tool and a few choices: a path has at most 4 KiB."""
BODY_S: Final = 10.0
"""A browser on this machine sends its few bytes at once; one that stalls must not hold its connection."""
PROOF_HEADER: Final = "X-Page-Proof"
FOR_ANYONE: Final = frozenset(
    {
        "GET /page/changes", "GET /page/page.css", "GET /page/page.js", "GET /page/project",
        "GET /page/sessions",
    }
)  # fmt: skip
"""The routes that any program of the user may use: they only show."""
_KINDS: Final = {"css": "text/css", "js": "text/javascript"}


class Page:
    """The page of one manager: `show` renders it, `routes` are what it loads and sends."""

    def __init__(
        self,
        services: Services,
        status: Callable[[], dict[str, Any]],
        access: Access,
        command: ServerCommand,
        moments: Callable[[], Sequence[Moment]],
        *,
        waiting_calls: WaitingCalls,
        sign_ins: SignIns,
    ) -> None:
        self._means = Means(services, ToolChanges(services, command), waiting_calls, access, sign_ins)
        self._projects = Projects(services, status, command)
        self._access = access
        self._live = LivePages(services, partial(_completed, status, waiting_calls, access), moments)
        self._cookie = f"lmtb-page-{services.port}"

    async def show(self, _: web.Request) -> web.Response:
        """The whole page, as it is now."""
        return html_response(200, page(await self._live.view()))

    async def _show_project(self, request: web.Request) -> web.Response:
        view = await self._projects.view(request.query.get("id", ""))
        return (
            html_response(404, unknown_project()) if view is None else html_response(200, project_page(view))
        )

    def routes(self) -> list[web.RouteDef]:
        """What the page loads and sends, but not the page itself."""
        assets = [web.get(path, _asset(name), allow_head=False) for name, path in ASSET_PATHS.items()]
        return [
            *assets,
            web.get("/page/project", self._show_project, allow_head=False),
            web.get("/page/changes", self._changes, allow_head=False),
            web.post("/page/session", self._open_session),
            web.post("/page/action", self._act),
        ]

    async def close(self, _: web.Application) -> None:
        """End what runs for open pages."""
        await self._live.close()
        await self._means.sign_ins.close()

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        if self._live.is_full:
            return _failure(503, "Too many pages are open: close one.")
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        changes = self._live.changes()
        try:
            async for parts in changes:
                await response.write(sse.encode(json.dumps(parts).encode()) if parts else sse.KEEP_ALIVE)
        except ConnectionError:
            pass  # the page was closed
        finally:
            await changes.aclose()
        return response

    async def _open_session(self, request: web.Request) -> web.Response:
        message = await _message(request)
        if isinstance(message, web.Response):
            return message
        opened = self._access.open_session(str(message.get("ticket")), request.headers.get("User-Agent", ""))
        if opened is None:
            return _failure(403, "This link was used already or is older than a minute: run lmtb ui again.")
        response = _json(200, {"ok": True, "proof": opened.proof})
        response.set_cookie(self._cookie, opened.cookie, httponly=True, samesite="Strict", path="/page")
        return response

    async def _act(self, request: web.Request) -> web.Response:
        cookie, proof = request.cookies.get(self._cookie, ""), request.headers.get(PROOF_HEADER, "")
        if not self._access.may_act(cookie, proof):
            return _failure(403, "This page may only read. To act, open it with: lmtb ui")
        message = await _message(request)
        if isinstance(message, web.Response):
            return message
        result = await act(self._means, str(message.get("action")), message)
        link = {} if result.url is None else {"url": result.url}
        return _json(200, {"ok": result.ok, "text": result.text, **link})


def make_page(parts: DaemonParts, paths: Paths, access: Access) -> Page:
    """The page of a daemon with these parts."""
    services, status, measures = parts.services, parts.status, parts.measures
    return Page(
        services,
        status,
        access,
        ServerCommand(paths, lambda: services.status().path),
        lambda: measures.history.moments,
        waiting_calls=parts.waiting_calls,
        sign_ins=SignIns(paths, lambda: services.status().path),
    )


def _completed(
    status: Callable[[], dict[str, Any]], waiting_calls: WaitingCalls, access: Access
) -> dict[str, Any]:
    """The status with the arguments of calls that wait, which a person has to see, and who may act."""
    return {**status(), "approvals": waiting_calls.questions(), "browsers": access.as_json()}


def access_routes(access: Access, address: str | None) -> list[web.RouteDef]:
    """The routes of the control socket: who may act is decided there.

    Args:
        address: the URL of the page; None for a manager without a port, which has no page.
    """

    async def issue(request: web.Request) -> web.Response:
        if address is None:
            text = "the manager has no port, so it has no page; set tcp = true, then run: lmtb restart"
            return refusal(409, "no_port", message=text)
        # in the fragment: browsers send it to nobody, and it is in no log
        return success(url=f"{address}#ticket={access.issue_ticket()}", address=address)

    async def listed(_: web.Request) -> web.Response:
        return success(sessions=access.as_json())

    async def revoke(request: web.Request) -> web.Response:
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        number = message.get("number")
        if number is None:
            return success(revoked=access.revoke())
        browser = access.revoke_one(number) if isinstance(number, int) else None
        return success(revoked=0 if browser is None else 1)

    return [
        web.post("/page/ticket", issue),
        web.get("/page/sessions", listed),
        web.post("/page/revoke", revoke),
    ]


def _asset(name: str) -> Handler:
    content = files("lm_tools_bridge.page").joinpath("assets", name).read_bytes()

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=content, content_type=_KINDS[name.rpartition(".")[2]], charset="utf-8")

    return serve


async def _message(request: web.Request) -> dict[str, Any] | web.Response:
    body = await read_body(request, MAX_BODY, BODY_S)
    if isinstance(body, AdmissionRefusal):
        return _failure(body.status, body.reason)
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else _failure(400, "The body is no JSON object.")


def html_response(status: int, text: str) -> web.Response:
    """A page as a response, with the policy that keeps it from loading anything else."""
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
    return web.Response(status=status, text=text, content_type="text/html", headers=headers)


def _failure(status: int, text: str) -> web.Response:
    return _json(status, {"ok": False, "text": text})


def _json(status: int, body: dict[str, Any]) -> web.Response:
    return web.json_response(body, status=status)
