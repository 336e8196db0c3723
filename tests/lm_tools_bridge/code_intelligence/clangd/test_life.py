"""The clangd tools on a clangd that is a process: one for all callers, and another one after its death."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.clangd.calls import run
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from support.processes.child_processes import until
from support.servers.language_servers.in_memory import no_environment
from support.servers.language_servers.scripted_kinds import Pooled, pooled
from workspace_server.workspace import Workspace

ONE_USE = """
    open("starts", "a").write("x")
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
    def handle(m):
        if "id" not in m: return
        uri = (m.get("params") or {}).get("textDocument", {}).get("uri")
        answer(m, [{"uri": uri, "range": place}] if m["method"].endswith("references") else None)
    serve(handle)
"""
POSITION = {"line": 1, "character": 1}


async def references(made: Pooled, folder: Path) -> Mapping[str, Any]:
    arguments = {"filePath": str(folder / "a.txt"), "position": POSITION}
    settings = ClangdSettings(enabled=True)
    workplace = Workplace(Workspace.of(folder), made.pool, 0.0, no_environment)
    result = await run("lm_clangd_symbolReferences", arguments, workplace, settings)
    return result.structured


async def test_two_callers_at_once_start_one_clangd(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("use")
    async with pooled({"clangd": ONE_USE}, tmp_path) as made:
        answers = await asyncio.gather(*(references(made, tmp_path) for _ in range(2)))
        assert [one["counts"]["total"] for one in answers] == [1, 1]
    assert (tmp_path / "starts").read_text() == "x"


async def test_after_kill_9_the_next_call_is_answered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("use")
    async with pooled({"clangd": ONE_USE}, tmp_path) as made:
        first = await references(made, tmp_path)
        [status] = made.pool.status()
        assert status.pid is not None
        os.kill(status.pid, signal.SIGKILL)
        await until(lambda: made.pool.status()[0].pid is None, seconds=5)
        assert await references(made, tmp_path) == first
        [status] = made.pool.status()
        assert (status.state, status.restarts) == ("ready", 1)
    assert (tmp_path / "starts").read_text() == "xx"


async def test_a_clangd_that_dies_at_each_start_is_tried_with_longer_pauses(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("use")
    dies = 'open("starts", "a").write("x"); sys.exit("no library")'
    async with pooled({"clangd": dies}, tmp_path) as made:
        for _ in range(4):  # after pauses of 0.5, 1 and 2 s; the next is 4 s, which no caller waits for
            failed = await references(made, tmp_path)
        assert failed["error"]["code"] == "CLANGD_CLIENT_UNAVAILABLE"
        again = await references(made, tmp_path)
        assert "it is started again in 4 s" in again["error"]["message"]
    assert (tmp_path / "starts").read_text() == "xxxx"
