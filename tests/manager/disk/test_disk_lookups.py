"""Look-ups that wait share one thread; none gets what was read before it was asked for."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from manager.disk.disk_lookups import DiskLookups, NoAnswer


@dataclass
class Disk:
    """A disk whose reads wait for their turn.

    Attributes:
        content: what the next read finds.
        reads: how many were begun.
    """

    content: str = "old"
    reads: int = 0
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def read(self) -> str:
        """What is there when the read begins; returned when it is let go on."""
        self.reads += 1
        content = self.content
        self.begun.release()
        assert self.turns.acquire(timeout=10)
        return content


async def test_a_look_up_that_began_before_a_change_is_not_shared_with_who_asks_after_it() -> None:
    disk, lookups = Disk(), DiskLookups()
    early = asyncio.create_task(lookups.run("folder", disk.read))
    assert await asyncio.to_thread(disk.begun.acquire, timeout=10)
    disk.content = "new"
    late = [asyncio.create_task(lookups.run("folder", disk.read)) for _ in range(3)]
    await asyncio.sleep(0)
    disk.turns.release(2)
    assert await asyncio.gather(early, *late) == ["old", "new", "new", "new"]
    assert disk.reads == 2


async def test_callers_of_a_folder_that_hangs_hold_one_thread_and_get_no_answer() -> None:
    disk, lookups = Disk(), DiskLookups(deadline_s=0.05)
    assert await lookups.run("folder", disk.read) is NoAnswer.TIMED_OUT
    assert (
        await asyncio.gather(*(lookups.run("folder", disk.read) for _ in range(5)))
        == [NoAnswer.TIMED_OUT] * 5
    )
    assert disk.reads == 1
    disk.turns.release(2)


async def test_a_fault_is_told_to_who_shared_the_look_up_and_the_next_one_begins_anew() -> None:
    lookups = DiskLookups()

    def fail() -> str:
        raise OSError("no such folder")

    faults = await asyncio.gather(*(lookups.run("a", fail) for _ in range(2)), return_exceptions=True)
    assert [str(fault) for fault in faults] == ["no such folder"] * 2
    with pytest.raises(OSError, match="no such folder"):
        await lookups.run("a", fail)
    assert await lookups.run("a", lambda: "there") == "there"
