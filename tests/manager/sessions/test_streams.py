"""All event streams: ownership, expiry, memory of idle sessions."""

from __future__ import annotations

from manager.configuration.budgets import MAX_SESSION_EVENTS
from manager.routing.state.session_table import Session
from manager.sessions.event_ids import EventId, parse
from manager.sessions.replay import MAX_AGE_S
from manager.sessions.streams import Streams
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
        parse(f"{Streams(ManualClock()).open_request_stream(session, b'1').name}-1") for _ in range(200)
    )
    assert (
        streams.server_stream(session).resume_point(EventId(streams.server_stream(session).stream.name, 0))
        == 0
    )
