"""All event streams: ownership, expiry, memory of idle sessions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from manager.configuration.budgets import MAX_SESSION_EVENT_BYTES, MAX_SESSION_EVENTS
from manager.routing.state.session_table import Session
from manager.sessions.replay import MAX_AGE_S, EventId, Replay, parse_event_id
from manager.sessions.streams import MAX_PENDING, ServerStream, Stream, Streams
from support.clock import ManualClock
from support.http.event_sinks import Recorder


def session_of(identity: str) -> Session:
    return Session(identity, "2025-11-25", None, None, b"{}", 0.0)


async def test_event_ids_are_unique_over_streams_and_managers() -> None:
    one, ids = session_of("s"), []
    for _ in range(2):
        streams = Streams(ManualClock())
        for stream in (
            streams.server_stream(one).stream,
            streams.open_request_stream(one, b"1"),
            streams.open_request_stream(one, b"1"),
        ):
            sink = Recorder()
            stream.attach(sink)
            stream.begin(sink)
            await stream.send(b"{}")
            ids += sink.ids
    assert len(ids) == len(set(ids)) == 12


async def test_a_stream_is_found_only_in_its_session_until_it_expires() -> None:
    clock = ManualClock()
    streams, mine, other = Streams(clock), session_of("s"), session_of("t")
    stream = streams.open_request_stream(mine, b"1")
    event = EventId(stream.name, 0)
    stream.put(b"{}", answers=True)
    streams.expire()
    assert streams.request_stream(mine, event) is stream
    assert streams.request_stream(other, event) is None
    clock.now += MAX_AGE_S
    streams.expire()
    assert streams.request_stream(mine, event) is stream, "it has not ended"
    stream.end()
    streams.expire()
    assert streams.request_stream(mine, event) is None
    assert event.request == b"1"


async def test_a_dropped_response_is_lost_at_once() -> None:
    """At once, not only when the table is swept; who has it already is still told that nothing follows."""
    streams, session = Streams(ManualClock()), session_of("s")
    stream, other = streams.open_request_stream(session, b"1"), streams.open_request_stream(session, b"2")
    stream.put(b"{}", answers=True)
    stream.end()
    assert streams.request_stream(session, EventId(stream.name, 0)) is stream
    for _ in range(MAX_SESSION_EVENTS):
        await other.send(b"{}")
    assert streams.request_stream(session, EventId(stream.name, 0)) is None
    assert streams.request_stream(session, EventId(stream.name, 1)) is stream
    assert streams.request_stream(session, EventId(other.name, 0)) is other


async def test_only_open_server_streams_are_counted() -> None:
    streams, session = Streams(ManualClock()), session_of("s")
    server_stream = streams.server_stream(session)
    assert (len(streams), streams.open_server_stream(session)) == (0, None)
    sink = Recorder()
    server_stream.stream.attach(sink)
    assert (len(streams), streams.open_server_stream(session)) == (1, server_stream)
    assert streams.detach(session, sink)
    assert len(streams) == 0
    assert not streams.detach(session_of("never there"), sink)


async def test_an_ended_session_leaves_no_streams() -> None:
    streams, session = Streams(ManualClock()), session_of("s")
    streams.server_stream(session).notify_lists_changed()
    stream = streams.open_request_stream(session, b"1")
    await stream.send(b"{}")
    streams.forget(session)
    assert stream.is_ended
    assert (streams._server_streams, streams._request_streams, streams._replay.size) == ({}, {}, 0)


async def test_looking_up_a_session_creates_no_stream() -> None:
    """Ten thousand idle sessions."""
    streams = Streams(ManualClock())
    for number in range(100):
        streams.server_stream(session_of(str(number)))
    streams.expire()
    assert streams._server_streams == {}


async def test_stream_names_can_be_parsed() -> None:
    streams, session = Streams(ManualClock()), session_of("s")
    assert all(
        parse_event_id(f"{Streams(ManualClock()).open_request_stream(session, b'1').name}-1")
        for _ in range(200)
    )
    assert (
        streams.server_stream(session).resume_point(EventId(streams.server_stream(session).stream.name, 0))
        == 0
    )


def stream_of(revision: str = "2025-11-25") -> Stream:
    return Stream("s", "e.1.Nw", revision, Replay(lambda: 0.0), b"7")


async def connected(stream: Stream) -> Recorder:
    sink = Recorder()
    stream.attach(sink)
    stream.begin(sink)
    return sink


@pytest.mark.parametrize(
    ("revision", "begins", "follows"),
    [
        ("2024-11-05", b"", b'event: message\ndata: {"a":1}\n\n'),
        ("2025-03-26", b"", b'id: e.1.Nw-1\nevent: message\ndata: {"a":1}\n\n'),
        ("2025-06-18", b"", b'id: e.1.Nw-1\nevent: message\ndata: {"a":1}\n\n'),
        (
            "2025-11-25",
            b"id: e.1.Nw-1\nretry: 3000\ndata: \n\n",
            b'id: e.1.Nw-2\nevent: message\ndata: {"a":1}\n\n',
        ),
    ],
)
async def test_each_revision_gets_the_event_fields_it_defines(
    revision: str, begins: bytes, follows: bytes
) -> None:
    """Ids since 2025-03-26; an event without data, which older clients fail on, since 2025-11-25."""
    stream = stream_of(revision)
    sink = await connected(stream)
    assert sink.written == begins
    assert await stream.send(b'{"a":1}')
    assert sink.written == begins + follows


async def test_a_resumed_stream_replays_and_then_continues() -> None:
    """A broken connection loses nothing."""
    stream = stream_of()
    first = await connected(stream)
    await stream.send(b'{"n":1}')
    first.gone = True
    assert not await stream.send(b'{"n":2}')
    last = parse_event_id(first.ids[-1] or "")
    assert last is not None
    second = Recorder()
    stream.attach(second)
    stream.resume(second, last.event)
    await stream.send(b'{"n":3}')
    assert [one["n"] for one in first.messages + second.messages] == [1, 2, 3]
    assert len({*first.ids, *second.ids}) == 4


async def test_an_ended_stream_can_be_resumed() -> None:
    stream = stream_of()
    for number in range(5):
        await stream.send(b'{"n":%d}' % number)
    stream.end()
    late = Recorder()
    stream.attach(late)
    stream.resume(late, 0)
    assert [one["n"] for one in late.messages] == [0, 1, 2, 3, 4]


async def test_attaching_aborts_the_former_connection_even_if_it_hangs() -> None:
    """A client behind a dead connection comes back long before the old one is known to be dead."""
    stream = stream_of()
    stuck = await connected(stream)
    stuck.gate = asyncio.Event()
    sending = asyncio.create_task(stream.send(b'{"n":1}'))
    await asyncio.sleep(0)
    fresh = Recorder()
    stream.attach(fresh)
    stream.resume(fresh, 1)
    async with asyncio.timeout(5):
        assert not await sending
    assert stuck.gone
    assert [one["n"] for one in fresh.messages] == [1]


async def test_a_connection_is_released_with_the_response() -> None:
    """It may carry other requests of the client by then; and streams are known for longer than connections."""
    stream = stream_of()
    used = await connected(stream)
    stream.put(b'{"n":1}', answers=True)
    stream.end()
    assert stream.sink is None
    again = Recorder()
    stream.attach(again)
    stream.resume(again, 1)
    assert [one["n"] for one in again.messages] == [1]
    assert not stream.detach(used)
    assert stream.detach(again)
    assert (stream.sink, used.gone, again.gone) == (None, False, False)


async def test_a_replaced_connection_gets_no_more_events() -> None:
    stream = stream_of()
    await stream.send(b'{"n":1}')
    late, last = Recorder(), Recorder()
    stream.attach(late)
    stream.attach(last)
    stream.begin(late)
    stream.resume(late, 0)
    assert (late.written, last.written) == (b"", b"")


async def test_events_are_in_order_and_send_waits_for_the_client() -> None:
    stream = stream_of("2025-06-18")
    sink = await connected(stream)
    sink.gate = asyncio.Event()
    sending = [asyncio.create_task(stream.send(b'{"n":%d}' % n)) for n in range(5)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in sending)
    sink.gate.set()
    await asyncio.gather(*sending)
    assert [one["n"] for one in sink.messages] == [0, 1, 2, 3, 4]


async def test_a_response_too_large_to_replay_is_delivered_or_lost() -> None:
    """47112: nobody waits for an id that never comes."""
    stream = stream_of()
    sink = await connected(stream)
    large = b'{"jsonrpc":"2.0","id":7,"result":"' + b"x" * MAX_SESSION_EVENT_BYTES + b'"}'
    stream.put(large, answers=True)
    assert sink.messages == [json.loads(large)]
    again = Recorder()
    stream.attach(again)
    stream.resume(again, 1)
    (message,) = again.messages
    assert (message["id"], message["error"]["code"]) == (7, 47112)
    assert again.ids == sink.ids[1:]


async def test_a_line_break_in_a_message_does_not_split_its_event() -> None:
    stream = stream_of()
    sink = await connected(stream)
    await stream.send(b'{"a":\r\n1}')
    assert sink.messages == [{"a": 1}]


async def test_wait_ended_returns_at_the_end() -> None:
    stream = stream_of()
    waiting = asyncio.create_task(stream.wait_ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.end()
    await asyncio.wait_for(waiting, 5)
    assert stream.is_ended


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
