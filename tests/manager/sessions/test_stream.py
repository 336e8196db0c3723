"""One event stream: numbers, order, and connections that attach and detach."""

from __future__ import annotations

import asyncio
import json

import pytest

from manager.configuration.budgets import MAX_SESSION_EVENT_BYTES
from manager.sessions.event_ids import parse
from manager.sessions.replay import Replay
from manager.sessions.stream import Stream
from support.http.event_sinks import Recorder


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
    last = parse(first.ids[-1] or "")
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
