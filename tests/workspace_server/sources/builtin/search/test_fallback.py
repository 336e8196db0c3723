"""What only the engine without ripgrep must be able to do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from support.processes.timeouts import within
from support.projects.file_tree import settings_of, workspace_of, write_tree
from workspace_server.sources.builtin.search import batches, line_matcher
from workspace_server.sources.builtin.search.engine import Where, find_text
from workspace_server.sources.builtin.search.line_matcher import InvalidPattern, compile_query
from workspace_server.sources.builtin.search.query import TextQuery

HOSTILE = TextQuery("^(a+)+$", regex=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "proj", {"1.txt": "aaa\n", "2.txt": "a" * 60 + "!\n", "3.txt": "aaa\n"})


def matchers() -> list[psutil.Process]:
    """Line matchers that this process started and that still run."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # also said of one that is dead but not reaped yet
            if any("line_matcher" in word for word in child.cmdline()):
                found.append(child)
    return found


async def test_catastrophic_regex_is_stopped_by_the_deadline(root: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    settings = settings_of("python", tmp_path, deadline=1.5)
    found = await asyncio.wait_for(find_text(workspace_of(root), HOSTILE, Where("", ""), 9, settings), 20)
    assert time.monotonic() - started < 15
    assert ([match.path.name for match in found.items], found.capped, found.late) == (["1.txt"], True, True)
    assert matchers() == []


async def test_tree_larger_than_a_batch_is_searched_in_order(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 2)
    monkeypatch.setattr(batches, "GROWTH", 1)
    write_tree(root, {f"{number}/x.log": "aaa\naaa\n" for number in range(5)})
    query = TextQuery("aaa", regex=False)
    for limit, expected in ((99, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]), (5, [0, 0, 1, 1, 2])):
        found = await find_text(
            workspace_of(root), query, Where("*.log", ""), limit, settings_of("python", tmp_path)
        )
        assert [int(match.path.parent.name) for match in found.items] == expected
        assert found.capped is (limit == 5)


async def test_hits_before_the_deadline_are_told_however_large_the_tree(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST", 1)
    monkeypatch.setattr(batches, "GROWTH", 1)
    for name in ("1.txt", "2.txt", "3.txt"):  # a batch has whole directories
        (root / name[0]).mkdir()
        (root / name).rename(root / name[0] / name)
    settings = settings_of("python", tmp_path, deadline=1.5)
    found = await asyncio.wait_for(find_text(workspace_of(root), HOSTILE, Where("", ""), 9, settings), 20)
    assert ([match.path.name for match in found.items], found.late) == (["1.txt"], True)


def test_line_too_long_to_be_held_counts_as_binary(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_matcher, "WHOLE_FILE", 10)
    write_tree(root, {"1.txt": "a\n" * 10, "2.txt": "a\n" + "a" * 11})
    regex = compile_query("a", literal=True, ignore_case=False)
    found = [
        len(line_matcher.matches_in(bytes(root / name), regex, literal=True, limit=99, head_bytes=9))
        for name in ("1.txt", "2.txt")
    ]
    assert found == [10, 0]


async def test_event_loop_runs_on_while_a_regex_hangs(root: Path, tmp_path: Path) -> None:
    settings = settings_of("python", tmp_path, deadline=1.0)
    task = asyncio.create_task(find_text(workspace_of(root), HOSTILE, Where("", ""), 9, settings))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 20


async def test_cancelled_search_leaves_no_matcher_behind(root: Path, tmp_path: Path) -> None:
    settings = settings_of("python", tmp_path)
    task = asyncio.create_task(find_text(workspace_of(root), HOSTILE, Where("", ""), 9, settings))
    async with asyncio.timeout(20):
        while not matchers():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(within(2)):  # one that was just being started is killed, but not waited for
        while matchers():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "pattern",
    ["a{b", "{", "(?>a)", "(?#c)", "(?P<n>a)(?P=n)", "(a)(?(1)b)", "[[:alpha:]]", "[a&&b]", "a" + "(" * 5000],
)
def test_what_only_python_understands_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_query(pattern, literal=False, ignore_case=False)


@pytest.mark.parametrize(
    "pattern", [r"a\{b", "a{2}", "a{2,}", "a{2,3}", "[{(]", r"[\1]", r"\\1", "[]a]", "[^]a]", "}", ""]
)
def test_what_both_understand_is_accepted(pattern: str) -> None:
    compile_query(pattern, literal=False, ignore_case=False)


def test_matcher_needs_nothing_but_the_standard_library(root: Path) -> None:
    """Planted modules beside the searched files are not imported."""
    write_tree(root, {"json.py": "raise SystemExit(9)", "re.py": "raise SystemExit(9)"})
    request = {
        "pattern": "aaa",
        "literal": True,
        "ignoreCase": False,
        "limit": 2,
        "keep": 1,
        "headBytes": 10,
        "root": str(root),
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(line_matcher.__file__)],
        input=json.dumps({**request, "files": ["1.txt", "3.txt"]}).encode(),
        cwd=root,
        capture_output=True,
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [0, 1, "aaa", False, 0, 1],
        {"done": True, "count": 2},
    ]
