"""The internal channel over a real socket: authentication, framing, methods, limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.machine import private_files
from support.processes.child_processes import answer_to_script
from support.processes.timeouts import within
from workspace_server.internal_channel import channel as addresses
from workspace_server.internal_channel.channel import InternalChannel, make_channel, new_address
from workspace_server.internal_channel.connection import DEFAULTS, ChannelLimits
from workspace_server.secrets.store import open_store

SCHEMA = {"type": "object"}
QUICK = replace(DEFAULTS, poll_s=0.03)


class Tools:
    """A toolbox with a tool that answers, one that waits, one that fails."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.released = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def listed(self) -> list[Mapping[str, Any]]:
        extra = {"title": "T", "annotations": {}}
        return [
            {"name": "read", "description": "Reads", "inputSchema": SCHEMA, **extra},
            {"name": "Bare", "inputSchema": SCHEMA},
            {"name": "openllm_forged", "description": "", "inputSchema": SCHEMA},
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.called.append(name)
        if name == "wait":
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if name == "fault":
            raise RuntimeError("boom")
        if name == "broken":
            return {"error": {"code": -32603, "message": "it broke"}}
        if name in ("read", "wait"):
            return {
                "result": {"content": [{"type": "text", "text": json.dumps(arguments)}], "isError": False}
            }
        data = {"reason": "tool_not_found", "details": {"nearest": ["read"]}}
        return {"error": {"code": -32602, "message": f"Tool not found or disabled: {name}", "data": data}}


class Peer:
    """A program on the channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, auth: str) -> None:
        self.reader, self.writer, self.auth = reader, writer, auth
        self._notifications: deque[Any] = deque()
        """Those that came before an answer: a change may be noticed while it is answered."""

    def send(self, method: str, params: Mapping[str, Any] | None = None, **envelope: Any) -> None:
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {"auth": self.auth, **(params or {})},
        }
        self.writer.write(json.dumps({**message, **envelope}).encode() + b"\n")

    async def receive(self) -> Any:
        return self._notifications.popleft() if self._notifications else await self._read()

    async def _read(self) -> Any:
        line = await asyncio.wait_for(self.reader.readline(), within(5))
        assert line, "the connection was closed"
        return json.loads(line)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        self.send(method, params)
        while "id" not in (message := await self._read()):
            self._notifications.append(message)
        return message

    async def call(self, name: str, **arguments: Any) -> Any:
        return (await self.ask("tools/call", {"name": name, "arguments": arguments}))["result"]

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(), within(5)) == b""
        except ConnectionError:
            return True


class Running:
    def __init__(
        self, folder: Path, tools: Tools, channel: InternalChannel, stack: contextlib.AsyncExitStack
    ) -> None:
        self.folder, self.tools, self.channel, self._stack = folder, tools, channel, stack

    async def peer(self, auth: str | None = None) -> Peer:
        found = json.loads((self.folder / "run" / "internal" / "w.json").read_text())
        reader, writer = await asyncio.open_unix_connection(found["socket"])
        self._stack.callback(writer.close)
        return Peer(reader, writer, found["auth"] if auth is None else auth)


@contextlib.asynccontextmanager
async def running(folder: Path, limits: ChannelLimits = QUICK, **other: Any) -> AsyncIterator[Running]:
    (folder / "project").mkdir()
    tools = Tools()
    channel = make_channel(
        workspace="w", root=folder / "project", folders=[folder / "project"], config_dir=folder / "config",
        state_dir=folder / "state", runtime_dir=folder / "run", store=open_store(folder / "state", {}),
        toolbox=tools, version="1.2.3", limits=limits, **other,
    )  # fmt: skip
    await channel.start()
    try:
        async with contextlib.AsyncExitStack() as stack:
            yield Running(folder, tools, channel, stack)
    finally:
        await asyncio.wait_for(channel.stop(), within(5))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as server:
        yield server


@pytest.fixture
async def peer(server: Running) -> Peer:
    return await server.peer()


# who may talk ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="scripts are confined on Linux")
async def test_a_confined_script_gets_no_answer_although_it_can_read_the_token(
    server: Running, tmp_path: Path
) -> None:
    found = json.loads((tmp_path / "run" / "internal" / "w.json").read_text())
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"auth": found["auth"]}}
    text = json.dumps(message) + "\n"
    assert await answer_to_script(Path(found["socket"]), text, tmp_path / "project") == b""
    assert "result" in await (await server.peer()).ask("tools/list")


@pytest.mark.parametrize("auth", ["", "0" * 64, "ü", 7, None, ["x"]])
async def test_a_wrong_token_is_refused_before_anything_is_evaluated(server: Running, auth: Any) -> None:
    peer = await server.peer()
    for method in ("tools/list", "tools/call", "secrets/get", "no/such/method"):
        peer.send(method, {"auth": auth, "name": "read", "key": "k"})
        said = await peer.receive()
        assert said == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "Unauthorized"}}
    peer.writer.write(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read"}}\n')
    assert (await peer.receive())["error"]["message"] == "Unauthorized"
    assert server.tools.called == []


async def test_ping_needs_no_token(server: Running) -> None:
    peer = await server.peer("")
    assert (await peer.ask("lifecycle/ping"))["result"] == {"ok": True, "version": "1.2.3"}


async def test_another_users_program_is_refused(tmp_path: Path) -> None:
    """Whoever holds the token, the kernel says whose process it is."""
    async with running(tmp_path) as server:
        server.channel._own_uid = os.geteuid() + 1
        stranger = await server.peer()
        stranger.send("lifecycle/ping")
        assert await stranger.is_closed()


async def test_repeated_wrong_tokens_close_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path, replace(QUICK, failures=3)) as server:
        peer = await server.peer("wrong")
        for _ in range(3):
            assert (await peer.ask("secrets/list"))["error"]["message"] == "Unauthorized"
        assert await peer.is_closed()


async def test_more_connections_than_allowed_are_closed_and_the_others_live(tmp_path: Path) -> None:
    async with running(tmp_path, replace(QUICK, connections=2)) as server:
        first, second = await server.peer(), await server.peer()
        assert "result" in await first.ask("secrets/list")
        assert "result" in await second.ask("secrets/list")
        third = await server.peer()
        assert await third.is_closed()
        assert "result" in await first.ask("secrets/list")


async def test_a_missing_token_or_incomplete_message_times_out(tmp_path: Path) -> None:
    async with running(tmp_path, replace(QUICK, unauthenticated_s=0.05, message_s=0.1)) as server:
        silent, known, slow = [await server.peer() for _ in range(3)]
        assert "result" in await known.ask("secrets/list")
        slow.writer.write(b'{"jsonrpc"')
        assert await silent.is_closed()
        assert await slow.is_closed()
        assert "result" in await known.ask("secrets/list"), "a peer that has shown the token may be silent"


def test_both_event_loops_work(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def talk() -> None:
        async with running(tmp_path) as server:
            peer = await server.peer()
            assert (await peer.ask("secrets/list"))["result"] == {"keys": []}
            stranger = await server.peer("wrong")
            assert "error" in await stranger.ask("secrets/list")
            server.channel._own_uid += 1
            assert await (await server.peer()).is_closed()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())


# forms ----------------------------------------------------------------------------------------------------


async def test_length_form_is_answered_in_kind_byte_by_byte(server: Running) -> None:
    peer = await server.peer()
    body = {"jsonrpc": "2.0", "id": "ü", "method": "tools/call"}
    body["params"] = {"auth": peer.auth, "name": "read", "arguments": {"t": "é\U0001f600"}}
    raw = json.dumps(body, ensure_ascii=False).encode()
    for byte in b"content-length: %d\r\n\r\n" % len(raw) + raw:
        peer.writer.write(bytes([byte]))
    head = await asyncio.wait_for(peer.reader.readuntil(b"\r\n\r\n"), within(5))
    assert head.startswith(b"Content-Length: ")
    answer = json.loads(await peer.reader.readexactly(int(head[16:])))
    assert answer["id"] == "ü"
    assert json.loads(answer["result"]["content"][0]["text"]) == {"t": "é\U0001f600"}


async def test_two_messages_at_once_are_both_answered(server: Running, peer: Peer) -> None:
    peer.send("lifecycle/ping", id=1)
    peer.send("lifecycle/ping", id=2)
    assert [(await peer.receive())["id"], (await peer.receive())["id"]] == [1, 2]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"hello", -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b"[" * 3000, -32700),
        (b"\xff", -32700),
    ],
)
async def test_an_invalid_message_gets_an_error_with_a_null_id(peer: Peer, line: bytes, code: int) -> None:
    peer.writer.write(line + b"\n")
    said = await peer.receive()
    assert (said["id"], said["error"]["code"]) == (None, code)
    assert "result" in await peer.ask("lifecycle/ping"), "the connection lives"


async def test_no_length_closes_the_connection(peer: Peer) -> None:
    peer.writer.write(b"Content-Type: application/json\r\n\r\n{}")
    assert await peer.is_closed()


async def test_unknown_method_and_notifications(peer: Peer) -> None:
    assert (await peer.ask("no/such"))["error"]["code"] == -32601
    peer.writer.write(
        b'{"jsonrpc":"2.0","method":"secrets/store","params":{"auth":"%s"}}\n' % peer.auth.encode()
    )
    assert (await peer.ask("secrets/list"))["result"] == {"keys": []}


# tools ----------------------------------------------------------------------------------------------------


async def test_list_has_internal_and_user_tools_or_user_tools_only(peer: Peer) -> None:
    everything = (await peer.ask("tools/list"))["result"]["tools"]
    names = [tool["name"] for tool in everything]
    internal = [
        "openllm_config_get", "openllm_config_set", "openllm_secrets_delete", "openllm_secrets_get",
        "openllm_secrets_list", "openllm_secrets_set", "openllm_workspace_root",
    ]  # fmt: skip
    assert names == ["Bare", *internal, "read"]
    assert (await peer.ask("tools/list", {"includeInternal": True}))["result"]["tools"] == everything
    for tool in everything:
        assert set(tool) == {"name", "description", "inputSchema", "_internal"}
        assert tool["_internal"] is tool["name"].startswith("openllm_")
        assert tool["description"].startswith("[Internal] ") is tool["_internal"]
    users = (await peer.ask("tools/list", {"includeInternal": False}))["result"]["tools"]
    assert users == [tool for tool in everything if not tool["_internal"]]
    chosen = {"include": ["read", "openllm_secrets_get"], "exclude": ["read"]}
    assert [tool["name"] for tool in (await peer.ask("tools/list", chosen))["result"]["tools"]] == [
        "openllm_secrets_get"
    ]
    assert (await peer.ask("tools/list", {"includeInternal": "no"}))["error"]["code"] == -32602


async def test_tools_for_models_have_three_members_and_no_internal_ones(peer: Peer) -> None:
    assert (await peer.ask("get_llm_tools"))["result"] == {
        "tools": [
            {"name": "read", "description": "Reads", "inputSchema": SCHEMA},
            {"name": "Bare", "description": "", "inputSchema": SCHEMA},
        ]
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "Error: it broke"),
        ("nope", "Error: Tool not found: nope"),
        ("openllm_forged", "Error: Unknown internal tool: openllm_forged"),
        ("openllm_", "Error: Unknown internal tool: openllm_"),
        ("OPENLLM_SECRETS_GET", "Error: Tool not found: OPENLLM_SECRETS_GET"),
    ],
)
async def test_a_call_that_fails_is_a_result_that_says_so(server: Running, name: str, text: str) -> None:
    said = await (await server.peer()).call(name)
    assert said == {"content": [{"type": "text", "text": text}], "isError": True}
    assert "openllm_forged" not in server.tools.called


async def test_malformed_calls_are_protocol_errors_and_faults_are_not_shown(peer: Peer) -> None:
    for params in ({}, {"name": 1}, {"name": "read", "arguments": []}, {"name": "read", "arguments": "{}"}):
        assert (await peer.ask("tools/call", params))["error"]["code"] == -32602
    error = (await peer.ask("tools/call", {"name": "fault"}))["error"]
    assert error["code"] == -32603
    assert "boom" not in error["message"]


async def test_a_slow_tool_delays_no_other_request(server: Running) -> None:
    peer = await server.peer()
    peer.send("tools/call", {"name": "wait"}, id=7)
    assert (await peer.ask("lifecycle/ping"))["id"] == 1
    server.tools.released.set()
    assert (await peer.receive())["id"] == 7


async def test_stop_cancels_what_runs_and_removes_the_address(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.peer()
        peer.send("tools/call", {"name": "wait"})
        await peer.ask("lifecycle/ping")
    assert server.tools.cancelled.is_set()
    assert list((tmp_path / "run" / "internal").iterdir()) == []


async def test_a_call_is_cancelled_some_time_after_its_peer_has_gone(tmp_path: Path) -> None:
    async with running(tmp_path, replace(QUICK, linger_s=0.02)) as server:
        peer = await server.peer()
        peer.send("tools/call", {"name": "wait"})
        await peer.ask("lifecycle/ping")
        peer.writer.close()
        await asyncio.wait_for(server.tools.cancelled.wait(), within(5))


async def test_a_peer_that_closed_its_sending_side_still_gets_its_answer(server: Running) -> None:
    peer = await server.peer()
    peer.send("tools/call", {"name": "wait"}, id=7)
    await peer.ask("lifecycle/ping")
    peer.writer.write_eof()
    server.tools.released.set()
    assert (await peer.receive())["id"] == 7
    assert await peer.is_closed()


# secrets, configuration, workspace --------------------------------------------------------------------------


async def test_secrets_by_tool_and_by_method_are_the_same(peer: Peer) -> None:
    async def both(tool: str, method: str, **arguments: Any) -> Any:
        called = await peer.call(tool, **arguments)
        assert called["isError"] is False
        assert json.loads(called["content"][0]["text"]) == called["structuredContent"]
        assert (await peer.ask(method, arguments))["result"] == called["structuredContent"]
        return called["structuredContent"]

    value = 'ü\u202e\x1b[31m"'
    assert await both("openllm_secrets_get", "secrets/get", key="k") == {"found": False, "value": None}
    assert await both("openllm_secrets_set", "secrets/store", key="k", value=value) == {"success": True}
    assert await both("openllm_secrets_get", "secrets/get", key="k") == {"found": True, "value": value}
    assert await both("openllm_secrets_list", "secrets/list") == {"keys": ["k"]}
    assert await both("openllm_secrets_delete", "secrets/delete", key="k") == {"success": True}
    assert await both("openllm_secrets_list", "secrets/list") == {"keys": []}


@pytest.mark.parametrize(
    ("tool", "arguments", "pointer"),
    [
        ("secrets_set", {"key": "k"}, "/value"),
        ("secrets_set", {"key": "k", "value": {"canary": 1}}, "/value"),
        ("secrets_set", {"key": "canary/", "value": "canary"}, "/key"),
        ("secrets_set", {"key": "k", "value": "v", "canary": "x"}, "/:"),
        ("secrets_get", {"key": 5}, "/key"),
        ("config_get", {"provider": "*", "scope": "canary"}, "/scope"),
        ("config_set", {"provider": "*", "scope": "user", "config": {}}, "/provider"),
        ("config_set", {"provider": "p", "scope": "user", "config": {"apiKey": "canary"}}, "/config"),
        ("config_set", {"provider": "p", "scope": "user", "config": {"models": [1]}}, "/config/models"),
        ("config_set", {"provider": "p", "scope": "user", "config": {"enabled": 1}}, "/config/enabled"),
    ],
)
async def test_invalid_arguments_are_reported_without_their_values(
    peer: Peer, tool: str, arguments: dict[str, Any], pointer: str
) -> None:
    said = await peer.call(f"openllm_{tool}", **arguments)
    assert said["isError"] is True
    text = said["content"][0]["text"]
    assert text.startswith(f"Error: invalid arguments for openllm_{tool}: {pointer}")
    assert "canary" not in text


async def test_configuration_of_both_scopes(server: Running) -> None:
    peer = await server.peer()
    config = {"models": ["m"], "enabled": False}
    assert (await peer.ask("config/set", {"provider": "P", "config": config, "scope": "workspace"}))[
        "result"
    ] == {"success": True}
    set_too = await peer.call("openllm_config_set", provider="Q", config={}, scope="user")
    assert set_too["structuredContent"] == {"success": True}
    found = await peer.call("openllm_config_get", provider="p", scope="workspace")
    (entry,) = found["structuredContent"]["providers"]
    assert (entry["name"], entry["enabled"], entry["models"], entry["source"]) == (
        "P",
        False,
        ["m"],
        "workspace",
    )
    both = (await peer.ask("config/getSettings"))["result"]["providers"]
    assert [(one["name"], one["source"]) for one in both] == [("Q", "user"), ("P", "workspace")]
    (server.folder / "config" / "providers.json").write_text("{")
    broken = await peer.call("openllm_config_get", provider="*", scope="user")
    assert broken["isError"] is True


async def test_workspace_and_capabilities(server: Running) -> None:
    peer, root = await server.peer(), str(server.folder / "project")
    assert (await peer.call("openllm_workspace_root"))["structuredContent"] == {"path": root}
    assert (await peer.ask("workspace/getRoot"))["result"] == {"path": root}
    assert (await peer.ask("workspace/getPaths"))["result"] == {"paths": [root]}
    assert (await peer.ask("lifecycle/capabilities"))["result"] == {
        "capabilities": {"secrets": True, "config": True, "workspace": True}
    }


async def test_the_prefix_is_configurable(tmp_path: Path) -> None:
    async with running(tmp_path, prefix="mine_") as server:
        peer = await server.peer()
        assert (await peer.call("mine_secrets_list"))["structuredContent"] == {"keys": []}
        refused = await peer.call("openllm_secrets_list")
        assert refused["content"][0]["text"] == "Error: Tool not found: openllm_secrets_list"


# notifications --------------------------------------------------------------------------------------------


async def test_only_authenticated_peers_are_notified_of_changes(server: Running) -> None:
    first, second, stranger = await server.peer(), await server.peer(), await server.peer("wrong")
    await first.ask("secrets/list")
    await second.ask("secrets/list")
    assert (await stranger.ask("secrets/list"))["error"]["code"] == -32600
    await first.ask("secrets/store", {"key": "k", "value": "v"})
    added = {
        "jsonrpc": "2.0",
        "method": "notifications/secretChanged",
        "params": {"key": "k", "action": "added"},
    }
    assert await first.receive() == await second.receive() == added
    await second.ask("config/set", {"provider": "P", "config": {}, "scope": "user"})
    params = {"scope": "user", "provider": "P"}
    assert await first.receive() == {
        "jsonrpc": "2.0",
        "method": "notifications/configChanged",
        "params": params,
    }
    stranger.send("lifecycle/ping", id=5)
    assert (await stranger.receive())["id"] == 5, "it was sent nothing before this"


async def test_changes_by_other_processes_are_notified(server: Running) -> None:
    elsewhere = open_store(server.folder / "state", {})
    await elsewhere.set("k", "before anybody listens")
    peer = await server.peer()
    await peer.ask("secrets/list")
    await elsewhere.set("k", "other")
    assert (await peer.receive())["params"] == {"key": "k", "action": "changed"}
    await elsewhere.delete("k")
    assert (await peer.receive())["params"] == {"key": "k", "action": "removed"}
    (server.folder / "project" / ".lm-tools-bridge").mkdir()
    (server.folder / "project" / ".lm-tools-bridge" / "providers.json").write_text("{")
    assert (await peer.receive())["params"] == {"scope": "workspace", "provider": None}


def test_file_leads_to_a_private_socket(tmp_path: Path) -> None:
    address = new_address(tmp_path, "proj-1a2b")
    with addresses.listen(address):
        assert json.loads((tmp_path / "internal" / "proj-1a2b.json").read_text()) == {
            "socket": str(address.socket), "auth": address.auth, "pid": os.getpid(),
        }  # fmt: skip
        for path in (address.file, address.socket):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(address.socket.parent.stat().st_mode) == 0o700
    assert len(bytes.fromhex(address.auth)) == 32
    assert address.auth not in repr(address)
    addresses.withdraw(address)
    assert list((tmp_path / "internal").iterdir()) == []


def test_the_socket_is_private_from_the_start_without_a_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode is right even if nothing after the bind ever ran."""
    monkeypatch.setattr(socket.socket, "listen", lambda *_: (_ for _ in ()).throw(OSError("stopped here")))
    address, modes = new_address(tmp_path, "w"), []
    bind = socket.socket.bind

    def seen(self: socket.socket, path: str) -> None:
        bind(self, path)
        modes.append(stat.S_IMODE(os.stat(path).st_mode))

    monkeypatch.setattr(socket.socket, "bind", seen)
    before = os.umask(0)
    try:
        with pytest.raises(OSError, match="stopped here"):
            addresses.listen(address)
    finally:
        assert os.umask(before) == 0
    assert modes == [0o600]
    assert list((tmp_path / "internal").iterdir()) == []


def test_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "internal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(private_files.UnsafePathError, match="internal"):
        addresses.listen(new_address(tmp_path, "w"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_later_run_replaces_the_file_and_the_earlier_one_leaves_it(tmp_path: Path) -> None:
    earlier, later = new_address(tmp_path, "w"), new_address(tmp_path, "w")
    with addresses.listen(earlier), addresses.listen(later):
        addresses.withdraw(earlier)
        assert later.socket.exists()
        assert not earlier.socket.exists()
        assert json.loads(later.file.read_text())["auth"] == later.auth


def test_stale_sockets_are_removed_and_live_ones_kept(tmp_path: Path) -> None:
    dead, living, other = (new_address(tmp_path, name) for name in ("w", "w", "w-2"))
    addresses.listen(dead).close()
    addresses.listen(other).close()
    with addresses.listen(living), addresses.listen(new_address(tmp_path, "w")):
        assert not dead.socket.exists()
        assert living.socket.exists()
        assert other.socket.exists(), "another workspace's sockets are not ours to judge"


@pytest.mark.parametrize("workspace", ["../../x", "a/b", "", ".hidden", "ü", "w" * 200])
def test_an_odd_workspace_id_cannot_leave_the_folder(tmp_path: Path, workspace: str) -> None:
    address = new_address(tmp_path, workspace)
    assert address.file.parent == tmp_path / "internal"
    assert address.file == new_address(tmp_path, workspace).file
    assert len(address.file.name) < 140


def test_a_too_long_socket_path_moves_to_another_private_folder(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    home = Path("/tmp/lmtb-test-home")  # short; nothing is made
    address = new_address(deep, "w", home)
    assert address.socket.parent.parent == home
    assert len(os.fsencode(address.socket)) <= addresses.MAX_SOCKET_PATH_BYTES
    assert new_address(deep, "w", deep).socket.parent.name.startswith(f"lmtb-{os.getuid()}-")
