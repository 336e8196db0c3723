"""No program of ours sends a secret to a port on which another user listens."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.agent.manager_client.transport import Transport, Undelivered
from lm_tools_bridge.agent.tool_service.client import ToolClient
from lm_tools_bridge.client_setup.played_client import INTRODUCTIONS, PlayedClient, Unanswered
from lm_tools_bridge.machine import proved_server
from lm_tools_bridge.machine.peer_uid import SocketOwner
from lm_tools_bridge.machine.proved_connector import ProvedConnector
from lm_tools_bridge.machine.proved_server import ServedByOthers, require_own_server
from lm_tools_bridge.recorder.replay import Plan, _client
from manager.client import ManagerFault, McpClient
from manager.upstream.failures import UpstreamFailure
from manager.upstream.pool import Pool
from workspace_server.sources.mcp.remote.network import CheckedBackend

ROOT = Path(__file__).parents[3]
SECRET = {"Authorization": "Bearer lmtb_secret"}


class Listener:
    """A port on which somebody listens, who does not even accept: the kernel opens connections anyway."""

    def __init__(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        self._socket = listening
        self.port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/mcp"

    def heard(self) -> list[bytes]:
        """What arrived on each connection so far."""
        arrived: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.setblocking(False)
                    try:
                        arrived.append(connection.recv(65536))
                    except (BlockingIOError, ConnectionError):
                        arrived.append(b"")
        return arrived


@pytest.fixture
def listener() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Listener(listening)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener is another user's."""
    monkeypatch.setattr(proved_server, "tcp_listener", lambda _: SocketOwner(os.getuid() + 1, 1))
    monkeypatch.setattr(proved_server, "is_served_by_us", lambda *_: False)


async def by_call(listener: Listener) -> None:
    client = McpClient(listener.address, "/", "1", own_headers=SECRET)
    with pytest.raises(ManagerFault):
        await asyncio.to_thread(client.request, "tools/list", {})


async def by_agent(listener: Listener) -> None:
    async with aiohttp.ClientSession(connector=ProvedConnector(always=True)) as http:
        transport = Transport(http, listener.address, "/", lambda: SECRET)
        with pytest.raises(Undelivered, match="no program of yours"):
            async with transport.send("POST", b"{}", {}):
                pass


async def by_agent_at_an_address_of_the_users(listener: Listener) -> None:
    async with aiohttp.ClientSession(connector=ProvedConnector(always=False)) as http:
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get(listener.address, headers=SECRET)


async def by_connect(listener: Listener) -> None:
    fields = [(b"Authorization", b"Bearer lmtb_secret")]
    pool = Pool("127.0.0.1", listener.port, verify=lambda *_: True, verify_headers=fields)
    with pytest.raises(UpstreamFailure, match="identity_mismatch"):
        await pool.request(b"GET", b"/", fields, b"")
    await pool.close()


async def by_replay(listener: Listener) -> None:
    plan = Plan(listener.address, lambda _: False, own_headers=SECRET)
    with pytest.raises(BaseException):  # noqa: B017  the SDK wraps it in a group
        async with _client(plan) as client:
            await client.list_tools()


async def by_doctor(listener: Listener) -> None:
    player = PlayedClient(next(iter(INTRODUCTIONS.values())), listener.address, SECRET, "file:///", 5.0)
    with pytest.raises(Unanswered, match="no program of yours"):
        await asyncio.to_thread(player.play)


async def by_offer_of_a_team(listener: Listener) -> None:
    backend = CheckedBackend(allow_private=True, is_literal=lambda _: True, is_own_manager=True)
    with pytest.raises(Exception, match="no program of yours"):
        await backend.connect_tcp("127.0.0.1", listener.port, 5.0)


async def by_tool_client(listener: Listener) -> None:
    told = asyncio.Event()
    url = f"ws://127.0.0.1:{listener.port}/tools"
    async with ToolClient(url, token="lmtb_secret", on_state=lambda _: told.set()):
        await told.wait()


Sender = Callable[[Listener], Awaitable[None]]
SENDERS: list[Sender] = [
    by_call, by_agent, by_agent_at_an_address_of_the_users, by_connect, by_replay, by_doctor, by_offer_of_a_team,
    by_tool_client,
]  # fmt: skip


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("send", SENDERS, ids=lambda send: send.__name__)
async def test_nothing_reaches_a_listener_of_another_user(listener: Listener, send: Sender) -> None:
    async with asyncio.timeout(30):
        await send(listener)
    heard = listener.heard()
    assert heard, "it did connect"
    assert set(heard) == {b""}


HAS_TOKEN = {
    "lm_tools_bridge/agent/assembly.py",
    "lm_tools_bridge/code_intelligence/edit_hook.py",
    "lm_tools_bridge/recorder/cli/replay.py",
    "manager/cli/call.py",
    "manager/stdio_bridge/bridge.py",
    "lm_tools_bridge/team/team.py",
    "workspace_server/sources/mcp/remote/authorization.py",
}
"""Modules that have the own token to send it. The senders above stand for them; its own feature makes it."""


def test_every_module_that_has_the_own_token_has_a_sender_above() -> None:
    packages = ("lm_tools_bridge", "manager", "workspace_server")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    users = {
        str(file.relative_to(ROOT))
        for file in files
        if "own_token" in (text := file.read_text())  # parsing all takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module == "lm_tools_bridge.machine.own_token"
    }
    assert {user for user in users if not user.startswith("lm_tools_bridge/tokens/")} == HAS_TOKEN


async def test_without_a_secret_only_a_known_other_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: Any = (("127.0.0.1", 1), ("127.0.0.1", 2))
    monkeypatch.setattr(proved_server, "tcp_listener", lambda _: None)
    monkeypatch.setattr(proved_server, "_is_listener_of_this_user", lambda _: False)
    require_own_server(*ends, has_secret=False)
    with pytest.raises(ServedByOthers, match=r"127\.0\.0\.1:2"):
        require_own_server(*ends, has_secret=True)


async def test_where_the_kernel_tells_no_owner_the_processes_do(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proved_server, "tcp_listener", lambda _: None)
    ends: Any = (("127.0.0.1", 1), ("127.0.0.1", listener.port))
    await asyncio.to_thread(lambda: require_own_server(*ends, has_secret=True))


def test_an_accepted_connection_is_proved_after_its_listener_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    with client, accepted:
        require_own_server(client.getsockname(), client.getpeername(), has_secret=True)
        monkeypatch.setattr(proved_server, "tcp_peer_uid", lambda *_: os.getuid() + 1)
        with pytest.raises(ServedByOthers):
            require_own_server(client.getsockname(), client.getpeername(), has_secret=True)
