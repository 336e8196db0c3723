"""A session's server stream: pending notifications, resuming, closing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manager.sessions.event_ids import EventId
from manager.sessions.replay import MAX_EVENTS, Replay
from manager.sessions.server_stream import MAX_PENDING, ServerStream
from manager.sessions.stream import Stream
from support.http.event_sinks import Recorder

ORDER = [
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
    "notifications/tools/list_changed",
]


def standing_of(revision: str = "2025-11-25") -> ServerStream:
    return ServerStream(Stream("s", "e.0", revision, Replay(lambda: 0.0)))


@contextlib.asynccontextmanager
async def listener(standing: ServerStream, after: int | None = None) -> AsyncIterator[Recorder]:
    """A client with the stream, which then goes away."""
    sink = Recorder()
    standing.stream.attach(sink)
    standing.begin(sink, after)
    try:
        yield sink
    finally:
        sink.gone = True
        standing.stream.detach(sink)


async def test_list_changes_are_sent_together_with_tools_last() -> None:
    standing = standing_of()
    async with listener(standing) as sink:
        await asyncio.sleep(0)
        standing.notify_lists_changed()
        await sink.count(3)
    assert sink.methods == ORDER


async def test_missed_notifications_are_sent_once_to_the_next_connection() -> None:
    """Only the newest notification of each kind, once."""
    standing = standing_of()
    for _ in range(1000):
        standing.notify_lists_changed()
    standing.notify("u", b'{"method":"old"}')
    standing.notify("u", b'{"method":"new"}')
    async with listener(standing) as sink:
        await sink.count(4)
    assert sink.methods == [*ORDER, "new"]
    async with listener(standing) as sink:
        standing.notify("v", b'{"method":"v"}')
        await sink.count(1)
    assert sink.methods == ["v"]


async def test_undelivered_notifications_stay_pending() -> None:
    """For clients that reconnect without an event id: a broken connection loses nothing."""
    standing = standing_of("2024-11-05")
    async with listener(standing) as sink:
        await asyncio.sleep(0)
        sink.gone = True
        standing.notify_lists_changed()
        await asyncio.sleep(0)
    async with listener(standing) as sink:
        await sink.count(3)
    assert sink.methods == ORDER


async def test_a_resumed_stream_replays_later_events() -> None:
    standing = standing_of()
    async with listener(standing) as sink:
        standing.notify_lists_changed()
        await sink.count(3)
    last = EventId("e.0", 2)
    async with listener(standing, standing.resume_point(last)) as again:
        await again.count(2)
    assert again.methods == ORDER[1:]
    assert again.ids == sink.ids[2:]


@pytest.mark.parametrize(
    ("last", "followed"),
    [(None, None), (EventId("e.0", 3), 3), (EventId("e.0", 5), None), (EventId("f.0", 3), None)],
)
async def test_only_its_own_events_are_resumed(last: EventId | None, followed: int | None) -> None:
    standing = standing_of()
    async with listener(standing) as sink:
        standing.notify_lists_changed()
        await sink.count(3)
    assert standing.stream.sent == 4
    assert standing.resume_point(last) == followed


async def test_a_gap_in_the_replay_is_detected() -> None:
    standing = standing_of("2025-06-18")
    async with listener(standing) as sink:
        for number in range(MAX_EVENTS + 5):
            standing.notify("u", b'{"method":"n","params":%d}' % number)
            await sink.count(number + 1)
    assert standing.resume_point(EventId("e.0", 4)) is None
    assert standing.resume_point(EventId("e.0", 5)) == 5


async def test_pending_notifications_are_bounded_and_keep_list_changes() -> None:
    standing = standing_of()
    standing.notify_lists_changed()
    for number in range(MAX_PENDING + 10):
        standing.notify(str(number), b'{"method":"n"}')
    async with listener(standing) as sink:
        await sink.count(MAX_PENDING)
        await asyncio.sleep(0)
    assert len(sink.messages) == MAX_PENDING
    assert sink.methods[:3] == ORDER


async def test_only_the_attached_connection_can_detach() -> None:
    standing = standing_of()
    first, second = Recorder(), Recorder()
    standing.stream.attach(first)
    standing.stream.attach(second)
    assert first.gone
    assert not standing.stream.detach(first)
    assert standing.is_open
    assert standing.stream.detach(second)
    assert not standing.is_open


async def test_closing_a_stream_ends_its_connection_properly() -> None:
    standing = standing_of("2025-06-18")
    async with listener(standing) as sink:
        standing.notify_lists_changed()
        standing.close()
        assert sink.closed
        assert not standing.is_open
    assert sink.methods == ORDER


async def test_a_slow_client_gets_the_newest_notifications_later() -> None:
    """Whatever happens meanwhile, what waits for it does not grow."""
    standing = standing_of("2025-06-18")
    async with listener(standing) as sink:
        sink.gate = asyncio.Event()
        for number in range(100):
            standing.notify("u", b'{"method":"%d"}' % number)
            await asyncio.sleep(0)
        assert sink.messages == []
        sink.gate.set()
        await sink.count(1)
    assert sink.methods == ["99"]


async def test_notifications_for_a_full_connection_go_to_the_next() -> None:
    standing = standing_of("2025-06-18")
    async with listener(standing) as sink:
        sink.gate = asyncio.Event()
        standing.notify("u", b'{"method":"n"}')
        await asyncio.sleep(0)
        sink.abort()
    async with listener(standing) as following:
        await following.count(1)
    assert (sink.methods, following.methods) == ([], ["n"])
