"""One look for everybody who asks at about the same time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from workspace_server.files import single_flight as fresh_module
from workspace_server.files.single_flight import Fresh


class Looks:
    """A look that a test holds up."""

    def __init__(self) -> None:
        self.count = 0
        self.value = "old"
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def look(self) -> str:
        self.count += 1
        seen = self.value
        self.begun.set()
        assert self.go_on.wait(10)
        return seen


async def test_nobody_gets_what_was_seen_before_they_asked() -> None:
    looks = Looks()
    fresh = Fresh(looks.look)
    first = asyncio.create_task(fresh.get())
    await asyncio.to_thread(looks.begun.wait, 10)
    looks.value = "new"
    late = [asyncio.create_task(fresh.get()) for _ in range(50)]
    await asyncio.sleep(0)
    looks.go_on.set()
    assert await first == "old"
    assert set(await asyncio.gather(*late)) == {"new"}
    assert looks.count == 2
    await fresh.close()


async def test_caller_that_leaves_takes_the_look_from_nobody() -> None:
    looks = Looks()
    fresh = Fresh(looks.look)
    leaving, staying = asyncio.create_task(fresh.get()), asyncio.create_task(fresh.get())
    await asyncio.to_thread(looks.begun.wait, 10)
    leaving.cancel()
    looks.go_on.set()
    assert await staying == "old"
    await fresh.close()


async def test_look_that_fails_fails_for_those_who_waited_and_not_for_the_next() -> None:
    outcomes: list[Exception | None] = [OSError("gone"), None]

    def look() -> str:
        fault = outcomes.pop(0)
        if fault is not None:
            raise fault
        return "fine"

    fresh = Fresh(look)
    with pytest.raises(OSError, match="gone"):
        await fresh.get()
    assert await fresh.get() == "fine"


async def test_quick_look_needs_no_thread_until_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def look() -> None:
        threads.append(threading.current_thread() is not threading.main_thread())

    fresh = Fresh(look, may_be_quick=True)
    await fresh.get()
    monkeypatch.setattr(fresh_module, "QUICK_S", 0.0)
    await fresh.get()
    monkeypatch.undo()
    await fresh.get()
    assert threads == [False, True, False]
    await fresh.close()
