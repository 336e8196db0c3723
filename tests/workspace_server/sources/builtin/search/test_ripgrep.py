"""Finding and driving ripgrep."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from support.processes.child_processes import until
from support.projects.file_tree import RIPGREP, workspace_of, write_tree
from workspace_server.sources.builtin.files.segments import Segment
from workspace_server.sources.builtin.search import engine, ripgrep
from workspace_server.sources.builtin.search.batches import Batch
from workspace_server.sources.builtin.search.engine import Where, find_files, find_text
from workspace_server.sources.builtin.search.query import (
    FilesOfDirectory,
    Findings,
    Line,
    SearchSettings,
    TextQuery,
)
from workspace_server.sources.builtin.search.ripgrep import find_lines, find_ripgrep

NEEDLE = TextQuery("needle", regex=False)


def program(path: Path, code: str = "") -> Path:
    """A Python script that pretends to be ripgrep."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable} -I\n{textwrap.dedent(code)}")
    path.chmod(0o755)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "proj", {"a.txt": "needle\n", "b.txt": "needle\n"})


def test_setting_beats_path_and_an_empty_one_means_without(root: Path, tmp_path: Path) -> None:
    rg = program(tmp_path / "bin" / "rg")
    environ = {"PATH": str(rg.parent)}
    assert find_ripgrep("/opt/rg", workspace_of(root), environ) == "/opt/rg"
    assert find_ripgrep("", workspace_of(root), environ) is None
    assert find_ripgrep(None, workspace_of(root), environ) == str(rg)


def test_program_planted_in_the_workspace_is_never_taken(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = program(root / "node_modules" / ".bin" / "rg")
    program(root / "rg")
    (tmp_path / "alias").symlink_to(planted.parent)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "rg").symlink_to(planted)
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    path = f"{planted.parent}:.::{tmp_path}/alias:{tmp_path}/linked"
    assert find_ripgrep(None, workspace_of(root), {"PATH": path}) is None
    real = program(tmp_path / "bin" / "rg")
    assert find_ripgrep(None, workspace_of(root), {"PATH": f"{path}:{real.parent}"}) == str(real)


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(2)",
        "import sys; print('error: unknown flag --sort', file=sys.stderr); sys.exit(2)",
        "import sys; sys.exit(127)",
    ],
)
async def test_ripgrep_that_cannot_serve_is_replaced_by_the_fallback(
    root: Path, tmp_path: Path, code: str
) -> None:
    settings = SearchSettings(ripgrep=str(program(tmp_path / "bin" / "rg", code)), environ={})
    text = await find_text(workspace_of(root), NEEDLE, Where("", ""), 9, settings)
    assert [match.path.name for match in text.items] == ["a.txt", "b.txt"]


async def test_missing_ripgrep_is_replaced_by_the_fallback(root: Path, tmp_path: Path) -> None:
    settings = SearchSettings(ripgrep=str(tmp_path / "no" / "rg"), environ={})
    assert len((await find_files(workspace_of(root), Where("", ""), 9, settings)).items) == 2
    assert len((await find_text(workspace_of(root), NEEDLE, Where("", ""), 9, settings)).items) == 2


SLOW = r"""#!/bin/sh
echo $$ >"$PID_FILE"
lines='"lines":{"text":"needle\n"},"line_number":1,"absolute_offset":0'
found='"submatches":[{"match":{"text":"needle"},"start":0,"end":6}]'
printf '%s\n' '{"type":"match","data":{"path":{"text":"a.txt"},'"$lines,$found"'}}' \
    '{"type":"end","data":{"path":{"text":"a.txt"},"binary_offset":null}}'
exec /bin/sleep 600
"""
"""A shell starts in milliseconds: long before the deadline of a search, also on a busy machine."""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    path = program(tmp_path / "bin" / "rg")
    path.write_text(SLOW)
    return path


async def ended(pid_file: Path) -> None:
    """Long before it would end by itself; a search waits only so long for a program that it killed."""
    process = Path("/proc", pid_file.read_text().strip())
    await until(lambda: not process.exists())


async def test_late_search_gives_what_was_found(root: Path, slow: Path, tmp_path: Path) -> None:
    settings = SearchSettings(ripgrep=str(slow), deadline=1.0, environ={})
    text = await asyncio.wait_for(find_text(workspace_of(root), NEEDLE, Where("", ""), 9, settings), 20)
    assert ([match.path.name for match in text.items], text.capped, text.late) == (["a.txt"], True, True)
    await ended(tmp_path / "pid")


async def test_deadline_holds_before_the_search_has_begun(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that hangs while the rules are read."""
    released = threading.Event()
    monkeypatch.setattr(engine, "_scopes", lambda *_: released.wait(20))
    settings = SearchSettings(ripgrep="", deadline=0.05, environ={})
    try:
        found = await asyncio.wait_for(find_files(workspace_of(root), Where("", ""), 9, settings), 5)
    finally:
        released.set()
    assert (found.items, found.capped, found.late) == ((), True, True)


async def test_cancelled_search_leaves_no_ripgrep_behind(root: Path, slow: Path, tmp_path: Path) -> None:
    settings = SearchSettings(ripgrep=str(slow), environ={})
    task = asyncio.create_task(find_text(workspace_of(root), NEEDLE, Where("", ""), 9, settings))
    async with asyncio.timeout(20):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended(tmp_path / "pid")


@pytest.mark.skipif(RIPGREP is None, reason="no rg, and no wheel of it for this machine")
@pytest.mark.parametrize("most", [50, 1])
async def test_a_whole_directory_gives_only_the_files_of_the_list(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others appeared in the directory, and below it, since the list was made."""
    monkeypatch.setattr(ripgrep, "MAX_COUNTED_LINES", most)
    write_tree(tmp_path, {f"d/{name}": "needle\n" for name in ("a", "b", "new", "x/a", "z")})
    batch = Batch()
    batch.add(FilesOfDirectory(Segment("d/", "/a/b/z/", 3, True), ["a", "b", "z"]))
    found: Findings[Line] = Findings()
    assert RIPGREP is not None
    await find_lines(RIPGREP, tmp_path, NEEDLE, batch, limit=2, found=found)
    assert [line.relative for line in found.items] == ["d/a", "d/b"]
    assert found.exact is (most == 50)
