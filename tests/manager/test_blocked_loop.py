"""Blocks real event loops, until the thread that watches them has seen it or for a measured time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from manager.blocked_loop import MOST_FRAMES, Spacing, stood_still, watched
from support.processes.managers.manager_home import until
from support.processes.timeouts import GUARD_S

EVERY_S: Final = 0.01
BLOCKED_S: Final = 0.05
Lines = list[Any]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The lines that are logged."""
    with capture_logs() as captured:
        yield captured


def told(lines: Lines, event: str) -> Lines:
    return [one for one in lines if one["event"] == f"event_loop.{event}"]


def stacks_in(lines: Lines, function: str) -> Lines:
    """The lines about a loop that was blocked in a function."""
    return [one for one in told(lines, "blocked") if f"in {function}" in one["where"]]


def watching() -> AbstractContextManager[None]:
    """Watch the running loop much more closely than a manager does."""
    loop = asyncio.get_running_loop()
    return watched(loop, every_s=EVERY_S, blocked_s=BLOCKED_S, tell_every_s=EVERY_S)


def block_until(holds: Callable[[], object]) -> None:
    """Block this thread, and so its event loop, as a look at a disk would."""
    deadline = time.monotonic() + GUARD_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def hold_interpreter(seconds: float) -> None:
    """Compute for at least so long in one call that no other thread can interrupt."""
    size = 100_000
    while True:
        began = time.monotonic()
        sum(range(size))
        if time.monotonic() - began >= seconds:
            return
        size *= 2


def blocked_deeper(depth: int, holds: Callable[[], object]) -> None:
    if depth:
        blocked_deeper(depth - 1, holds)
    else:
        block_until(holds)


async def test_the_stack_of_what_blocks_is_logged_while_it_lasts_then_its_end(lines: Lines) -> None:
    with watching():
        block_until(lambda: stacks_in(lines, "block_until"))
        assert not told(lines, "recovered")
        await until(lambda: told(lines, "recovered"), GUARD_S)
    blocked, recovered = stacks_in(lines, "block_until")[-1], told(lines, "recovered")[0]
    assert "in test_the_stack_of_what_blocks" in blocked["stack"]
    assert f"{__file__}:" in blocked["where"]
    assert blocked["where"].endswith("in block_until")
    assert recovered["seconds"] >= blocked["seconds"] > 0


async def test_code_that_does_not_release_the_interpreter_lock_is_named_afterwards(lines: Lines) -> None:
    with watching():
        deadline = time.monotonic() + GUARD_S
        while not stacks_in(lines, "hold_interpreter"):
            assert time.monotonic() < deadline
            hold_interpreter(4 * BLOCKED_S)
            await asyncio.sleep(2 * EVERY_S)  # the thread asks again


def test_one_stack_a_minute_is_logged_with_the_number_of_those_left_out() -> None:
    spacing = Spacing(60)
    assert [spacing.passes(now) for now in (100, 101, 159, 160, 161, 400, 401, 460)] == [
        0, None, None, 2, None, 1, None, 1
    ]  # fmt: skip


async def test_a_block_that_lasts_is_logged_again_with_its_seconds(lines: Lines) -> None:
    with watching():
        block_until(lambda: len({one["seconds"] for one in stacks_in(lines, "block_until")}) > 1)
        assert not told(lines, "recovered")


async def test_a_deep_stack_is_cut_at_its_outer_end(lines: Lines) -> None:
    with watching():
        blocked_deeper(2 * MOST_FRAMES, lambda: stacks_in(lines, "block_until"))
    stack = stacks_in(lines, "block_until")[-1]["stack"].splitlines()
    assert len(stack) == MOST_FRAMES
    assert stack[-1].endswith("in block_until")


async def test_a_loop_that_runs_is_left_alone(lines: Lines) -> None:
    with watched(asyncio.get_running_loop(), every_s=0.0, blocked_s=GUARD_S):
        for _ in range(200):
            await asyncio.sleep(0)
    assert lines == []


@pytest.mark.parametrize(
    ("waited_s", "cpu_s", "expected"),
    [
        (1.0, 0.0, False),  # the wait took its time: the loop sleeps in a call of the system
        (1.4, 0.0, False),
        (9.0, 0.1, True),  # SIGSTOP, or a machine that had no processor to give
        (9.0, 8.0, False),  # something computes and lets no other thread run
        (9.0, 1.0, False),  # the same on a busy machine
    ],
)
def test_a_process_that_stood_still_is_told_from_a_blocked_loop(
    waited_s: float, cpu_s: float, expected: bool
) -> None:
    assert stood_still(waited_s, 1.0, cpu_s) is expected
