"""What killed servers left in the runtime folder is removed; what others use or made stays."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from lm_tools_bridge.protocol import names
from manager.supervision import leftovers as leftover_files
from manager.supervision.leftovers import remove_leftover_files, remove_unfinished_files
from support.processes.timeouts import within


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for the name of a socket."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def bound(path: Path) -> socket.socket:
    """A socket that listens at this path."""
    path.parent.mkdir(exist_ok=True, mode=0o700)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen()
    return sock


def named(folder: Path, name: str, path: Path) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"socket": str(path), "auth": "x", "pid": 1}))
    file.chmod(0o600)
    return file


def test_only_sockets_without_a_listener_are_removed(short_folder: Path) -> None:
    internal = short_folder / "internal"
    dead, nameless = internal / "dead-0123abcd.sock", internal / "other-0123abcd.sock"
    living, outside = internal / "living-0123abcd.sock", short_folder / f".lmtb-{16 * 'a'}" / "0123abcd.sock"
    for path in (dead, nameless, outside):
        bound(path).close()
    gone = [named(internal, "dead", dead), named(internal, "outside", outside)]
    kept = [named(internal, "living", living), named(internal, "strange", short_folder / "precious.sock")]
    with bound(living), bound(short_folder / "x.sock"):
        bound(short_folder / "precious.sock").close()
        assert remove_leftover_files(short_folder) == 3
        assert not any(path.exists() for path in (*gone, dead, nameless, outside.parent))
        assert all(path.exists() for path in (*kept, living, short_folder / "precious.sock"))


def test_only_old_unfinished_files_are_removed(tmp_path: Path) -> None:
    secrets = tmp_path / "state" / "secrets"
    secrets.mkdir(parents=True)
    old, new, other = (secrets / name for name in (".a.json.0123456789ab", ".b.json.0123456789ab", ".hidden"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    assert remove_unfinished_files(tmp_path / "state", tmp_path / "run") == 1
    assert sorted(secrets.iterdir()) == [new, other]


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals of POSIX")

DETACHED = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()}\\n")
{then}
"""
"""Leaves group, session and parent; then writes its pid to a file."""
FORK_LOOP = """
while True:
    if os.fork():
        time.sleep(0.002)
    else:
        os.setsid()
        time.sleep(60)
        os._exit(0)
"""


@pytest.fixture
def instance() -> str:
    """A unique instance id, so that no other test has processes with its mark."""
    return f"i-{secrets.token_hex(4)}"


class MarkedProcesses:
    """Starts detached processes, and kills those that still run on close."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[psutil.Process] = []

    def start_detached(self, environ: dict[str, str], then: str = "time.sleep(60)") -> psutil.Process:
        """A process that has left its parent, group and session."""
        pid_file = self._folder / f"pid-{len(self._started)}"
        code = DETACHED.replace("{then}", then)
        subprocess.run([sys.executable, "-I", "-c", code, str(pid_file)], env=environ, check=True)
        deadline = time.monotonic() + within(5)
        while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        self._started.append(psutil.Process(int(pid_file.read_text())))
        return self._started[-1]

    def close(self) -> None:
        for process in self._started:
            if process.is_running():
                process.kill()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[MarkedProcesses]:
    made = MarkedProcesses(tmp_path)
    yield made
    made.close()


def mark(instance: str, rest: str = "x1") -> dict[str, str]:
    return {names.CHILD_VARIABLE: f"{instance}.{rest}"}


def is_running(process: psutil.Process) -> bool:
    """Whether it runs; a killed one may stay a zombie for a moment."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_all_marked_processes_are_killed(instance: str, processes: MarkedProcesses) -> None:
    """The mark may be the first or last variable, with any suffix."""
    some = [
        processes.start_detached(mark(instance)),
        processes.start_detached({"A": "1", **mark(instance, "other")}),
        processes.start_detached({**mark(instance), "Z": "1"}),
    ]
    assert sorted(leftover_files.find_leftovers(instance)) == sorted(one.pid for one in some)
    assert leftover_files.kill_leftovers(instance) >= len(some)
    assert not any(map(is_running, some))
    assert leftover_files.kill_leftovers(instance) == 0


def test_processes_without_exactly_this_mark_are_left_alone(
    instance: str, processes: MarkedProcesses
) -> None:
    """Another instance, a longer id, no mark, and the mark in another variable or in a value."""
    value = mark(instance)[names.CHILD_VARIABLE]
    others = [
        processes.start_detached(mark("i-00000000")),
        processes.start_detached(mark(f"{instance}1")),
        processes.start_detached({names.CHILD_VARIABLE: instance}),
        processes.start_detached({}),
        processes.start_detached({f"X{names.CHILD_VARIABLE}": value}),
        processes.start_detached({"TEXT": f"{names.CHILD_VARIABLE}={value}"}),
        processes.start_detached({names.INSTANCE_VARIABLE: instance}),
    ]
    ours = processes.start_detached(mark(instance))
    assert leftover_files.kill_leftovers(instance) >= 1
    assert not is_running(ours)
    assert all(map(is_running, others))


def test_a_process_that_keeps_forking_is_killed_with_its_children(
    instance: str, processes: MarkedProcesses
) -> None:
    parent = processes.start_detached(mark(instance), FORK_LOOP)
    leftover_files.kill_leftovers(instance)
    assert not is_running(parent)
    assert leftover_files.find_leftovers(instance) == []


def test_nothing_is_found_where_nothing_was_started(instance: str) -> None:
    assert leftover_files.find_leftovers(instance) == []
    assert os.getpid() not in leftover_files.find_leftovers("")
