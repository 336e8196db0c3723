"""On a connection that is not of this user, every request needs a token, whoever answers it."""

from __future__ import annotations

import socket
from pathlib import Path

import aiohttp

from lm_tools_bridge.tokens.gate import TokenGate
from lm_tools_bridge.tokens.token import Token, digest_of
from lm_tools_bridge.tokens.token_file import change_tokens
from manager.http import lazy_aiohttp as web
from manager.listener.runner import Runner
from manager.routing.request_heads.admission import AdmissionRules


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
