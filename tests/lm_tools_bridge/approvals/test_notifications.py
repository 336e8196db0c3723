"""The desktop is told what waits; a desktop that fails stops nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.notifications import (
    AFTER_FAILURE_S,
    FOR_APPROVALS,
    HOUR_S,
    MOST_LINES,
    MOST_PER_HOUR,
    PAUSE_S,
    REMEMBERED_S,
    STATUS_EVERY,
    Close,
    DesktopFailure,
    Notice,
    Notifications,
    Throttle,
    session_bus,
)
from lm_tools_bridge.protocol import jsonrpc, names
from manager.attention import Attention

CALL = {
    "id": "abc", "tool": "run", "client": "codex", "question": "token: s3cret", "since": 1.0, "until": 9.0,
    "waits": True,
}  # fmt: skip


class FakeDesktop:
    """Keeps what it is told, or fails."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.fails = False

    async def show(self, title: str, body: str) -> None:
        if self.fails:
            raise DesktopFailure("no service")
        self.told.append((title, body))

    async def withdraw(self) -> None:
        self.told.append("withdrawn")

    def close(self) -> None:
        self.told.append("closed")


class Scene:
    """A board, a status made of it, and looks at set times."""

    def __init__(self) -> None:
        self.board, self.desktop, self.at, self.reads = ApprovalBoard(), FakeDesktop(), 0.0, 0
        self.notifications = Notifications(self.desktop, self.status, self.board, now=lambda: self.at)

    def status(self) -> dict[str, Any]:
        self.reads += 1
        return {"approvals": [one.as_json(with_question=False) for one in self.board.waiting()]}

    def report(self, *calls: dict[str, Any]) -> None:
        message = jsonrpc.notification(names.APPROVALS, {"approvals": list(calls)})
        self.board.report("i", "shop-1", "/shop", message)

    async def look(self, at: float) -> bool:
        self.at = at
        return await self.notifications.look()


async def test_a_call_that_waits_is_told_without_its_arguments_and_withdrawn_when_answered() -> None:
    scene = Scene()
    assert await scene.look(0.0)
    scene.report(CALL)
    assert await scene.look(1.0)
    ((title, body),) = scene.desktop.told
    assert body == "run waits for your approval, in shop-1, called by codex: lmtb approvals"
    assert "s3cret" not in json.dumps([title, body])
    scene.report()
    assert await scene.look(2.0)
    assert scene.desktop.told[-1] == "withdrawn"


async def test_a_quiet_manager_reads_its_status_rarely() -> None:
    scene = Scene()
    for second in range(2 * STATUS_EVERY):
        await scene.look(float(second))
    assert scene.reads == 2


async def test_a_desktop_that_fails_is_tried_again_with_what_is_new() -> None:
    scene = Scene()
    scene.desktop.fails = True
    scene.report(CALL)
    assert not await scene.look(0.0)
    scene.desktop.fails = False
    scene.report({**CALL, "id": "next"})
    assert await scene.look(60.0)
    assert len(scene.desktop.told) == 1


async def test_what_cannot_be_told_yet_does_not_make_the_status_be_read_each_second() -> None:
    scene = Scene()
    scene.report(CALL)
    await scene.look(0.0)
    scene.report(CALL, {**CALL, "id": "next"})
    await scene.look(1.0)
    reads = scene.reads
    for second in range(2, 9):
        await scene.look(float(second))
    assert scene.reads == reads
    await scene.look(PAUSE_S)
    assert len(scene.desktop.told) == 2


async def test_a_fault_does_not_end_notifications() -> None:
    scene = Scene()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise asyncio.CancelledError

    def status() -> dict[str, Any]:
        if not pauses:
            raise KeyError("a defect")
        return scene.status()

    scene.report(CALL)
    notifications = Notifications(scene.desktop, status, scene.board, now=lambda: 0.0, sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        await notifications.run()
    assert pauses[0] == AFTER_FAILURE_S
    scene.report(CALL, {**CALL, "id": "next"})
    assert await notifications.look()
    assert len([one for one in scene.desktop.told if one != "closed"]) == 1


def test_without_a_session_bus_there_is_no_address(tmp_path: Any) -> None:
    assert session_bus({"XDG_RUNTIME_DIR": str(tmp_path)}) is None
    assert session_bus({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}) == "unix:path=/x"


def thing(key: str) -> Attention:
    return Attention("approval", key, f"{key} waits", "lmtb approvals")


A, B = thing("a"), thing("b")


def test_each_thing_is_told_once() -> None:
    throttle = Throttle()
    first = throttle.next([A], 0.0)
    assert first == Notice("LM Tools Bridge needs you", "a waits: lmtb approvals")
    assert throttle.next([A], 1000.0) is None


def test_what_comes_in_the_pause_is_told_together_after_it() -> None:
    throttle = Throttle()
    throttle.next([A], 0.0)
    things = [A, *(thing(str(n)) for n in range(MOST_LINES + 2))]
    assert throttle.next(things, 1.0) is None
    assert not throttle.may_tell(1.0) and throttle.may_tell(PAUSE_S)
    told = throttle.next(things, PAUSE_S)
    assert isinstance(told, Notice)
    assert told.title == f"LM Tools Bridge: {MOST_LINES + 2} things need you"
    assert told.body.endswith("and 2 more")
    assert not throttle.may_tell(2 * PAUSE_S), "all is told"


def test_what_is_over_before_it_could_be_told_is_not_told() -> None:
    throttle = Throttle()
    throttle.next([A], 0.0)
    assert throttle.next([A, B], 1.0) is None
    assert throttle.next([A], 2.0) is None
    assert throttle.next([A], PAUSE_S) is None


def test_the_notification_goes_when_nothing_of_it_waits_any_more() -> None:
    throttle = Throttle()
    throttle.next([A, B], 0.0)
    assert throttle.next([B], 1.0) is None
    assert throttle.next([], 2.0) == Close()
    assert throttle.next([], 3.0) is None


def test_a_thing_that_comes_and_goes_is_told_once_in_a_while() -> None:
    throttle = Throttle()
    throttle.next([A], 0.0)
    throttle.next([], 1.0)
    assert throttle.next([A], 2 * PAUSE_S) is None
    throttle.next([], 3 * PAUSE_S)
    assert isinstance(throttle.next([A], 3 * PAUSE_S + REMEMBERED_S), Notice)


def test_an_hour_has_few_notifications() -> None:
    throttle = Throttle()
    sent = [throttle.next([thing(str(n))], n * PAUSE_S) for n in range(MOST_PER_HOUR + 5)]
    assert sum(isinstance(one, Notice) for one in sent) == MOST_PER_HOUR
    assert isinstance(throttle.next([thing("later")], HOUR_S), Notice)


def test_some_notifications_of_an_hour_are_left_for_approvals() -> None:
    throttle = Throttle()
    others = [Attention("failed", str(n), f"{n} failed", "lmtb doctor") for n in range(MOST_PER_HOUR)]
    sent = [throttle.next([one], n * PAUSE_S) for n, one in enumerate(others)]
    assert sum(isinstance(one, Notice) for one in sent) == MOST_PER_HOUR - FOR_APPROVALS
    now = MOST_PER_HOUR * PAUSE_S
    assert not throttle.may_tell(now) and throttle.may_tell(now + HOUR_S)
    assert isinstance(throttle.next([others[-1], A], now), Notice)
