"""Admission of the running daemon: every route that it registers, held against the same table.

The rules themselves are tested in `test_page_admission.py`; here it is shown that no route of the product escapes them,
and that a request which was turned away has left no trace.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psutil
import pytest
import pytest_asyncio
from aiohttp import web

from lm_tools_bridge.protocol import headers
from manager.admin import routes
from manager.admin.routes import make_app
from manager.routing.admission import ANSWER_HEADERS
from manager.routing.request_metadata import METHODS
from support.http.admission_cases import (
    CASES,
    JSON_CASES,
    METHODS_NEVER_SERVED,
    Case,
    JsonCase,
    Reply,
    allowed_methods,
    exchange,
    parse_reply,
    request,
)
from support.processes.managers.manager_in_process import RunningManager, running_manager

pytestmark = pytest.mark.asyncio(loop_scope="module")
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize",'
    b'"params":{"protocolVersion":"2025-11-25","capabilities":{}}}'
)
EXPECTED = {
    "/": {"GET"},
    "/mcp": {"POST", "GET", "DELETE"},
    "/mcp/": {"POST", "GET", "DELETE"},
    "/w/x/mcp": {"POST", "GET", "DELETE"},
    "/mcp/status": {"GET"},
    "/mcp/status/": {"GET"},
    "/mcp/log": {"GET"},
    "/mcp/log/": {"GET"},
    "/mcp/health": {"GET"},
    "/metrics": {"GET"},
    "/allocate": {"POST"},
    "/page/page.css": {"GET"},
    "/page/page.js": {"GET"},
    "/page/changes": {"GET"},
    "/page/session": {"POST"},
    "/page/action": {"POST"},
    "/page/project": {"GET"},
    "/page/calls": {"GET"},
    "/page/call": {"GET"},
    "/page/calls/figures": {"GET"},
    "/team/x": {"POST"},
}
ROUTES = [(method, path) for path, methods in EXPECTED.items() for method in sorted(methods)]
UNKNOWN = (
    "/nowhere", "/favicon.ico", "/w", "/w/x", "/w/x/y/mcp", "/mcp/nowhere", "/MCP", "//mcp", "/mcp/..", "/%6dcp/x",
    "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration", "/.well-known/oauth-protected-resource/mcp", "/.well-known/",
    "/mcp/.well-known/oauth-protected-resource", "/heartbeat", "/bye", "/resolve", "/list", "/shutdown", "/status",
    "/health", "/register", "/authorize", "/token",
)  # fmt: skip


@dataclass
class Served:
    manager: RunningManager
    app: web.Application

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.manager.port}"

    async def ask(self, raw: bytes) -> Reply:
        return await exchange(self.manager.port, raw, within=10)

    async def send(self, method: str, path: str, *extra: str, body: bytes | None = None) -> Reply:
        return await self.ask(request(method, path, self.host, "Connection: close", *extra, body=body))

    async def traces(self) -> tuple[int, ...]:
        """What requests could have left behind."""
        shown = json.loads((await self.send("GET", "/mcp/status")).body)
        counted = (shown[key] for key in ("sessions", "workspaces", "instances", "streams"))
        return (*counted, len(shown["reservations"]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    apps: list[web.Application] = []

    def kept(*parts: object) -> web.Application:
        apps.append(make_app(*parts))  # passed through as they are
        return apps[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manager.listener.pages.make_app", kept)
        async with running_manager(tmp_path_factory.mktemp("admission")) as manager:
            await exchange(
                manager.port, request("GET", "/", f"127.0.0.1:{manager.port}", "Connection: close")
            )
            yield Served(manager, apps[0])


def assert_guarded(reply: Reply) -> None:
    assert all(name.lower() in reply.headers for name, _ in ANSWER_HEADERS)
    assert not [name for name in reply.headers if name.startswith("access-control-") or name == "server"]
    assert reply.headers["content-type"].startswith("application/json")


async def test_the_routes_are_exactly_these(served: Served) -> None:
    """A new route must be added here, and is then held against the whole table."""
    mcp = {path: set(METHODS) for path in ("/mcp", "/mcp/", "/w/x/mcp")}
    assert allowed_methods(served.app) | mcp == EXPECTED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_no_route_lets_in_what_must_stay_out(case: Case, served: Served) -> None:
    """404s included; nothing executed, no session made."""
    before = await served.traces()
    unknown = [("GET", "/nowhere"), ("POST", "/.well-known/x"), ("PUT", "/mcp"), ("OPTIONS", "/mcp")]
    requested = [(method, path) for method, path in [*ROUTES, *unknown] if case.method in (None, method)]
    replies = await asyncio.gather(
        *(served.ask(case.build(method, path, served.host)) for method, path in requested)
    )
    for place, reply in zip(requested, replies, strict=True):
        assert reply.status in case.statuses, (place, reply)
        assert_guarded(reply)
        error = json.loads(reply.body)["error"]
        assert (error["message"] if isinstance(error, dict) else error) != ""
        assert headers.SESSION.lower() not in reply.headers
    assert await served.traces() == before


@pytest.mark.parametrize("method", METHODS_NEVER_SERVED)
async def test_a_wrong_method_is_405_with_a_true_allow(method: str, served: Served) -> None:
    for path, allowed in EXPECTED.items():
        reply = await served.send(method, path)
        assert (reply.status, reply.headers["allow"]) == (405, ", ".join(sorted(allowed))), path
        assert_guarded(reply)


@pytest.mark.parametrize("path", ["/mcp/log", "/mcp/log/"])
async def test_the_log_is_a_page_for_browsers(path: str, served: Served) -> None:
    browser = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
    for target, field in ((path, browser), (f"{path}?format=html", "Accept: */*")):
        page = await served.send("GET", target, field)
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"] == routes.POLICY
        assert (page.headers["cache-control"], page.headers["x-frame-options"]) == ("no-store", "DENY")
    for target, field in ((path, "Accept: */*"), (f"{path}?format=json", browser)):
        assert json.loads((await served.send("GET", target, field)).body)["ok"] is True


@pytest.mark.parametrize("path", UNKNOWN)
async def test_an_unknown_path_is_404_json_and_never_401(path: str, served: Served) -> None:
    """Clients look for OAuth there; an answer that is no JSON, or a 401, sends them on a long way."""
    for method in ("GET", "POST"):
        reply = await served.send(method, path, "Accept: text/html")
        assert (reply.status, json.loads(reply.body)) == (404, {"error": "Not Found"})
        assert "www-authenticate" not in reply.headers
        assert_guarded(reply)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/w/x/mcp"])
@pytest.mark.parametrize("case", JSON_CASES, ids=lambda case: case.name)
async def test_a_body_that_is_no_json_is_refused_at_every_route(
    case: JsonCase, path: str, served: Served
) -> None:
    """The process lives, the answer names no id."""
    reply = await served.send("POST", path, body=case.body)
    answer = json.loads(reply.body)
    if case.code is None:  # served: a request without a session, or to a workspace nobody knows
        assert (reply.status, answer["id"]) == (404 if path == "/w/x/mcp" else 400, 1)
    else:
        assert (reply.status, answer["id"], answer["error"]["code"]) == (400, None, case.code)


SHAPES = [
    (b"[]", None),
    (b"[" + INITIALIZE + b"]", None),
    (b"[" + b",".join([INITIALIZE] * 10_000) + b"]", None),
    (b'"initialize"', None),
    (b"7", None),
    (b"null", None),
    (b"{}", None),
    (INITIALIZE.replace(b'"2.0"', b'"1.0"'), 1),
    (INITIALIZE.replace(b'"2.0"', b"2.0"), 1),
    (INITIALIZE.replace(b'"initialize"', b"5"), 1),
    (INITIALIZE.replace(b'"id":1', b'"id":null'), None),
    (INITIALIZE.replace(b'"id":1', b'"id":1.5'), None),
    (INITIALIZE.replace(b'"id":1', b'"id":true'), None),
    (INITIALIZE.replace(b'"id":1', b'"id":{}'), None),
    (INITIALIZE.replace(b'"id":1', b'"id":"' + b"x" * 300 + b'"'), None),
    (INITIALIZE.replace(b'"id":1', b'"id":1,"id":2'), None),
    (INITIALIZE.replace(b'"params"', b'"method":"ping","params"'), None),
]


@pytest.mark.parametrize(("body", "identity"), SHAPES, ids=lambda value: str(value)[:40])
async def test_a_shape_that_is_no_message_is_refused_and_makes_no_session(
    body: bytes, identity: object, served: Served
) -> None:
    before = await served.traces()
    for path in ("/mcp", "/w/x/mcp"):
        reply = await served.send("POST", path, body=body)
        answer = json.loads(reply.body)
        assert (reply.status, answer["error"]["code"], answer["id"]) == (400, -32600, identity)
    assert await served.traces() == before


async def test_it_listens_on_the_loopback_address_alone(served: Served) -> None:
    listening = [
        connection.laddr
        for connection in psutil.Process().net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == served.manager.port
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="needs another user's process",
)
async def test_another_user_is_refused_on_every_route(served: Served) -> None:
    """Also with a valid session id, also on paths that do not exist."""
    opened = await served.send("POST", "/mcp", body=INITIALIZE)
    session = f"{headers.SESSION}: {opened.headers[headers.SESSION.lower()]}"
    before = await served.traces()
    for method, path in [*ROUTES, ("GET", "/nowhere"), ("PUT", "/mcp")]:
        body = INITIALIZE if method == "POST" else None
        raw = request(method, path, served.host, "Connection: close", session, body=body)
        reply = await _as_nobody(served.manager.port, raw)
        assert reply.status == 403, (method, path)
        assert_guarded(reply)
    assert await served.traces() == before


async def _as_nobody(port: int, raw: bytes) -> Reply:
    script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; head -c {len(raw)} >&3; cat <&3"
    client = await asyncio.create_subprocess_exec(
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", script,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    answer, _ = await asyncio.wait_for(client.communicate(raw), 10)
    return parse_reply(answer)
