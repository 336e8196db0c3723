"""A session's server stream: pending notifications, resuming, closing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manager.configuration.budgets import MAX_SESSION_EVENTS
from manager.sessions.event_ids import EventId
from manager.sessions.replay import Replay
from manager.sessions.server_stream import MAX_PENDING, ServerStream
from manager.sessions.stream import Stream
from support.http.event_sinks import Recorder

ORDER = [
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
    "notifications/tools/list_changed",
]


def server_stream_of(revision: str = "2025-11-25") -> ServerStream:
    return ServerStream(Stream("s", "e.0", revision, Replay(lambda: 0.0)))


@contextlib.asynccontextmanager
async def listener(server_stream: ServerStream, after: int | None = None) -> AsyncIterator[Recorder]:
    """A client with the stream, which then goes away."""
    sink = Recorder()
    server_stream.stream.attach(sink)
    server_stream.begin(sink, after)
    try:
        yield sink
    finally:
        sink.gone = True
        server_stream.stream.detach(sink)


async def test_list_changes_are_sent_together_with_tools_last() -> None:
    server_stream = server_stream_of()
    async with listener(server_stream) as sink:
        await asyncio.sleep(0)
        server_stream.notify_lists_changed()
        await sink.count(3)
    assert sink.methods == ORDER


async def test_missed_notifications_are_sent_once_to_the_next_connection() -> None:
    """Only the newest notification of each kind, once."""
    server_stream = server_stream_of()
    for _ in range(1000):
        server_stream.notify_lists_changed()
    server_stream.notify("u", b'{"method":"old"}')
    server_stream.notify("u", b'{"method":"new"}')
    async with listener(server_stream) as sink:
        await sink.count(4)
    assert sink.methods == [*ORDER, "new"]
    async with listener(server_stream) as sink:
        server_stream.notify("v", b'{"method":"v"}')
        await sink.count(1)
    assert sink.methods == ["v"]


async def test_undelivered_notifications_stay_pending() -> None:
    """For clients that reconnect without an event id: a broken connection loses nothing."""
    server_stream = server_stream_of("2024-11-05")
    async with listener(server_stream) as sink:
        await asyncio.sleep(0)
        sink.gone = True
        server_stream.notify_lists_changed()
        await asyncio.sleep(0)
    async with listener(server_stream) as sink:
        await sink.count(3)
    assert sink.methods == ORDER


async def test_a_resumed_stream_replays_later_events() -> None:
    server_stream = server_stream_of()
    async with listener(server_stream) as sink:
        server_stream.notify_lists_changed()
        await sink.count(3)
    last = EventId("e.0", 2)
    async with listener(server_stream, server_stream.resume_point(last)) as again:
        await again.count(2)
    assert again.methods == ORDER[1:]
    assert again.ids == sink.ids[2:]


@pytest.mark.parametrize(
    ("last", "followed"),
    [(None, None), (EventId("e.0", 3), 3), (EventId("e.0", 5), None), (EventId("f.0", 3), None)],
)
async def test_only_its_own_events_are_resumed(last: EventId | None, followed: int | None) -> None:
    server_stream = server_stream_of()
    async with listener(server_stream) as sink:
        server_stream.notify_lists_changed()
        await sink.count(3)
    assert server_stream.stream.sent == 4
    assert server_stream.resume_point(last) == followed


async def test_a_gap_in_the_replay_is_detected() -> None:
    server_stream = server_stream_of("2025-06-18")
    async with listener(server_stream) as sink:
        for number in range(MAX_SESSION_EVENTS + 5):
            server_stream.notify("u", b'{"method":"n","params":%d}' % number)
            await sink.count(number + 1)
    assert server_stream.resume_point(EventId("e.0", 4)) is None
    assert server_stream.resume_point(EventId("e.0", 5)) == 5


async def test_pending_notifications_are_bounded_and_keep_list_changes() -> None:
    server_stream = server_stream_of()
    server_stream.notify_lists_changed()
    for number in range(MAX_PENDING + 10):
        server_stream.notify(str(number), b'{"method":"n"}')
    async with listener(server_stream) as sink:
        await sink.count(MAX_PENDING)
        await asyncio.sleep(0)
    assert len(sink.messages) == MAX_PENDING
    assert sink.methods[:3] == ORDER


async def test_only_the_attached_connection_can_detach() -> None:
    server_stream = server_stream_of()
    first, second = Recorder(), Recorder()
    server_stream.stream.attach(first)
    server_stream.stream.attach(second)
    assert first.gone
    assert not server_stream.stream.detach(first)
    assert server_stream.is_open
    assert server_stream.stream.detach(second)
    assert not server_stream.is_open


async def test_closing_a_stream_ends_its_connection_properly() -> None:
    server_stream = server_stream_of("2025-06-18")
    async with listener(server_stream) as sink:
        server_stream.notify_lists_changed()
        server_stream.close()
        assert sink.closed
        assert not server_stream.is_open
    assert sink.methods == ORDER


async def test_a_slow_client_gets_the_newest_notifications_later() -> None:
    """Whatever happens meanwhile, what waits for it does not grow."""
    server_stream = server_stream_of("2025-06-18")
    async with listener(server_stream) as sink:
        sink.gate = asyncio.Event()
        for number in range(100):
            server_stream.notify("u", b'{"method":"%d"}' % number)
            await asyncio.sleep(0)
        assert sink.messages == []
        sink.gate.set()
        await sink.count(1)
    assert sink.methods == ["99"]


async def test_notifications_for_a_full_connection_go_to_the_next() -> None:
    server_stream = server_stream_of("2025-06-18")
    async with listener(server_stream) as sink:
        sink.gate = asyncio.Event()
        server_stream.notify("u", b'{"method":"n"}')
        await asyncio.sleep(0)
        sink.abort()
    async with listener(server_stream) as following:
        await following.count(1)
    assert (sink.methods, following.methods) == ([], ["n"])
