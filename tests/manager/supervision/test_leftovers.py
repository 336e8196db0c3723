"""Processes that moved away from the server that started them, and whom the sweep does not concern."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from manager.supervision import leftovers
from protocol import names
from support.processes.timeouts import within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals of POSIX")

AWAY = """
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
"""Leaves group, session and parent; then tells its process id in a file."""
RESTLESS = """
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
    """An id that no other test has: what carries its mark is this test's."""
    return f"i-{secrets.token_hex(4)}"


class Family:
    """Starts processes with marks, and ends at the end what is still there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[psutil.Process] = []

    def away(self, environ: dict[str, str], then: str = "time.sleep(60)") -> psutil.Process:
        """A process nobody is the parent of any more."""
        told = self._folder / f"pid-{len(self._started)}"
        code = AWAY.replace("{then}", then)
        subprocess.run([sys.executable, "-I", "-c", code, str(told)], env=environ, check=True)
        deadline = time.monotonic() + within(5)
        while not (told.exists() and told.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        self._started.append(psutil.Process(int(told.read_text())))
        return self._started[-1]

    def close(self) -> None:
        for process in self._started:
            if process.is_running():
                process.kill()


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path)
    yield made
    made.close()


def mark(instance: str, rest: str = "x1") -> dict[str, str]:
    return {names.CHILD_VARIABLE: f"{instance}.{rest}"}


def lives(process: psutil.Process) -> bool:
    """Whether it still does something; one that was killed may wait for whoever adopted it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_carries_the_mark_is_ended_wherever_it_moved(instance: str, family: Family) -> None:
    """First and last variable, and whatever the rest of the mark is."""
    some = [
        family.away(mark(instance)),
        family.away({"A": "1", **mark(instance, "other")}),
        family.away({**mark(instance), "Z": "1"}),
    ]
    assert sorted(leftovers.find_leftovers(instance)) == sorted(one.pid for one in some)
    assert leftovers.kill_leftovers(instance) >= len(some)
    assert not any(map(lives, some))
    assert leftovers.kill_leftovers(instance) == 0


def test_what_belongs_to_others_is_left_alone(instance: str, family: Family) -> None:
    """Another instance, one whose id begins alike, an unmarked one, and one that only speaks of the mark."""
    value = mark(instance)[names.CHILD_VARIABLE]
    others = [
        family.away(mark("i-00000000")),
        family.away(mark(f"{instance}1")),
        family.away({names.CHILD_VARIABLE: instance}),
        family.away({}),
        family.away({f"X{names.CHILD_VARIABLE}": value}),
        family.away({"TEXT": f"{names.CHILD_VARIABLE}={value}"}),
        family.away({names.INSTANCE_VARIABLE: instance}),
    ]
    ours = family.away(mark(instance))
    assert leftovers.kill_leftovers(instance) >= 1
    assert not lives(ours)
    assert all(map(lives, others))


def test_one_that_keeps_starting_others_is_ended_with_all_of_them(instance: str, family: Family) -> None:
    parent = family.away(mark(instance), RESTLESS)
    leftovers.kill_leftovers(instance)
    assert not lives(parent)
    assert leftovers.find_leftovers(instance) == []


def test_nobody_is_found_where_nobody_was_started(instance: str) -> None:
    assert leftovers.find_leftovers(instance) == []
    assert os.getpid() not in leftovers.find_leftovers("")
