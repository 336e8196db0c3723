"""On a connection that is not of this user, every request needs a token, whoever answers it."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import aiohttp
import pytest

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import RequestHead
from lm_tools_bridge.tokens.part import WRONG_AT_ONCE, Guest, TokenGate
from lm_tools_bridge.tokens.token import Token, change_tokens, digest_of, scope_of, shown_token
from manager.guests import UNKNOWN_USERS
from manager.http import lazy_aiohttp as web
from manager.listener.runner import Runner
from manager.routing.admission import AdmissionRules
from support.recorded_calls import Clock


def app_of(executed: list[str]) -> web.Application:
    async def page(request: web.Request) -> web.Response:
        executed.append(request.path)
        return web.json_response({"ok": True})

    app = web.Application()
    app.router.add_get("/", page, allow_head=False)
    app.router.add_post("/mcp", page)
    return app


def gate_of(folder: Path) -> TokenGate:
    change_tokens(folder / "tokens.json", lambda _: [Token("a", digest_of("lmtb_secret"), ("read",), 0)])
    gate = TokenGate(folder / "tokens.json")
    gate.load()
    return gate


async def test_connections_of_others_need_a_token_with_every_request(tmp_path: Path) -> None:
    executed: list[str] = []
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    rules = AdmissionRules.for_ports([port])
    runner = Runner(lambda: app_of(executed), rules, peer_check=lambda _: False, gate=gate_of(tmp_path))
    (server,) = await runner.listen([sock])
    token = {"Authorization": "Bearer lmtb_secret"}
    base = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as http:
            for headers, path, status in [
                (token, "/", 200), ({}, "/", 401), (token, "/", 200), ({}, "/mcp", 401), (token, "/mcp", 403),
            ]:  # fmt: skip
                method, body = ("GET", None) if path == "/" else ("POST", {})
                async with http.request(method, base + path, headers=headers, json=body) as response:
                    assert response.status == status, path
    finally:
        server.close()
        await runner.cleanup()
    assert executed == ["/", "/"]


SECRET = "lmtb_a-secret"


class Scene:
    def __init__(self, folder: Path, *scopes: str, expires: int | None = None, required: bool = True) -> None:
        self.path, self.clock = folder / "state" / "tokens.json", Clock()
        self.tokens = [Token("laptop", digest_of(SECRET), scopes or ("mcp",), 0, expires)]
        self.save()
        self.gate = TokenGate(
            self.path, required=UNKNOWN_USERS if required else None, own="lmtb_own",
            wall=lambda: self.clock.wall, now=lambda: self.clock.monotonic,
        )  # fmt: skip
        self.gate.load()
        self.ended = 0

    def save(self) -> None:
        change_tokens(self.path, lambda _: self.tokens)

    def guest(self, *, is_own: bool = False) -> Guest:
        return self.gate.guest(self._end, is_own=is_own)

    def _end(self) -> None:
        self.ended += 1


def head(
    method: str = "POST", target: str = "/mcp", token: str | None = SECRET, field: bytes = b""
) -> RequestHead:
    shown = field or (b"" if token is None else f"Bearer {token}".encode())
    return RequestHead(method, target, ((b"Authorization", shown),) if shown else ())


def status(refusal: AdmissionRefusal | None) -> int:
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("method", "target", "scope"),
    [
        ("POST", "/mcp", "mcp"), ("GET", "/mcp/", "mcp"), ("DELETE", "/w/a/mcp?x", "mcp"),
        ("POST", "/team/build", "mcp"), ("GET", "/", "read"),
        ("GET", "/metrics", "read"), ("GET", "/mcp/status", "read"), ("GET", "/page/calls?tool=a", "read"),
        ("POST", "/page/action", "act"), ("POST", "/allocate", "act"), ("PUT", "/", "act"),
    ],
)  # fmt: skip
def test_each_request_needs_one_scope(method: str, target: str, scope: str, tmp_path: Path) -> None:
    assert scope_of(method, target) == scope
    scene = Scene(tmp_path, scope)
    assert scene.guest().refuse(head(method, target), None) is None
    other = Scene(tmp_path / "other", *({"mcp", "read", "act"} - {scope}))
    refusal = other.guest().refuse(head(method, target), None)
    assert refusal is not None
    assert refusal.status == 403
    assert f'scope="{scope}"' in dict(refusal.headers)["WWW-Authenticate"]
    assert f"--scope {scope}" in refusal.reason


@pytest.mark.parametrize("token", [None, "", "lmtb_wrong", SECRET + "x", SECRET[:-1], SECRET.upper()])
def test_other_texts_are_refused_with_what_to_do(token: str | None, tmp_path: Path) -> None:
    refusal = Scene(tmp_path).guest().refuse(head(token=token), None)
    assert refusal is not None
    assert refusal.status == 401
    assert dict(refusal.headers)["WWW-Authenticate"].startswith('Bearer realm="lm-tools-bridge"')
    assert "lmtb token create" in refusal.reason
    assert token is None or len(token) < 5 or token not in refusal.reason


def test_the_refusal_says_why_everybody_is_asked(tmp_path: Path) -> None:
    refusal = Scene(tmp_path).guest().refuse(head(token=None), None)
    assert refusal is not None
    assert refusal.reason.startswith(f"a token is required here ({UNKNOWN_USERS}); make one")
    others = Scene(tmp_path / "others", required=False).guest().refuse(head(token=None), None)
    assert others is not None
    assert others.reason.startswith("a token is required here; make one")


def test_a_browser_is_asked_for_the_token_as_a_password_but_not_at_mcp_endpoints(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "read", "mcp")
    refusal = scene.guest().refuse(head("GET", "/", None), None)
    assert refusal is not None
    assert any(value.startswith("Basic ") for _, value in refusal.headers)
    basic = f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}".encode()
    fields = ((b"authorization", basic),)
    assert scene.guest().refuse(RequestHead("GET", "/", fields), None) is None
    assert status(scene.guest().refuse(RequestHead("POST", "/mcp", fields), None)) == 401
    assert shown_token(b"Basic !!", is_mcp=False) is None
    assert shown_token(b"Basic " + b"A" * 10_000, is_mcp=False) is None


def test_only_connections_of_others_are_asked_unless_all_have_to_be(tmp_path: Path) -> None:
    gate = Scene(tmp_path, required=False).gate
    assert not gate.asks(is_own=True)
    assert gate.asks(is_own=False)
    assert Scene(tmp_path / "b").gate.asks(is_own=True)
    without = TokenGate(tmp_path / "none.json")
    without.load()
    assert not without.asks(is_own=False), "without tokens others are refused as before"


def test_a_revoked_token_ends_its_connections_and_names_its_sessions(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    used, other = scene.guest(), scene.guest()
    assert used.refuse(head(), "session-1") is None
    assert other.refuse(head(token="lmtb_own"), "session-2") is None
    scene.tokens = []
    scene.save()
    scene.gate.load()
    assert status(used.refuse(head(), None)) == 401, "also where it was remembered"
    ended = scene.gate.end_revoked()
    assert (ended.connections, ended.sessions, scene.ended) == (1, ("session-1",), 1)
    used.leave()
    assert scene.gate.end_revoked() == (0, ())


def test_an_expired_token_is_refused_and_ends_its_connections(tmp_path: Path) -> None:
    scene = Scene(tmp_path, expires=round((Clock().wall + 60) * 1000))
    guest = scene.guest()
    assert guest.refuse(head(), None) is None
    scene.clock.pass_time(61)
    refusal = guest.refuse(head(), None)
    assert refusal is not None
    assert "expired" in refusal.reason
    assert scene.gate.end_revoked().connections == 1


def test_wrong_tokens_are_slowed_down_for_those_who_send_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for number in range(WRONG_AT_ONCE):
        assert status(scene.guest().refuse(head(token=f"lmtb_{number}"), None)) == 401
    refusal = scene.guest().refuse(head(token="lmtb_x"), None)
    assert refusal is not None
    assert (refusal.status, dict(refusal.headers)["Retry-After"]) == (429, "1")
    assert scene.guest().refuse(head(), None) is None, "who sends a right token is not slowed down"
    assert status(scene.guest(is_own=True).refuse(head(token="lmtb_x"), None)) == 401
    scene.clock.pass_time(1)
    assert status(scene.guest().refuse(head(token="lmtb_x"), None)) == 401


def test_a_password_that_passed_on_a_page_does_not_pass_at_an_mcp_endpoint(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "mcp", "read")
    password = b"Basic " + base64.b64encode(b"me:" + SECRET.encode())
    guest = scene.guest()
    assert guest.refuse(head("GET", "/mcp/status", field=password), None) is None
    assert status(guest.refuse(head("POST", "/mcp", field=password), None)) == 401


def test_a_connection_that_has_passed_is_not_slowed_down(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    guest = scene.guest()
    assert guest.refuse(head(), None) is None
    for number in range(2 * WRONG_AT_ONCE):
        scene.guest().refuse(head(token=f"lmtb_{number}"), None)
    assert guest.refuse(head(), None) is None


@pytest.mark.parametrize(
    "content", [b"{", b'{"version":2,"tokens":[]}', b'{"version":1,"tokens":[{"name":"a"}]}',
                b'{"version":1,"tokens":[{"name":"a","digest":"b","scopes":["all"],"created":0}]}'],
)  # fmt: skip
def test_a_file_that_cannot_be_used_lets_nobody_in(content: bytes, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.path.write_bytes(content)
    scene.gate.load()
    assert scene.gate.problem is not None
    assert status(scene.guest().refuse(head(), None)) == 401


def test_a_file_that_others_can_read_lets_nobody_in(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.path.stat().st_mode & 0o777 == 0o600
    assert SECRET.encode() not in scene.path.read_bytes()
    scene.path.chmod(0o644)
    scene.gate.load()
    assert status(scene.guest().refuse(head(), None)) == 401
