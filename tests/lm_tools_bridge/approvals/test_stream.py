"""What managers on other hosts are told of calls that wait here."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from lm_tools_bridge.approvals import stream as approval_stream
from lm_tools_bridge.approvals.board import ApprovalBoard
from lm_tools_bridge.approvals.stream import ApprovalStream
from lm_tools_bridge.protocol import jsonrpc, names, sse


def report(board: ApprovalBoard, *identities: str, **other: Any) -> None:
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
    report(board, "a")
    events = ApprovalStream(board, wall=lambda: 5.0, sleep=no_pause).events()
    first = read(await anext(events))
    assert first["now"] == 5.0
    (call,) = first["approvals"]
    assert (call["root"], call["id"], call["tool"], call["approved"]) == ("/shop", "a", "run", None)
    assert call["question"].startswith("token: [hidden]\n")
    report(board, "a", approved=True)
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
