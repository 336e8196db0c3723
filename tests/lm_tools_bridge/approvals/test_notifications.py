"""The desktop is told what waits; a desktop that fails stops nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.desktop import DesktopFailure, session_bus
from lm_tools_bridge.approvals.notification_throttle import PAUSE_S
from lm_tools_bridge.approvals.notifications import AFTER_FAILURE_S, STATUS_EVERY, Notifications
from lm_tools_bridge.protocol import jsonrpc, names

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
