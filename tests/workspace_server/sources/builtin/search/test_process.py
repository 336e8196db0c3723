"""Search programs: fed, capped, and gone afterwards."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from workspace_server.sources.builtin.search.process import MAX_STDERR, run
from workspace_server.sources.builtin.search.query import EngineUnavailable

PARENT_AND_CHILD = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), child.pid, flush=True)
child.wait()
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", code]


class Output:
    """Collects output; `seen` is set at the first of it."""

    def __init__(self, *, enough: bool = False) -> None:
        self.data = b""
        self.seen = asyncio.Event()
        self._enough = enough

    def __call__(self, chunk: bytes) -> bool:
        self.data += chunk
        self.seen.set()
        return not self._enough

    def assert_all_gone(self) -> None:
        pids = [int(pid) for pid in self.data.split()]
        assert len(pids) == 2
        _, alive = psutil.wait_procs(
            [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=5
        )
        assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


async def test_output_code_and_complaints_are_reported(tmp_path: Path) -> None:
    output = Output()
    code = "import sys; sys.stderr.write('e' * 100_000); print(sys.stdin.read()); sys.exit(3)"
    ended = await run(python(code), tmp_path, output, stdin=b"x" * 300_000)
    assert (ended.code, len(output.data), len(ended.stderr)) == (3, 300_001, MAX_STDERR)


async def test_program_that_reads_nothing_is_no_error(tmp_path: Path) -> None:
    ended = await run(python(""), tmp_path, Output(), stdin=b"x" * 1_000_000)
    assert ended.code == 0


async def test_program_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable):
        await run([str(tmp_path / "rg")], tmp_path, Output())
    with pytest.raises(EngineUnavailable):
        await run(python(""), tmp_path / "gone", Output())


async def test_reader_that_has_enough_ends_the_program_and_its_children(tmp_path: Path) -> None:
    output = Output(enough=True)
    ended = await asyncio.wait_for(run(python(PARENT_AND_CHILD), tmp_path, output), 20)
    assert ended.code is None
    output.assert_all_gone()


async def test_endless_output_stops_at_once(tmp_path: Path) -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    ended = await asyncio.wait_for(run(python(code), tmp_path, Output(enough=True)), 20)
    assert ended.code is None


async def test_cancelling_kills_the_program_and_its_children(tmp_path: Path) -> None:
    output = Output()
    task = asyncio.create_task(run(python(PARENT_AND_CHILD), tmp_path, output))
    await asyncio.wait_for(output.seen.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    output.assert_all_gone()


async def test_failing_reader_kills_the_program(tmp_path: Path) -> None:
    output = Output()

    def fail(chunk: bytes) -> bool:
        output(chunk)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await asyncio.wait_for(run(python(PARENT_AND_CHILD), tmp_path, fail), 20)
    output.assert_all_gone()


async def test_standard_input_can_be_opened_by_name(tmp_path: Path) -> None:
    """A pipe could not, where the loop makes it a socket (uvloop)."""
    output = Output()
    code = "import sys; sys.stdout.write(open('/dev/stdin').read())"
    ended = await run(python(code), tmp_path, output, stdin=b"fed")
    assert (ended.code, output.data) == (0, b"fed")


def children() -> list[psutil.Process]:
    """What this process started and what still runs of it."""
    found = psutil.Process().children(recursive=True)
    return [child for child in found if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("turns", [*range(12), 30, 100])
async def test_cancelling_at_any_moment_leaves_nothing_behind(tmp_path: Path, turns: int) -> None:
    before = children()
    code = "import time; time.sleep(600)"
    task = asyncio.create_task(run(python(code), tmp_path, Output(), stdin=b"x"))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    async with asyncio.timeout(5):
        while children() != before:
            await asyncio.sleep(0.01)
