"""A checker runs once for all callers, again when files changed, and says how far it is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.session import checker as checker_module
from lm_tools_bridge.code_intelligence.session.checker import Checker
from lm_tools_bridge.code_intelligence.session.checker_run import Result, check_project
from lm_tools_bridge.code_intelligence.specification import Check, ServerSpecification
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from lm_tools_bridge.code_intelligence.tree.watched_tree import WatchedTree
from support.processes.child_processes import alive, until
from workspace_server.files.folder_events import FolderEvents
from workspace_server.processes.child_process import Command

WAIT_S = 20.0
FINDS = """
import pathlib, sys
runs = pathlib.Path("runs")
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
wrong = [one.name for one in sorted(pathlib.Path(".").glob("*.ts")) if "bad" in one.read_text()]
for name in wrong: print(f"{name}(1,1): error TS1: bad")
sys.exit(2 if wrong else 0)
"""
HANGS = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"


def launch(folder: Path, body: str) -> Launch:
    kind = ServerSpecification("fake", {".ts": "typescript"}, (), roles=frozenset({"diagnostics"}))
    argv = (sys.executable, "-I", "-S", "-c", body)
    return Launch(kind, Command(argv, {"PATH": os.environ["PATH"]}, str(folder)), (folder,), "1")


@asynccontextmanager
async def checker(folder: Path, body: str = FINDS, check: Check | None = None) -> AsyncIterator[Checker]:
    made = Checker(launch(folder, body), check or Check("tsc"), TreeWatch([folder]))
    await made.tell_changes()
    try:
        yield made
    finally:
        await made.close()


async def wrong_files(made: Checker, *paths: Path, wait_s: float = WAIT_S) -> tuple[list[str], str]:
    answer = await made.diagnostics(paths or None, wait_s)
    return [file.path.name for file in answer.files], answer.freshness.state


async def test_files_changed_by_others_are_checked_before_the_answer(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("good")
    async with checker(tmp_path) as made:
        assert await wrong_files(made) == ([], "fresh")
        (tmp_path / "a.ts").write_text("bad")
        (tmp_path / "b.ts").write_text("bad")
        assert await wrong_files(made) == (["a.ts", "b.ts"], "fresh")
        assert await wrong_files(made, tmp_path / "b.ts") == (["b.ts"], "fresh")
        (tmp_path / "b.ts").unlink()
        (tmp_path / "a.ts").write_text("fine")
        assert await wrong_files(made) == ([], "fresh")


async def test_callers_of_unchanged_files_share_one_run(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("bad")
    async with checker(tmp_path) as made:
        answers = await asyncio.gather(*(wrong_files(made) for _ in range(5)))
        assert answers == [(["a.ts"], "fresh")] * 5
        assert await wrong_files(made) == (["a.ts"], "fresh")
    assert (tmp_path / "runs").read_text() == "x"


async def test_a_run_that_takes_longer_than_the_caller_waits_is_said(tmp_path: Path) -> None:
    async with checker(tmp_path, HANGS) as made:
        assert await wrong_files(made, wait_s=0.05) == ([], "indexing")
        assert made.status().state == "ready"
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), seconds=WAIT_S)
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not alive(pid), seconds=WAIT_S)


async def test_an_old_result_is_stale_while_the_next_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("bad")
    waits = FINDS.replace("sys.exit", "pathlib.Path('go').exists() or time.sleep(600)\nsys.exit")
    waits = waits.replace("import pathlib, sys\n", "import pathlib, sys, time\n")
    (tmp_path / "go").touch()
    async with checker(tmp_path, waits) as made:
        assert await wrong_files(made) == (["a.ts"], "fresh")
        (tmp_path / "go").unlink()
        (tmp_path / "a.ts").write_text("good now")
        assert await wrong_files(made, wait_s=0.05) == (["a.ts"], "stale")


async def test_a_checker_that_fails_is_not_taken_for_clean(tmp_path: Path) -> None:
    async with checker(
        tmp_path, "import sys; print('no configuration', file=sys.stderr); sys.exit(3)"
    ) as made:
        answer = await made.diagnostics(None, WAIT_S)
        assert (list(answer.files), answer.freshness.state) == ([], "unknown")
        assert "exit code 3: no configuration" in answer.freshness.reason


async def test_one_that_stops_at_errors_is_partial(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("bad")
    async with checker(tmp_path, check=Check("tsc", stops_at_errors=True)) as made:
        assert await wrong_files(made) == (["a.ts"], "partial")


async def test_a_second_run_names_what_the_configuration_does_not(tmp_path: Path) -> None:
    body = "import sys\nif len(sys.argv) < 2: sys.exit('Missing target')\nprint('a.ts(1,1): error TS1: bad')"
    found = await check_project(launch(tmp_path, body), Check("tsc", (".",), "Missing target"))
    assert [file.path.name for file in found.files] == ["a.ts"]


async def test_time_and_output_are_bounded(tmp_path: Path) -> None:
    late = await check_project(launch(tmp_path, HANGS), Check("tsc"), deadline_s=0.5)
    assert (late.freshness.state, "more than 0.5 s" in late.freshness.reason) == ("unknown", True)
    flood = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    flooded = await check_project(launch(tmp_path, flood), Check("tsc"))
    assert (flooded.freshness.state, "16 MiB" in flooded.freshness.reason) == ("partial", True)


async def test_a_program_that_does_not_start_is_said(tmp_path: Path) -> None:
    broken = launch(tmp_path, "")
    gone = Launch(broken.specification, Command(("/nowhere",), {}, str(tmp_path)), (tmp_path,), "1")
    assert (await check_project(gone, Check("tsc"))).freshness.state == "crashed"


async def test_an_idle_checker_gives_its_watches_back(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("bad")
    queues: list[FolderEvents] = []

    class Counted(FolderEvents):
        def close(self) -> None:
            queues.remove(self)
            super().close()

    def opened() -> FolderEvents | None:
        queues.extend(filter(None, [Counted.open()]))
        return queues[0] if queues else None

    watch = TreeWatch([tmp_path], tree=WatchedTree([tmp_path], opened))
    idle = replace(launch(tmp_path, FINDS), idle_s=0.05)
    made = Checker(idle, Check("tsc"), watch)
    for runs in ("x", "xx"):
        assert await wrong_files(made) == (["a.ts"], "fresh")
        assert (tmp_path / "runs").read_text() == runs
        await until(lambda: not queues, seconds=WAIT_S)
        assert made.status().freshness is None
    await made.close()


async def test_a_closed_checker_begins_no_other_run(tmp_path: Path) -> None:
    made = Checker(launch(tmp_path, HANGS), Check("tsc"), TreeWatch([tmp_path]))
    asking = asyncio.create_task(made.diagnostics(None, WAIT_S))
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), seconds=WAIT_S)
    await made.close()
    answer = await asyncio.wait_for(asking, 5)
    assert (list(answer.files), made.status().state) == ([], "idle")
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("check-")] == []


async def test_output_that_breaks_our_reading_does_not_start_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    async def broken(*_: object) -> Result:
        runs.append(1)
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setattr(checker_module, "check_project", broken)
    async with checker(tmp_path) as made:
        answer = await made.diagnostics(None, WAIT_S)
        assert (answer.freshness.state, "lmtb logs" in answer.freshness.reason) == ("crashed", True)
    assert runs == [1]


async def test_a_name_that_no_file_can_have_is_told_without_its_lines(tmp_path: Path) -> None:
    body = r"import sys; print('\udcff.ts(1,1): error TS1: bad'.encode('utf-8', 'surrogateescape').decode('latin-1'))"
    found = await check_project(launch(tmp_path, f"{body}; sys.exit(2)"), Check("tsc"))
    assert [(len(file.diagnostics), file.lines) for file in found.files] == [(1, None)]


async def test_what_it_does_not_look_at_makes_it_partial(tmp_path: Path) -> None:
    (tmp_path / "tsconfig.json").write_text('{"files": [], "references": [{"path": "./app"}]}')
    found = await check_project(launch(tmp_path, ""), Check("tsc"))
    assert (found.freshness.state, "tsc -b" in found.freshness.reason) == ("partial", True)
    one = launch(tmp_path, "")
    both = Launch(one.specification, one.command, (tmp_path, tmp_path / "b"), "1")
    found = await check_project(both, Check("cargo"))
    assert (found.freshness.state, found.freshness.reason) == ("partial", f"it checks {tmp_path} only")


async def test_a_failure_says_how_to_see_why(tmp_path: Path) -> None:
    found = await check_project(launch(tmp_path, "raise SystemExit(3)"), Check("tsc"))
    assert found.freshness.reason.endswith(f"in {tmp_path} to see why")
