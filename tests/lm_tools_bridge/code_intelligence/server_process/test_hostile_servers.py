"""A server that lies, floods or speaks nonsense harms its own answers only; all parts run as they do for users."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import ServerSupervisor
from lm_tools_bridge.code_intelligence.session.pool import PoolContext, ServerPool
from lm_tools_bridge.code_intelligence.sync.project_sync import FollowedProject
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from support.servers.language_servers.scripted_kinds import LIMITS, ScriptedKinds, environment
from support.servers.language_servers.scripted_language_server import QUICK
from workspace_server import log

NONSENSE = """
values = [None, 0, -1, 1e300, 10**40, True, "", "x", [], {}, [[]], [None], {"items": 5}, [{"range": 7}]]
def about(uri):
    for value in values:
        yield value
        for name in ("uri", "diagnostics", "version", "token", "value", "message", "quiescent", "state", "type"):
            yield {"uri": uri, "diagnostics": [], name: value}
            yield {"token": "backgroundIndexProgress", "value": {"kind": "begin", "title": "x", name: value}, name: value}
            yield {"uri": uri, "diagnostics": [{"range": {"start": value, "end": value}, "message": value, "severity": value}]}
methods = ("textDocument/publishDiagnostics", "$/progress", "window/logMessage", "experimental/serverStatus",
    "textDocument/clangd.fileStatus", "telemetry/event", "$/logTrace", "")
def spout(uri):
    for params in about(uri):
        for method in methods: notify(method, params)
    for value in values:
        ask("client/registerCapability", value)
        ask("client/registerCapability", {"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
            "registerOptions": {"watchers": [value, {"globPattern": value}, {"globPattern": {"baseUri": value, "pattern": value}}]}}]})
        ask("workspace/configuration", value)
        ask("client/unregisterCapability", value)
        ask("workspace/diagnostic/refresh", value)
turn = 0
capabilities["diagnosticProvider"] = {"interFileDependencies": True, "workspaceDiagnostics": True}
def handle(m):
    global turn
    if m.get("method") == "textDocument/didOpen": spout(m["params"]["textDocument"]["uri"])
    elif "id" in m and "method" in m:
        turn += 1
        answer(m, values[turn % len(values)])
serve(handle)
"""
FLOOD = """
def handle(m):
    if m.get("method") == "textDocument/didOpen":
        for n in range(6000):
            notify("textDocument/publishDiagnostics", {"uri": f"file:///nowhere/{n}.txt", "diagnostics":
                [{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "message": "x" * 100}] * 10})
    elif "id" in m and "method" in m: answer(m, [])
serve(handle)
"""


@asynccontextmanager
async def followed(body: str, folder: Path, **members: object) -> AsyncIterator[tuple[ServerPool, Path]]:
    """A pool with the part that really follows the project, and one file of it."""
    file = folder / "a.txt"
    file.write_text("one\ntwo\n")
    watch = TreeWatch([folder])
    pool = ServerPool(
        ScriptedKinds({"scripted": body}, **members),
        PoolContext((folder,), environment, "1"),
        lambda name: ServerSupervisor(
            name,
            lambda peer: FollowedProject(peer, watch, take_in_s=0.1),
            limits=LIMITS,
            timeouts=QUICK,
        ),
    )
    try:
        yield pool, file
    finally:
        await pool.close()


async def asked(pool: ServerPool, file: Path) -> RunningServer:
    [server] = await pool.for_file(file, "diagnostics")
    assert not isinstance(server, Unavailable), server
    assert isinstance(server, RunningServer)
    return server


@pytest.mark.parametrize("ready", ["first-answer", "progress", "background-index", "quiescent", "settled"])
@pytest.mark.parametrize("changes", ["watched-files", "open-documents"])
async def test_nonsense_is_never_a_fault(
    tmp_path: Path, ready: str, changes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path.resolve()
    faults: list[object] = []
    monkeypatch.setattr(log, "fault", lambda *told, **more: faults.append((told, more)))
    async with followed(NONSENSE, folder, ready=ready, changes=changes) as (pool, file):
        for round_ in range(3):
            server = await asked(pool, file)
            assert await server.open(file) is not None
            assert (await server.ready(0.2)).state
            assert (await server.diagnostics([file], 0.2)).freshness.state
            assert (await server.diagnostics(None, 0.2)).freshness.state
            file.write_text(f"round {round_}\n")
        assert server.ended is None
        [status] = pool.status()
        assert status.restarts == 0
    assert faults == []


async def test_a_flood_of_diagnostics_is_neither_kept_nor_in_the_way(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    before = psutil.Process().memory_info().rss
    async with followed(FLOOD, folder) as (pool, file):
        server = await asked(pool, file)
        await server.open(file)
        answering: asyncio.Task[Mapping[str, object]] = asyncio.create_task(
            server.request("textDocument/definition", {}, timeout_s=30)
        )
        longest = 0.0
        while not answering.done():
            began = time.thread_time()  # of the processor: other tests wait for it, too
            await asyncio.sleep(0.005)
            longest = max(longest, time.thread_time() - began)
        assert await answering == []
        assert longest < 1
    assert psutil.Process().memory_info().rss - before < 100 * 2**20
