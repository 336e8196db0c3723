"""When windows are looked for."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from lm_tools_bridge.editors.window import Window
from lm_tools_bridge.editors.window_watch import WindowWatch


class Finder:
    """Finds what `windows` has when a look begins; the first look waits for `release`."""

    def __init__(self) -> None:
        self.windows: list[Window] = []
        self.looks = 0
        self.begun = threading.Event()
        self.release = threading.Event()

    def find(self) -> list[Window]:
        seen, self.looks = list(self.windows), self.looks + 1
        self.begun.set()
        assert self.release.wait(10)
        return seen

    def ask(self, port: int) -> Window | None:
        return next((window for window in self.windows if window.port == port), None)


@pytest.fixture
def finder() -> Finder:
    return Finder()


@pytest.fixture
def watch(finder: Finder) -> WindowWatch:
    return WindowWatch(finder, lambda: 0.0, lambda *_: None, lambda: None)  # type: ignore[arg-type]  # as far as it is used


async def test_a_new_look_is_made_although_one_is_under_way(watch: WindowWatch, finder: Finder) -> None:
    early = asyncio.create_task(watch.look())
    await asyncio.to_thread(finder.begun.wait)
    finder.windows = [Window(7, Path("/p"))]
    late = [asyncio.create_task(watch.look(anew=True)) for _ in range(3)]
    await asyncio.sleep(0)
    finder.release.set()
    await asyncio.gather(early, *late)
    assert watch.window == Window(7, Path("/p"))
    assert finder.looks == 2


async def test_other_looks_share_the_one_that_is_under_way(watch: WindowWatch, finder: Finder) -> None:
    looks = [asyncio.create_task(watch.look()) for _ in range(3)]
    await asyncio.to_thread(finder.begun.wait)
    finder.release.set()
    await asyncio.gather(*looks)
    assert finder.looks == 1


async def test_no_new_look_is_made_after_the_end(watch: WindowWatch, finder: Finder) -> None:
    early = asyncio.create_task(watch.look())
    await asyncio.to_thread(finder.begun.wait)
    late = asyncio.create_task(watch.look(anew=True))
    await asyncio.sleep(0)
    end = asyncio.create_task(watch.close())
    await asyncio.sleep(0)
    finder.release.set()
    await asyncio.gather(early, late, end)
    assert finder.looks == 1
