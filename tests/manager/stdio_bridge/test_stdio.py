"""Lines on stdin and stdout."""

from __future__ import annotations

import asyncio
import os

import pytest

from manager.stdio_bridge.stdio import ClientGone, LineSplitter, LineTooLong, Output, read_lines


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_do_not_depend_on_chunk_boundaries(size: int) -> None:
    text = b'{"a":1}\r\n\n  {"b":2} \n{"c":3}'
    splitter = LineSplitter()
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert [*lines, *splitter.rest()] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_byte_order_mark_before_a_line_is_left_out(size: int) -> None:
    text = b'\xef\xbb\xbf{"a":1}\r\n\xef\xbb\xbf\n\xef\xbb\xbf {"b":"\xef\xbb\xbf"}\n'
    splitter = LineSplitter()
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert lines == [b'{"a":1}', b'{"b":"\xef\xbb\xbf"}']


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_line_above_the_limit_is_reported_once_and_dropped(size: int) -> None:
    text = b"short\n" + b"x" * 50 + b"\nnext\n"
    splitter = LineSplitter(limit=20)
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert [one if isinstance(one, bytes) else type(one) for one in lines] == [b"short", LineTooLong, b"next"]


async def test_reading_waits_for_the_consumer_and_ends_with_the_input() -> None:
    reader, writer = os.pipe()
    taken: list[bytes | LineTooLong] = []
    gate = asyncio.Event()

    async def take(line: bytes | LineTooLong) -> None:
        await gate.wait()
        taken.append(line)

    reading = asyncio.create_task(read_lines(reader, take))
    os.write(writer, b"one\ntwo\nthr")
    os.write(writer, b"ee")
    os.close(writer)
    await asyncio.sleep(0)
    gate.set()
    async with asyncio.timeout(10):
        await reading
    os.close(reader)
    assert taken == [b"one", b"two", b"three"]


@pytest.mark.parametrize("end", [ClientGone, asyncio.CancelledError])
async def test_reading_ends_when_the_client_is_gone(end: type[BaseException]) -> None:
    reader, writer = os.pipe()

    async def take(line: bytes | LineTooLong) -> None:
        raise end

    os.write(writer, b"one\n")
    async with asyncio.timeout(10):
        await read_lines(reader, take)
    os.close(writer)
    os.close(reader)


async def test_an_exception_of_the_consumer_is_raised_at_once() -> None:
    reader, writer = os.pipe()

    async def take(line: bytes | LineTooLong) -> None:
        raise LookupError(line)

    os.write(writer, b"one\n")
    async with asyncio.timeout(10):
        with pytest.raises(LookupError):
            await read_lines(reader, take)
    os.close(writer)
    os.close(reader)


async def test_output_lines_stay_whole_beyond_the_pipe_buffer() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    lines = [b"a" * 200_000, b"b", b"c" * 100_000]
    writing = asyncio.gather(*(output.write(line) for line in lines))
    with os.fdopen(reader, "rb") as pipe:
        got = [await asyncio.to_thread(pipe.readline) for _ in lines]
    await writing
    os.close(writer)
    assert got == [line + b"\n" for line in lines]


async def test_a_cancelled_writers_line_is_written_whole() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    writing = asyncio.create_task(output.write(b"x" * 200_000))
    await asyncio.sleep(0.01)
    writing.cancel()
    with os.fdopen(reader, "rb") as pipe:
        assert len(await asyncio.to_thread(pipe.readline)) == 200_001
    os.close(writer)


async def test_a_closed_stdout_is_noticed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = Output(writer)
    with pytest.raises(ClientGone):
        await output.write(b"x")
    assert output.closed.is_set()
    with pytest.raises(ClientGone):
        await output.write(b"y")
    os.close(writer)
