"""What samples for open pages cost: how often they are taken, and how many servers they ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any
from unittest.mock import create_autospec

import pytest

from lm_tools_bridge.page import live
from lm_tools_bridge.page.live import (
    EVERY_S,
    LEAST_S,
    MOST_ASKED,
    MOST_CPU,
    MOST_S,
    LivePages,
    ProcessorUse,
)
from manager.admin.control.control_plane import ControlPlane
from support.processes.timeouts import GUARD_S


class Scene:
    """Pages over so many servers, each of which has answered a further call whenever it is looked at."""

    def __init__(self, servers: int, cpu: Callable[[], float] = lambda: 0.0) -> None:
        self.servers, self.calls, self.is_busy = servers, 0, True
        self.failures = self.first_pid = 0
        self.said, self.hung = b"{}", set[str]()
        self.pauses: list[float] = []
        self.asked: list[str] = []
        self.is_over, self.goes_on = asyncio.Event(), asyncio.Event()
        services = create_autospec(ControlPlane, instance=True)
        services.ask_server.side_effect = self.answer
        self.pages = LivePages(services, self.status, tuple, self.sleep, cpu)

    def status(self) -> dict[str, Any]:
        if self.failures > 0:
            self.failures -= 1
            raise ValueError("an odd status")
        self.calls += self.is_busy
        rows = [
            {
                "workspace": f"w{number}",
                "root": f"/w{number}",
                "pid": self.first_pid + number,
                "calls": self.calls,
            }
            for number in range(self.servers)
        ]
        return {"instanceDetails": rows}

    async def answer(self, root: str, _: str, __: None) -> bytes:
        self.asked.append(root)
        if root in self.hung:
            await self.goes_on.wait()
        return self.said

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) == 3:
            self.is_over.set()
            await asyncio.Event().wait()  # until the page is closed

    async def three_samples(self) -> None:
        async with aclosing(self.pages.changes()) as changes:
            await anext(changes)
            await self.is_over.wait()


def questions() -> list[asyncio.Task[Any]]:
    """Those that wait for an answer."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "page.calls"]


async def test_samples_are_a_second_apart_where_they_cost_little() -> None:
    scene = Scene(1)
    await scene.three_samples()
    assert scene.pauses == [EVERY_S] * 3


async def test_samples_that_cost_much_are_rarer() -> None:
    moments = iter(range(1000))
    scene = Scene(0, lambda: next(moments) / 100)  # each reading is 10 ms later, two readings a part
    await scene.three_samples()
    assert scene.pauses == [pytest.approx(0.02 / MOST_CPU)] * 3


async def test_busy_servers_are_asked_in_turns() -> None:
    scene = Scene(2 * MOST_ASKED)
    await scene.three_samples()
    assert len(scene.asked) == 3 * MOST_ASKED
    assert set(scene.asked[: 2 * MOST_ASKED]) == {f"/w{number}" for number in range(2 * MOST_ASKED)}


async def test_a_server_at_rest_is_asked_once() -> None:
    scene = Scene(1)
    scene.is_busy = False
    await scene.three_samples()
    assert scene.asked == ["/w0"]


async def test_the_whole_page_asks_every_server() -> None:
    scene = Scene(2 * MOST_ASKED)
    view = await scene.pages.view()
    assert len(scene.asked) == 2 * MOST_ASKED
    assert len(view.projects) == 2 * MOST_ASKED


async def test_an_open_page_gets_the_first_sample() -> None:
    async with aclosing(Scene(1).pages.changes()) as changes:
        assert "w0" in (await anext(changes))["projects"]


async def test_a_sample_that_fails_is_not_the_last_one() -> None:
    scene = Scene(1)
    scene.failures = 2
    async with asyncio.timeout(GUARD_S), aclosing(scene.pages.changes()) as changes:
        assert "w0" in (await anext(changes))["projects"]


async def test_a_server_that_hangs_keeps_no_page_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ANSWER_S", 0.01)
    scene = Scene(20)
    scene.hung = {f"/w{number}" for number in range(0, 20, 2)}
    async with asyncio.timeout(GUARD_S):
        view = await scene.pages.view()
    assert len(scene.asked) == 20
    assert len(view.projects) == 20


async def test_a_late_answer_is_shown_when_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a distant host. Until then the page shows what the server said before, and asks nothing."""
    monkeypatch.setattr(live, "ANSWER_S", 0.01)
    scene = Scene(1)
    scene.said = b'{"ended": [{"tool": "one"}]}'
    await scene.pages.view()
    scene.said, scene.hung = b'{"ended": [{"tool": "two"}]}', {"/w0"}
    for _ in range(2):
        assert [call["tool"] for call in (await scene.pages.view()).calls] == ["one"]
    assert len(scene.asked) == 2
    scene.is_busy = False
    scene.goes_on.set()
    await asyncio.gather(*questions())
    view = await scene.pages.view()
    assert [call["tool"] for call in view.calls] == ["two"]


async def test_servers_that_hang_leave_others_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ANSWER_S", 0.01)
    scene = Scene(2 * MOST_ASKED)
    scene.hung = {f"/w{number}" for number in range(MOST_ASKED)}
    async with asyncio.timeout(GUARD_S):
        await scene.three_samples()
    assert set(scene.asked) == {f"/w{number}" for number in range(2 * MOST_ASKED)}
    assert all(scene.asked.count(root) == 1 for root in scene.hung)


async def test_questions_end_with_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ANSWER_S", 0.01)
    scene = Scene(1)
    scene.hung = {"/w0"}
    await scene.pages.view()
    await scene.pages.close()
    assert questions() == []


async def test_a_server_of_another_process_does_not_get_the_calls_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "ANSWER_S", 0.01)
    scene = Scene(1)
    scene.said = b'{"ended": [{"tool": "one"}]}'
    await scene.pages.view()
    scene.hung, scene.first_pid = {"/w0"}, 100
    assert (await scene.pages.view()).calls == []


async def test_an_answer_that_cannot_be_read_spoils_no_page() -> None:
    """A server that another program registered may answer anything."""
    scene = Scene(2)
    scene.said = b"<html>"
    assert len((await scene.pages.view()).projects) == 2


def status(used_s: float | None, pid: int = 7) -> dict[str, Any]:
    return {"instanceDetails": [{"workspace": "app-1", "pid": pid, "cpuSec": used_s}]}


def test_a_share_is_known_from_the_second_look_on() -> None:
    use = ProcessorUse()
    assert use.percents(status(1.0), 100.0) == {}
    assert use.percents(status(1.9), 100.0 + LEAST_S / 2) == {}
    assert use.percents(status(2.0), 110.0) == {"app-1": 10}
    assert use.percents(status(9.0), 110.0 + LEAST_S / 2) == {"app-1": 10}, "it does not jump"


def test_another_process_and_a_long_pause_begin_anew() -> None:
    use = ProcessorUse()
    use.percents(status(1.0), 100.0)
    assert use.percents(status(0.1, pid=8), 110.0) == {}
    assert use.percents(status(0.1, pid=8), 110.0 + MOST_S + 1) == {}
    assert use.percents(status(None, pid=8), 180.0) == {}, "the system does not tell"
