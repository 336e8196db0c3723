"""The standing stream of a session: one each, newest news only, and an end."""

from __future__ import annotations

import asyncio
import json

from manager.legacy.streams import Stream, Streams
from protocol import sse

ORDER = [
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
    "notifications/tools/list_changed",
]


async def methods(stream: Stream) -> list[str]:
    async with asyncio.timeout(5):
        chunk = await stream.next(60.0)
    assert chunk is not None
    return [json.loads(event.data)["method"] for event in sse.Decoder().feed(chunk)]


async def test_changes_are_told_tools_last() -> None:
    """M-47."""
    stream = Stream()
    stream.announce_lists()
    assert await methods(stream) == ORDER


async def test_what_a_slow_reader_missed_is_said_once() -> None:
    stream = Stream()
    for _ in range(1000):
        stream.announce_lists()
    assert await methods(stream) == ORDER


async def test_silence_is_filled_with_a_comment() -> None:
    """M-29."""
    stream = Stream()
    assert await stream.next(0.001) == sse.KEEP_ALIVE
    stream.announce_lists()
    assert await methods(stream) == ORDER


async def test_a_waiting_reader_is_woken() -> None:
    stream = Stream()
    reader = asyncio.create_task(methods(stream))
    await asyncio.sleep(0)
    stream.announce_lists()
    assert await reader == ORDER


async def test_a_closed_stream_ends() -> None:
    stream = Stream()
    reader = asyncio.create_task(stream.next(60.0))
    await asyncio.sleep(0)
    stream.close()
    async with asyncio.timeout(5):
        assert await reader is None


def test_the_first_stream_of_a_session_stays() -> None:
    """M-29."""
    streams = Streams()
    first = streams.open("s")
    assert first is not None
    assert streams.open("s") is None
    assert streams.get("s") is first
    assert streams.open("t") is not None
    assert len(streams) == 2


def test_after_its_end_a_session_may_open_another() -> None:
    streams = Streams()
    first = streams.open("s")
    streams.forget("s")
    streams.forget("never there")
    assert streams.get("s") is None
    assert streams.open("s") not in (None, first)


def test_all_streams_are_ended_together() -> None:
    streams = Streams()
    opened = [streams.open(name) for name in "abc"]
    streams.close_all()
    assert all(stream is not None and stream.is_closed for stream in opened)
