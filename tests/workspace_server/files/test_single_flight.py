"""One look for everybody who asks at about the same time."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from workspace_server.files import single_flight
from workspace_server.files import single_flight as fresh_module
from workspace_server.files.single_flight import LocalFiles, SingleFlight


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
    single_flight = SingleFlight(looks.look)
    first = asyncio.create_task(single_flight.get())
    await asyncio.to_thread(looks.begun.wait, 10)
    looks.value = "new"
    late = [asyncio.create_task(single_flight.get()) for _ in range(50)]
    await asyncio.sleep(0)
    looks.go_on.set()
    assert await first == "old"
    assert set(await asyncio.gather(*late)) == {"new"}
    assert looks.count == 2
    await single_flight.close()


async def test_caller_that_leaves_takes_the_look_from_nobody() -> None:
    looks = Looks()
    single_flight = SingleFlight(looks.look)
    leaving, staying = asyncio.create_task(single_flight.get()), asyncio.create_task(single_flight.get())
    await asyncio.to_thread(looks.begun.wait, 10)
    leaving.cancel()
    looks.go_on.set()
    assert await staying == "old"
    await single_flight.close()


async def test_look_that_fails_fails_for_those_who_waited_and_not_for_the_next() -> None:
    outcomes: list[Exception | None] = [OSError("gone"), None]

    def look() -> str:
        fault = outcomes.pop(0)
        if fault is not None:
            raise fault
        return "fine"

    single_flight = SingleFlight(look)
    with pytest.raises(OSError, match="gone"):
        await single_flight.get()
    assert await single_flight.get() == "fine"


async def test_quick_look_needs_no_thread_until_it_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def look() -> None:
        threads.append(threading.current_thread() is not threading.main_thread())

    single_flight = SingleFlight(look, may_be_quick=True)
    await single_flight.get()
    monkeypatch.setattr(fresh_module, "QUICK_S", 0.0)
    await single_flight.get()
    monkeypatch.undo()
    await single_flight.get()
    assert threads == [False, True, False]
    await single_flight.close()


@pytest.mark.parametrize(
    ("local", "inside", "at_once"), [(True, True, True), (True, False, False), (False, True, False)]
)
async def test_only_what_cannot_hang_runs_without_a_thread(
    local: bool, inside: bool, at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "are_local", lambda folders: local)
    path = tmp_path / "proj/a.py" if inside else tmp_path / "project/a.py"
    ran_in = await LocalFiles([tmp_path / "proj"]).run([path], threading.current_thread)
    assert (ran_in is threading.current_thread()) is at_once
