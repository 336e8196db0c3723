"""Tests the lock with real processes, whose death must release it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import manager
from lm_tools_bridge.machine.private_files import UnsafePathError
from manager.startup.lock import Lock, LockHolder

ROOT = Path(manager.__file__).parents[1]
STARTER = """
import sys
from pathlib import Path
from manager.startup.lock import Lock
print("ready", flush=True)
sys.stdin.readline()
got = Lock.acquire(Path(sys.argv[1]))
if isinstance(got, Lock):
    got.describe(address="127.0.0.1:1", version="9.9", started_at="2026-01-01T00:00:00Z")
print("won" if isinstance(got, Lock) else "held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def starter(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that tries for the lock at the first line it is sent, and ends at the second."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(path)], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert answer(process) == "ready"
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str], send: str = "") -> str:
    assert process.stdin
    assert process.stdout
    process.stdin.write(send)
    process.stdin.flush()
    return process.stdout.readline().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "manager.lock"


def test_exactly_one_of_ten_simultaneous_starters_wins(path: Path) -> None:
    with ExitStack() as stack:
        starters = [stack.enter_context(starter(path)) for _ in range(10)]
        for process in starters:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        results = [answer(process) for process in starters]
        winner = starters[results.index("won")]
        assert sorted(results) == ["held"] * 9 + ["won"]
        assert Lock.acquire(path) == LockHolder(winner.pid, "127.0.0.1:1", "9.9", "2026-01-01T00:00:00Z")


def test_killed_holder_leaves_nothing_that_blocks_a_start(path: Path) -> None:
    with starter(path) as holder:
        assert answer(holder, "go\n") == "won"
        assert isinstance(Lock.acquire(path), LockHolder)
        holder.kill()
        holder.wait()
        lock = Lock.acquire(path)
    assert isinstance(lock, Lock)
    lock.release()


@pytest.mark.parametrize(
    "found", [b"1", b'{"pid": 1, "address": "127.0.0.1:47100"}\n', b"\xff\xfe", b"", b"x" * 100_000]
)
def test_contents_of_the_file_never_stop_a_start(path: Path, found: bytes) -> None:
    """A forged or stale description naming a living process is only text."""
    path.write_bytes(found)
    lock = Lock.acquire(path)
    assert isinstance(lock, Lock)
    assert Lock.acquire(path) == LockHolder(pid=os.getpid())  # nothing of a former holder is told any more
    lock.release()


@pytest.mark.parametrize(
    "written", [b"", b"not json", b"[1]", b'{"pid": "1", "address": 5}', b"\xff", b"[" * 3000]
)
def test_unreadable_description_still_means_held(path: Path, written: bytes) -> None:
    lock = Lock.acquire(path)
    assert isinstance(lock, Lock)
    path.write_bytes(written)
    assert Lock.acquire(path) == LockHolder()
    lock.release()


def test_shorter_description_replaces_a_longer_one(path: Path) -> None:
    lock = Lock.acquire(path)
    assert isinstance(lock, Lock)
    lock.describe(address="a" * 500, version="1", started_at="t")
    lock.describe(address="b", version="1", started_at="t")
    assert json.loads(path.read_bytes()) == {
        "pid": os.getpid(), "environment": {}, "address": "b", "version": "1", "startedAt": "t"
    }  # fmt: skip
    lock.release()


def test_released_lock_can_be_taken_again(path: Path) -> None:
    first = Lock.acquire(path)
    assert isinstance(first, Lock)
    first.release()
    first.release()
    second = Lock.acquire(path)
    assert isinstance(second, Lock)
    second.release()


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX")
def test_lock_file_is_private_and_not_inherited(path: Path) -> None:
    lock = Lock.acquire(path)
    assert isinstance(lock, Lock)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not os.get_inheritable(lock._descriptor)
    lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX")
def test_planted_link_folder_or_pipe_is_refused_and_the_target_untouched(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    path.symlink_to(target)
    with pytest.raises(UnsafePathError, match="not a regular file"):
        Lock.acquire(path)
    assert target.read_text() == "kept"
    path.unlink()
    path.mkdir()
    with pytest.raises(UnsafePathError, match="not a regular file"):
        Lock.acquire(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(UnsafePathError, match="not a regular file"):
        Lock.acquire(path)


def test_explanation_says_what_is_known() -> None:
    known = LockHolder(7, "127.0.0.1:47100", "1.2", "2026-01-01")
    assert str(known).endswith("running: pid 7, at 127.0.0.1:47100, version 1.2, since 2026-01-01")
    assert str(LockHolder()).endswith("running: starting up")
