"""Lines from and to a client's pipes."""

from __future__ import annotations

import asyncio
import os

import pytest

from manager.stdio_bridge.stdio import ClientGone, LineSplitter, LineTooLong, Output, read_lines


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_the_same_however_they_are_cut(size: int) -> None:
    text = b'{"a":1}\r\n\n  {"b":2} \n{"c":3}'
    splitter = LineSplitter()
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert [*lines, *splitter.rest()] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_line_that_is_too_long_is_told_once_and_left_out(size: int) -> None:
    text = b"short\n" + b"x" * 50 + b"\nnext\n"
    splitter = LineSplitter(limit=20)
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert [one if isinstance(one, bytes) else type(one) for one in lines] == [b"short", LineTooLong, b"next"]


async def test_reading_ends_with_the_input_and_waits_for_who_takes_the_lines() -> None:
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
async def test_reading_ends_where_nobody_takes_the_lines(end: type[BaseException]) -> None:
    reader, writer = os.pipe()

    async def take(line: bytes | LineTooLong) -> None:
        raise end

    os.write(writer, b"one\n")
    async with asyncio.timeout(10):
        await read_lines(reader, take)
    os.close(writer)
    os.close(reader)


async def test_a_fault_of_who_takes_the_lines_is_not_waited_out() -> None:
    reader, writer = os.pipe()

    async def take(line: bytes | LineTooLong) -> None:
        raise LookupError(line)

    os.write(writer, b"one\n")
    async with asyncio.timeout(10):
        with pytest.raises(LookupError):
            await read_lines(reader, take)
    os.close(writer)
    os.close(reader)


async def test_output_is_whole_lines_also_when_it_is_larger_than_the_pipe() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    lines = [b"a" * 200_000, b"b", b"c" * 100_000]
    writing = asyncio.gather(*(output.write(line) for line in lines))
    with os.fdopen(reader, "rb") as pipe:
        got = [await asyncio.to_thread(pipe.readline) for _ in lines]
    await writing
    os.close(writer)
    assert got == [line + b"\n" for line in lines]


async def test_a_line_whose_writer_was_cancelled_is_written_whole() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    writing = asyncio.create_task(output.write(b"x" * 200_000))
    await asyncio.sleep(0.01)
    writing.cancel()
    with os.fdopen(reader, "rb") as pipe:
        assert len(await asyncio.to_thread(pipe.readline)) == 200_001
    os.close(writer)


async def test_a_reader_that_is_gone_is_noticed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = Output(writer)
    with pytest.raises(ClientGone):
        await output.write(b"x")
    assert output.closed.is_set()
    with pytest.raises(ClientGone):
        await output.write(b"y")
    os.close(writer)
