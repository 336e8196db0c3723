"""A manager that stops ends the waits of all calls, also of those that begin to wait meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.part import end_waiting
from lm_tools_bridge.protocol import jsonrpc, names


def report(board: ApprovalBoard, *identities: str) -> None:
    shown = {"tool": "run", "client": "c", "question": "?", "since": 1.0, "until": 2.0, "waits": True}
    calls = [{"id": one, **shown} for one in identities]
    board.report("i", "shop-1", "/shop", jsonrpc.notification(names.APPROVALS, {"approvals": calls}))


async def test_all_waits_end_at_once_also_beside_a_server_that_fails_and_of_later_calls() -> None:
    board, ended, together = ApprovalBoard(), [], asyncio.Barrier(2)
    pauses = 0

    class Servers:
        async def ask_server(self, root: str, ask: str, subject: str) -> bytes:
            ended.append(subject)
            if subject != "later.end":
                await together.wait()
            if subject == "a.end":
                raise OSError("gone")
            return b"{}"

    async def sleep(_: float) -> None:
        nonlocal pauses
        pauses += 1
        report(board, *(["later"] if pauses == 1 else []))
        if pauses == 3:
            raise asyncio.CancelledError

    report(board, "a", "b")
    servers: Any = Servers()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await end_waiting(board, servers, sleep)
    assert ended == ["a.end", "b.end", "later.end"]
