"""Runs tests on both event loops, and checks that no descriptor or process is left behind."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from support.processes.child_processes import zombies
from workspace_server.processes import spawn

if sys.platform != "linux":
    pytest.skip("these tests read /proc", allow_module_level=True)

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def _uvloop() -> asyncio.AbstractEventLoop:
    uvloop = pytest.importorskip("uvloop")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@pytest.fixture(params=[asyncio.SelectorEventLoop, _uvloop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine; afterwards no task, descriptor or zombie may be left."""
    spawn._launcher_code()  # stays open for good, as does what a first loop opens
    with asyncio.Runner(loop_factory=request.param) as first:
        first.run(asyncio.sleep(0))
    before = _descriptors()
    with asyncio.Runner(loop_factory=request.param) as runner:

        async def alone(scenario: Coroutine[Any, Any, Any]) -> Any:
            result = await scenario
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left
            return result

        yield lambda scenario: runner.run(alone(scenario))
    assert _descriptors() == before
    assert _reaped() == [], "a child was not waited for"


def _reaped() -> list[int]:
    """The children that nobody waited for; now they are, so that the next test does not fail for them."""
    left = zombies()
    for pid in left:
        os.waitpid(pid, 0)
    return left


def _descriptors() -> set[str]:
    own = {f"/proc/{os.getpid()}/fd"}
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target not in own:
            found.add(f"{number} {target}")
    return found
