"""A manager that stops ends the waits of all calls, also of those that begin to wait meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lm_tools_bridge.approvals import part as approval_stream
from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.part import ApprovalStream, end_waiting
from lm_tools_bridge.protocol import jsonrpc, names, sse


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


def report_stream(board: ApprovalBoard, *identities: str, **other: Any) -> None:
    shown = {
        "tool": "run",
        "client": "c",
        "question": "token: secret",
        "since": 1.0,
        "until": 2.0,
        "waits": True,
    }
    calls = [{"id": one, **shown, **other} for one in identities]
    board.report("i", "shop-1", "/shop", jsonrpc.notification(names.APPROVALS, {"approvals": calls}))


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


def read(event: bytes) -> dict[str, Any]:
    (one,) = sse.Decoder().feed(event)
    return dict(json.loads(one.data))


async def test_all_calls_are_told_at_first_and_after_each_change_without_hidden_values() -> None:
    board = ApprovalBoard(lambda text: (text.replace("secret", "[hidden]"), 1))
    report_stream(board, "a")
    events = ApprovalStream(board, wall=lambda: 5.0, sleep=no_pause).events()
    first = read(await anext(events))
    assert first["now"] == 5.0
    (call,) = first["approvals"]
    assert (call["root"], call["id"], call["tool"], call["approved"]) == ("/shop", "a", "run", None)
    assert call["question"].startswith("token: [hidden]\n")
    report_stream(board, "a", approved=True)
    assert [one["approved"] for one in read(await anext(events))["approvals"]] == [True]
    board.forget("i")
    assert read(await anext(events))["approvals"] == []
    await events.aclose()


async def test_a_quiet_stream_says_that_it_lives_and_ends_with_the_manager(monkeypatch: Any) -> None:
    monkeypatch.setattr(approval_stream, "QUIET_S", 0.01)
    stream = ApprovalStream(ApprovalBoard(), sleep=no_pause)
    events = stream.events()
    await anext(events)
    assert await anext(events) == sse.KEEP_ALIVE
    await stream.close(None)
    assert [one async for one in events if one != sse.KEEP_ALIVE] == []
    assert [one async for one in stream.events()] == []
