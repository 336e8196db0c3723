"""A fast reply is read once a frame, and a slow one as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lm_tools_bridge.agent.messages import Finish, TextPart, ThinkingPart
from lm_tools_bridge.agent.providers.dialects.dialect import ReplyError
from lm_tools_bridge.agent.providers.framing import joined_texts
from lm_tools_bridge.agent.providers.http_provider import FRAME_S, PacedReading
from support.clock import ManualClock


class RecordingTransport(asyncio.ReadTransport):
    """Records when it is paused, and whether it is now."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Reply:
    """A reply whose pieces arrive after these seconds each, by the clock of the test."""

    def __init__(self, gaps: Sequence[float]) -> None:
        self.clock = ManualClock()
        self.transport = RecordingTransport()
        self.rests: list[float] = []
        self._gaps = list(gaps)

    async def readany(self) -> bytes:
        assert not self.transport.is_paused
        if not self._gaps:
            return b""
        self.clock.now += self._gaps.pop(0)
        return b"piece"

    async def sleep(self, seconds: float) -> None:
        assert self.transport.is_paused
        self.rests.append(round(seconds, 6))
        self.clock.now += seconds

    def reading(self) -> PacedReading:
        response = SimpleNamespace(content=self, connection=SimpleNamespace(transport=self.transport))
        return PacedReading(cast("Any", response), now=self.clock, sleep=self.sleep)


async def read_all(reply: Reply) -> int:
    reading, count = reply.reading(), 0
    while await reading.next():
        count += 1
    return count


async def test_a_reply_slower_than_frames_is_read_as_it_comes() -> None:
    reply = Reply([0.5, FRAME_S * 1.1, FRAME_S * 1.5, 0.2])
    assert await read_all(reply) == 4
    assert reply.rests == []


async def test_a_fast_reply_is_read_once_a_frame() -> None:
    reply = Reply([0.5, 0.01, 0.0, 0.0])
    assert await read_all(reply) == 4
    assert reply.rests == [FRAME_S, FRAME_S, FRAME_S]


async def test_the_first_two_pieces_never_wait() -> None:
    reply = Reply([0.0, 0.0])
    reading = reply.reading()
    assert [await reading.next(), await reading.next()] == [b"piece", b"piece"]
    assert reply.rests == []


async def test_a_reply_that_slows_down_is_read_as_it_comes_again() -> None:
    reply = Reply([0.0, 0.01, 0.5, 0.5, 0.5])
    await read_all(reply)
    assert reply.rests == [FRAME_S]


async def test_cancelling_a_rest_lets_the_connection_go_on() -> None:
    reply = Reply([0.0, 0.0, 0.0])
    reading = PacedReading(
        cast("Any", SimpleNamespace(content=reply, connection=SimpleNamespace(transport=reply.transport))),
        now=reply.clock,
        sleep=lambda _: asyncio.Event().wait(),
    )
    await reading.next()
    await reading.next()
    waiting = asyncio.create_task(reading.next())
    await asyncio.sleep(0)
    assert reply.transport.is_paused
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not reply.transport.is_paused


async def test_what_has_arrived_whole_is_read_at_once() -> None:
    reply = Reply([0.0, 0.0, 0.0])
    response = SimpleNamespace(content=reply, connection=None)
    reading = PacedReading(cast("Any", response), now=reply.clock, sleep=reply.sleep)
    while await reading.next():
        pass
    assert reply.rests == []


def test_pieces_that_arrive_together_are_one_piece() -> None:
    groups = [[TextPart("a")], [TextPart("b"), ThinkingPart("c")], [ThinkingPart("d"), Finish("complete")], [TextPart("e")]]  # fmt: skip
    assert list(joined_texts(groups)) == [
        TextPart("ab"), ThinkingPart("cd"), Finish("complete"), TextPart("e")
    ]  # fmt: skip


def test_text_before_a_broken_piece_is_not_lost() -> None:
    def groups() -> Any:
        yield [TextPart("seen")]
        raise ReplyError("broken")

    joined = joined_texts(groups())
    assert next(joined) == TextPart("seen")
    with pytest.raises(ReplyError):
        next(joined)
