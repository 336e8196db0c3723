"""A manager that requires tokens: every route asks for one, our own programs pass, and a revoked one ends at once.

The same where the system does not tell which user a connection comes from.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.protocol import headers
from lm_tools_bridge.tokens.token import Token, change_tokens, digest_of, new_token
from manager.client import Control, McpClient
from manager.guests import SETTING, UNKNOWN_USERS
from support.clients.page_client import event
from support.processes.managers.manager_in_process import RunningManager, running_manager

pytestmark = pytest.mark.asyncio(loop_scope="module")
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}}  # fmt: skip
ASKED = [
    ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("POST", "/w/x/mcp"), ("GET", "/"), ("GET", "/mcp/status"),
    ("GET", "/mcp/health"), ("GET", "/mcp/log"), ("GET", "/metrics"), ("POST", "/allocate"), ("GET", "/page/page.js"),
    ("GET", "/page/changes"), ("GET", "/page/calls"), ("GET", "/page/project?id=a"), ("POST", "/page/session"),
    ("POST", "/page/action"), ("GET", "/nowhere"),
]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[SETTING, UNKNOWN_USERS])
async def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningManager]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == UNKNOWN_USERS:
            patch.setattr("manager.daemon.find_peer_lookup", lambda: None)
        folder, required = tmp_path_factory.mktemp("tokens"), request.param == SETTING
        async with running_manager(folder, require_token=required) as manager:
            yield manager


@pytest_asyncio.fixture(loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def made(manager: RunningManager, name: str, *scopes: str) -> str:
    secret = new_token()
    token = Token(name, digest_of(secret), scopes, 0)
    change_tokens(manager.paths.tokens_file, lambda found: [*found, token])
    await reload(manager)
    return secret


async def reload(manager: RunningManager) -> dict[str, Any]:
    return await asyncio.to_thread(Control(manager.paths.control_socket).post, "/tokens/reload", {})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("method", "path"), ASKED)
async def test_everything_asks_for_a_token(
    running: RunningManager, http: aiohttp.ClientSession, method: str, path: str
) -> None:
    body = None if method != "POST" else {}
    async with http.request(method, running.base + path, json=body) as response:
        assert response.status == 401
        assert "Bearer" in response.headers["WWW-Authenticate"]
        text = await response.text()
        assert "lmtb token create" in text
        assert (SETTING in text) != (UNKNOWN_USERS in text)


async def test_a_token_opens_a_session_and_its_end_ends_it(
    running: RunningManager, http: aiohttp.ClientSession
) -> None:
    token = await made(running, "laptop", "mcp", "read")
    async with http.post(running.address, json=INITIALIZE, headers=bearer(token)) as response:
        assert response.status == 200
        session = response.headers[headers.SESSION]
    fields = {**bearer(token), headers.SESSION: session, "Accept": "text/event-stream"}
    async with (
        http.get(running.address, headers=fields) as stream,
        http.get(f"{running.base}/page/changes", headers=bearer(token)) as page,
    ):
        assert (stream.status, page.status) == (200, 200)
        await event(page)
        change_tokens(running.paths.tokens_file, lambda _: [])
        told = await reload(running)
        assert told["sessions"] == 1
        assert told["connections"] >= 2
        async with asyncio.timeout(10):
            with pytest.raises(aiohttp.ClientError):
                while await stream.content.readany():
                    pass
                raise aiohttp.ClientError
    fresh = await made(running, "fresh", "mcp")
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    fields = {**bearer(fresh), headers.SESSION: session}
    async with http.post(running.address, json=ping, headers=fields) as response:
        assert response.status == 404, "the session has ended"


async def test_calls_in_the_same_connection_are_looked_at_one_by_one(
    running: RunningManager, http: aiohttp.ClientSession
) -> None:
    reader = await made(running, "reader", "read")
    caller = await made(running, "caller", "mcp")
    ping = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    for _ in range(3):
        async with http.post(running.address, json=ping, headers=bearer(caller)) as response:
            assert response.status != 401
        async with http.post(running.address, json=ping, headers=bearer(reader)) as response:
            assert response.status == 403
        async with http.get(f"{running.base}/metrics", headers=bearer(reader)) as response:
            assert response.status == 200


async def test_our_own_programs_pass_and_nothing_shows_their_token(
    running: RunningManager, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    own = own_headers(running.paths.runtime_dir)
    client = McpClient(running.address, str(tmp_path), "1", own_headers=own)
    answer = await asyncio.to_thread(client.request, "tools/list", {})
    assert "tools" in answer.message["result"]
    token = own["Authorization"].removeprefix("Bearer ")
    texts = [json.dumps(await asyncio.to_thread(Control(running.paths.control_socket).get, "/mcp/status"))]
    async with http.get(f"{running.base}/mcp/log", headers=own) as response:
        texts.append(await response.text())
    assert not [text for text in texts if token in text]
    for file in running.paths.state_dir.rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes()
    assert (running.paths.runtime_dir / "own-token").stat().st_mode & 0o777 == 0o600


async def test_wrong_tokens_are_not_logged(running: RunningManager, http: aiohttp.ClientSession) -> None:
    wrong = "lmtb_a-very-remarkable-guess"
    async with http.get(f"{running.base}/metrics", headers=bearer(wrong)) as response:
        assert response.status == 401
        assert wrong not in await response.text()
    async with http.get(
        f"{running.base}/mcp/log", headers=own_headers(running.paths.runtime_dir)
    ) as response:
        assert wrong not in await response.text()
