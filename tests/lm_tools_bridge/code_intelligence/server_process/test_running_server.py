"""A language server is started, used and ended, whatever it does meanwhile."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from support.processes.child_processes import alive, until
from support.processes.timeouts import GUARD_S
from support.servers.language_servers.lsp_types import assert_is_lsp
from support.servers.language_servers.scripted_language_server import QUICK, RecordedSync, launch, running
from workspace_server.processes.child_process import Command

RECALL = """
def handle(m):
    if m.get("method") == "received": answer(m, received)
    else: echo(m)
serve(handle)
"""


async def test_it_is_initialized_as_lsp_says(tmp_path: Path) -> None:
    sync = RecordedSync()
    settings = {"python": {"a": 1}}
    async with running(RECALL, tmp_path, sync, settings=settings, options={"x": [1]}) as server:
        received = await server.request("received")
        assert server.encoding == "utf-8"
        assert server.supports("textDocument/references")
        assert not server.supports("textDocument/rename")
        assert server.capabilities["definitionProvider"] is True
        assert sync.events == [("started", None)]
        assert sync.peer is server
    assert [m["method"] for m in received] == [
        "initialize",
        "initialized",
        "workspace/didChangeConfiguration",
        "received",
    ]
    for message in received:
        assert_is_lsp(message["method"], message.get("params"))
    params = received[0]["params"]
    folder = f"file://{tmp_path}"
    assert (params["processId"], params["rootUri"], params["initializationOptions"]) == (
        os.getpid(),
        folder,
        {"x": [1]},
    )
    assert params["workspaceFolders"] == [{"uri": folder, "name": tmp_path.name}]
    assert params["clientInfo"] == {"name": "lm-tools-bridge", "version": "1.2.3"}
    assert params["capabilities"]["general"]["positionEncodings"] == ["utf-8", "utf-16"]
    assert received[2]["params"] == {"settings": settings}
    assert "params" not in received[3]


@pytest.mark.parametrize("offers_pull", [True, False])
async def test_pull_diagnostics_are_offered_to_those_that_may_know(tmp_path: Path, offers_pull: bool) -> None:
    async with running(RECALL, tmp_path, offers_pull=offers_pull) as server:
        received = await server.request("received")
    offered = received[0]["params"]["capabilities"]["textDocument"]
    assert offered.get("diagnostic", {}).get("dynamicRegistration", False) is offers_pull
    assert "publishDiagnostics" in offered


async def test_shutdown_and_exit_come_before_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    body = f"""
        def handle(m): pass
        import atexit
        atexit.register(lambda: open({str(log)!r}, "w").write(" ".join(m["method"] for m in received)))
        serve(handle)
    """
    sync = RecordedSync()
    ended: list[str] = []
    async with running(body, tmp_path, sync, ended=ended) as server:
        await server.close()
        await server.close()
    assert log.read_text() == "initialize initialized shutdown exit"
    assert sync.said("closed") == [None]
    assert ended == []


async def test_a_server_that_ignores_shutdown_is_ended_in_time(tmp_path: Path) -> None:
    body = """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        def handle(m): pass
        answer(read(), {"capabilities": {}})
        while True: time.sleep(1)
    """
    started = asyncio.get_running_loop().time()
    async with running(body, tmp_path, timeouts=replace(QUICK, polite_s=0.2, term_s=0.2)):
        pass
    assert asyncio.get_running_loop().time() - started < 5


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("while True: read()", "scripted did not initialize within 0.3 s"),
        ("time.sleep(60)", "scripted did not initialize within 0.3 s"),
        ("refuse(read(), -32603, 'no licence')", "scripted refused to initialize: no licence"),
        ("sys.exit('no such option')", "scripted exited with code 1; .* error: no such option"),
        ("print('usage: x', flush=True); time.sleep(60)", "scripted did not initialize within 0.3 s"),
        ("put(b'usage: x\\r\\n\\r\\n'); time.sleep(60)", "scripted sent something that is not LSP: .*"),
    ],
)
async def test_a_server_that_does_not_initialize_leaves_nothing_behind(
    tmp_path: Path, body: str, reason: str
) -> None:
    sync = RecordedSync()
    start_s = 0.3 if "within 0.3 s" in reason else GUARD_S
    with pytest.raises(ServerGone, match=reason):
        await RunningServer.start(launch(body, tmp_path), sync.make, timeouts=replace(QUICK, start_s=start_s))
    assert isinstance(sync.peer, RunningServer)
    assert sync.peer.ended is not None
    assert sync.said("closed") == [None]


async def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = replace(launch("", tmp_path), command=Command(("/nonexistent/clangd",), {}, "/"))
    with pytest.raises(ServerGone, match='scripted does not start: cannot start "/nonexistent/clangd"'):
        await RunningServer.start(missing, RecordedSync().make)


async def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    body = """
        refused = 0
        def handle(m):
            global refused
            refused += 1
            if refused < 4: refuse(m, -32801 if refused % 2 else -32802, "content modified")
            else: answer(m, refused)
        serve(handle)
    """
    async with running(body, tmp_path) as server:
        assert await server.request("x") == 4


async def test_a_server_that_stays_busy_refuses_in_the_end(tmp_path: Path) -> None:
    body = "serve(lambda m: 'id' in m and refuse(m, -32801, 'content modified'))"
    async with running(body, tmp_path) as server:
        with pytest.raises(RequestFailed, match="content modified"):
            await server.request("x", timeout_s=0.3)


async def test_a_server_that_hangs_is_noticed_and_told(tmp_path: Path) -> None:
    ended: list[str] = []
    body = "serve(lambda m: time.sleep(1000))"
    async with running(body, tmp_path, ended=ended) as server:
        with pytest.raises(RequestTimedOut, match=r"scripted did not answer slow within 0.1 s"):
            await server.request("slow", timeout_s=0.1)
        await until(lambda: ended)
        with pytest.raises(ServerGone):
            await server.request("x")
        assert (await server.ready(1)).state == "crashed"
        answer = await server.diagnostics(None, 1)
    [reason] = ended
    # how long that took depends on the machine
    assert re.match(r"hangs: it answers neither a request nor a ping within \d+\.\d s", reason)
    assert (answer.freshness.state, answer.freshness.reason) == ("crashed", f"it {reason}")


@pytest.mark.parametrize(
    "body",
    [
        "serve(lambda m: m.get('method', '').startswith('$/lm') and refuse(m, -32601, 'unknown'))",
        "serve(lambda m: m.get('method') == 'slow' and notify('window/logMessage', {}))",
    ],
)
async def test_a_slow_server_that_gives_a_sign_of_life_is_kept(tmp_path: Path, body: str) -> None:
    ended: list[str] = []
    async with running(body, tmp_path, ended=ended) as server:
        with pytest.raises(RequestTimedOut):
            await server.request("slow", timeout_s=0.2)
        await asyncio.sleep(QUICK.ping_s + 0.2)
        assert server.ended is None
    assert ended == []


COMPUTES = """
    def handle(m):
        if m["method"] == "slow":
            end = time.monotonic() + float(m["params"])
            while time.monotonic() < end: pass
        echo(m)
    serve(handle)
"""


async def test_a_server_that_computes_without_a_pause_is_not_taken_for_hanging(tmp_path: Path) -> None:
    async with running(COMPUTES, tmp_path) as server:
        with pytest.raises(RequestTimedOut):
            await server.request("slow", 1.5, timeout_s=0.1)
        assert await server.request("next", 1) == 1


async def test_a_server_that_computes_for_ever_is_ended_in_the_end(tmp_path: Path) -> None:
    ended: list[str] = []
    async with running(COMPUTES, tmp_path, ended=ended, timeouts=replace(QUICK, busy_s=1)) as server:
        with pytest.raises(RequestTimedOut):
            await server.request("slow", 1000, timeout_s=0.1)
        await until(lambda: ended, seconds=10)
    assert ended[0].startswith("hangs")


async def test_a_crash_is_told_and_its_reason_is_in_every_answer(tmp_path: Path) -> None:
    ended: list[str] = []
    body = "serve(lambda m: (print('segfault', file=sys.stderr, flush=True), os._exit(139)))"
    async with running(body, tmp_path, ended=ended) as server:
        with pytest.raises(ServerGone):
            await server.request("x")
        fresh = await server.ready(1)
        diagnostics = await server.diagnostics([], 1)
    assert ended == ["exited with code 139; it wrote on standard error: segfault"]
    assert (fresh.state, fresh.reason) == ("crashed", f"it {ended[0]}")
    assert (diagnostics.files, diagnostics.freshness) == ([], fresh)


async def test_a_crash_while_we_wait_for_readiness_is_no_fault(tmp_path: Path) -> None:
    async with running("serve(lambda m: os._exit(1))", tmp_path) as server:
        assert (await server.ready(5)).state == "crashed"
    async with running("serve(lambda m: os._exit(1))", tmp_path) as server:
        assert (await server.diagnostics(None, 5)).freshness.state == "crashed"


async def test_a_refusal_while_we_wait_for_readiness_is_not_known(tmp_path: Path) -> None:
    async with running("serve(lambda m: 'id' in m and refuse(m, 1, 'what?'))", tmp_path) as server:
        found = await server.ready(5)
        answer = await server.diagnostics(None, 5)
    assert (found.state, found.reason) == ("unknown", "what?")
    assert answer.freshness.state == "unknown"


async def test_notifications_and_refreshes_reach_the_part_that_follows_the_project(tmp_path: Path) -> None:
    sync = RecordedSync()
    body = """
        def handle(m):
            if m.get("method") == "go":
                notify("textDocument/publishDiagnostics", {"uri": "file:///x", "diagnostics": None})
                ask("workspace/diagnostic/refresh"); ask("client/registerCapability",
                    {"registrations": [{"id": "w", "method": "textDocument/rename"}]})
                answer(m, None)
        serve(handle)
    """
    async with running(body, tmp_path, sync) as server:
        await server.request("go")
        assert sync.said("textDocument/publishDiagnostics") == [{"uri": "file:///x", "diagnostics": None}]
        assert sync.said("refreshed") == ["workspace/diagnostic/refresh"]
        assert server.supports("textDocument/rename")


async def test_a_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    sync = RecordedSync()
    body = "read(); notify('here'); time.sleep(60)"
    task = asyncio.create_task(RunningServer.start(launch(body, tmp_path), sync.make, timeouts=QUICK))
    await until(lambda: sync.said("here"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(sync.peer, RunningServer)
    assert sync.peer.ended == "was stopped"
    assert not alive(sync.peer.pid)


async def test_a_part_that_fails_to_start_ends_the_server(tmp_path: Path, monkeypatch: Any) -> None:
    sync = RecordedSync()

    async def fails() -> None:
        raise ValueError

    monkeypatch.setattr(sync, "begin", fails)
    with pytest.raises(ValueError):
        await RunningServer.start(launch("serve()", tmp_path), sync.make, timeouts=QUICK)
    assert isinstance(sync.peer, RunningServer)
    assert sync.peer.ended == "was stopped"
    assert not alive(sync.peer.pid)
