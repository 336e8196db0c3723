"""The real process: what it reads, what it ignores, when it ends, and what the official client sees of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import psutil
import pytest
from aiohttp import ClientSession
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextResourceContents

from lm_tools_bridge.protocol import headers, names
from support.clients.stateless_requests import SECRET, Caller
from support.processes.workspace_process import NONCE, WorkspaceProcess, workspace_process
from workspace_server.lifetime import Lifetime

pytestmark = pytest.mark.processes

POSTED = {headers.SECRET: SECRET, "Content-Type": "application/json"}
CANARY = "open({path!r}, 'w').close()\n"
SUCCEEDING = {
    "calculator": {"expression": "6 * 7"},
    "datetime": {},
    "lm_findFiles": {"query": "*.txt"},
    "lm_findTextInFiles": {"query": "needle"},
    "lm_listDirectory": {},
    "lm_readFile": {"filePath": "a.txt"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a needle\n")
    return folder


@asynccontextmanager
async def official_client(running: WorkspaceProcess) -> AsyncIterator[Client]:
    """The SDK's own client, which only has the secret added to its requests."""
    async with httpx2.AsyncClient(headers={headers.SECRET: SECRET}, timeout=20) as http:
        transport = streamable_http_client(running.url(), http_client=http)
        async with Client(transport, mode="2026-07-28") as client:
            yield client


async def test_official_client_lists_calls_reads_and_listens(root: Path) -> None:
    async with workspace_process(root) as running, official_client(running) as client:
        listed = (await client.list_tools()).tools
        assert [entry.name for entry in listed] == sorted(SUCCEEDING)
        result = await client.call_tool("calculator", {"expression": "6 * 7"})
        assert result.structured_content == {"value": 42}
        with pytest.raises(MCPError, match="Tool not found or disabled: nope"):
            await client.call_tool("nope", {})
        read = await client.read_resource("lm-tools://names")
        (content,) = read.contents
        assert isinstance(content, TextResourceContents)
        assert json.loads(content.text)["tools"] == sorted(SUCCEEDING)
        assert len((await client.list_resources()).resources) == 1 + len(SUCCEEDING)
        assert len((await client.list_resource_templates()).resource_templates) == 2
        assert (await client.list_prompts()).prompts == []
        async with client.listen(tools_list_changed=True) as subscription:
            assert subscription.honored.tools_list_changed is True
            running.process.terminate()
            async with asyncio.timeout(10):
                assert [event async for event in subscription] == []
        assert (await running.ended())[0] == 0


async def test_every_built_in_answers_on_both_channels_and_keeps_its_promise(root: Path) -> None:
    """An error never claims to have the promised shape."""
    async with workspace_process(root) as running, ClientSession() as session:
        caller = Caller(session, running.url())
        listed = (await caller.result(names.TOOLS_LIST))["tools"]
        assert {entry["name"] for entry in listed} == set(SUCCEEDING)
        for entry in listed:
            result = await caller.call(entry["name"], SUCCEEDING[entry["name"]])
            assert result["isError"] is False, result
            assert result["structuredContent"], entry["name"]
            assert result["content"][0]["text"], entry["name"]
            jsonschema_rs.validate(entry["outputSchema"], result["structuredContent"])
            refused = await caller.call(entry["name"], {"no such argument": 1})
            assert refused["isError"] is True
            assert "structuredContent" not in refused
            assert refused["_meta"][names.META_ERROR]["error"]["reason"] == "invalid_arguments"


async def test_file_comes_back_to_the_character_in_both_channels(root: Path) -> None:
    content = "one\r\n\x1b[31mred\x1b[0m \u202e\u200b\x00\x07\ufeff end"
    (root / "odd.txt").write_bytes(content.encode("utf-16"))
    async with workspace_process(root) as running, ClientSession() as session:
        result = await Caller(session, running.url()).call("lm_readFile", {"filePath": "odd.txt"})
        assert result["content"][0]["text"].partition("\n---\n")[2] == content
        assert result["structuredContent"]["content"] == content


async def test_files_planted_in_the_workspace_are_not_imported(root: Path, tmp_path: Path) -> None:
    canaries = []
    for module in (
        "manager/__init__",
        "lm_tools_bridge/__init__",
        "lm_tools_bridge/protocol/__init__",
        "msgspec",
        "sitecustomize",
        "usercustomize",
        "aiohttp",
    ):
        canary = tmp_path / f"ran-{module.replace('/', '-')}"
        canaries.append(canary)
        planted = root / f"{module}.py"
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_text(CANARY.format(path=str(canary)))
    async with workspace_process(root, cwd=root) as running, ClientSession() as session:
        caller = Caller(session, running.url())
        assert (await caller.call("calculator", {"expression": "1 + 1"}))["isError"] is False
    assert [canary for canary in canaries if canary.exists()] == []


@pytest.mark.always
async def test_health_repeats_the_nonce_and_the_secret_is_nowhere(root: Path) -> None:
    async with workspace_process(root) as running, ClientSession() as session:
        health = await health_of(session, running)
        assert (health["nonce"], health["pid"]) == (NONCE, running.process.pid)
        assert health["root"] == str(root)
        wrong = {**POSTED, headers.SECRET: "wrong"}
        async with session.post(running.url(), data=b"{}", headers=wrong) as response:
            assert response.status == 401
        running.process.terminate()
        status, out, err = await running.ended()
        assert (status, out) == (0, b"")
        assert SECRET.encode() not in err
        for line in err.splitlines():
            assert json.loads(line)["event"]


@pytest.mark.always
async def test_process_without_a_manager_ends_itself_after_the_grace(root: Path) -> None:
    async with workspace_process(root, grace_s=0.3) as running:
        assert (await running.ended())[0] == 0


async def test_held_lifeline_keeps_the_process_and_letting_go_ends_it(root: Path) -> None:
    grace_s = 0.8
    async with workspace_process(root, grace_s=grace_s) as running, ClientSession() as session:
        async with session.get(running.url("/mcp/lifeline"), headers=POSTED) as response:
            await response.content.readany()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(running.process.wait(), grace_s * 2)
            response.close()
        assert (await running.ended())[0] == 0


class HeldSearch:
    """A search program in front of PATH that says when it runs, and waits until it may go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "rg"
        program.write_text(
            f"#!/bin/sh\necho $$ > {folder}/pid.new && mv {folder}/pid.new {folder}/pid\n"
            f"while [ ! -e {folder}/go ]; do sleep 0.02; done\nexit 1\n"
        )
        program.chmod(0o755)
        self.env = {"PATH": f"{folder}:{os.environ['PATH']}"}

    async def pid(self) -> int:
        """The program's process id, once it runs."""
        return int(
            await eventually(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text())
        )

    def let_go(self) -> None:
        """Let it end; it will have found nothing."""
        (self.folder / "go").touch()


async def eventually(look: Callable[[], Any]) -> Any:
    """What `look` returns, as soon as that is true."""
    async with asyncio.timeout(10):
        while not (found := look()):
            await asyncio.sleep(0.02)
        return found


@pytest.mark.always
async def test_sigterm_lets_the_call_in_flight_finish(root: Path, tmp_path: Path) -> None:
    held = HeldSearch(tmp_path / "bin")
    async with workspace_process(root, env=held.env) as running, ClientSession() as session:
        caller = Caller(session, running.url())
        call = asyncio.create_task(caller.call("lm_findTextInFiles", {"query": "needle"}))
        await held.pid()
        await health_of(
            session, running
        )  # over a connection that is kept: a stopping server takes no new one
        running.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            while (await health_of(session, running))["ok"]:
                await asyncio.sleep(0.02)
        assert not call.done()
        held.let_go()
        assert (await call)["isError"] is False
        assert (await running.ended())[0] == 0


async def test_caller_that_leaves_ends_what_its_call_started(root: Path, tmp_path: Path) -> None:
    held = HeldSearch(tmp_path / "bin")
    async with workspace_process(root, env=held.env) as running, ClientSession() as session:
        caller = Caller(session, running.url())
        call = asyncio.create_task(caller.call("lm_findTextInFiles", {"query": "needle"}))
        pid = await held.pid()
        call.cancel()
        await eventually(lambda: not psutil.pid_exists(pid))
        assert (await health_of(session, running))["ok"] is True


async def test_search_program_inherits_neither_the_secret_nor_the_socket(root: Path, tmp_path: Path) -> None:
    """Of all this server started, nobody else can serve or call in its name."""
    held = HeldSearch(tmp_path / "bin")
    async with workspace_process(root, env=held.env) as running, ClientSession() as session:
        caller = Caller(session, running.url())
        call = asyncio.create_task(caller.call("lm_findTextInFiles", {"query": "needle"}))
        server, program = psutil.Process(running.process.pid), psutil.Process(await held.pid())
        assert {one.status for one in server.net_connections("tcp")} >= {psutil.CONN_LISTEN}
        assert program.net_connections("tcp") == []
        assert SECRET not in json.dumps([program.environ(), program.cmdline()])
        held.let_go()
        assert (await call)["isError"] is False


async def health_of(session: ClientSession, running: WorkspaceProcess) -> dict[str, Any]:
    async with session.get(running.url("/mcp/health"), headers={headers.SECRET: SECRET}) as response:
        health: dict[str, Any] = await response.json()
        return health


@pytest.mark.parametrize("line", [b"", b"{}\n", b"not json\n", b'{"workspace":1}\n'])
async def test_unreadable_orders_end_the_process_with_status_two(line: bytes, tmp_path: Path) -> None:
    status, out, err = await run_with(line, tmp_path)
    assert (status, out) == (2, b"")
    assert json.loads(err)["event"] == "launch_instructions_invalid"


@pytest.mark.parametrize("descriptor", [0, 77])
async def test_descriptor_that_is_no_listening_socket_ends_the_process(
    descriptor: int, tmp_path: Path
) -> None:
    orders: dict[str, Any] = {
        "workspace": "w", "root": str(tmp_path), "instance": "i", "nonce": "n", "secret": SECRET,
        "listen_fd": descriptor,
    }  # fmt: skip
    status, _, err = await run_with(json.dumps(orders).encode() + b"\n", tmp_path)
    assert status == 2
    assert SECRET.encode() not in err


async def run_with(line: bytes, cwd: Path) -> tuple[int | None, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", "workspace_server", cwd=cwd,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(line), 20)
    return process.returncode, out, err


async def test_a_second_manager_on_the_lifeline_is_enough_to_live() -> None:
    life = Lifetime(grace_s=0.02)
    with life.lifeline():
        with life.lifeline():
            pass
        await asyncio.sleep(0.06)
        assert not life.stopping
    async with asyncio.timeout(5):
        await life.until_stopped()
    assert life.cause == "no manager holds the lifeline"


async def test_returning_manager_stops_the_count_down() -> None:
    life = Lifetime(grace_s=0.05)
    with life.lifeline():
        pass
    with life.lifeline():
        await asyncio.sleep(0.12)
        assert not life.stopping


@pytest.mark.always
async def test_first_cause_of_a_stop_counts_and_late_listeners_hear_of_it() -> None:
    life = Lifetime(grace_s=60)
    heard: list[str] = []
    life.on_stop(lambda: heard.append("early"))
    left = life.on_stop(lambda: heard.append("left"))
    left()
    life.stop("one")
    life.stop("two")
    life.on_stop(lambda: heard.append("late"))
    assert (life.cause, heard) == ("one", ["early", "late"])
