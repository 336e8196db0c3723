"""Event streams that pass: cut between events whatever the pieces, and known to be answered or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from manager.answers.exchange import Ending
from manager.web.passing_events import WholeEvents, until

NOTE = b'event: message\ndata: {"jsonrpc":"2.0","method":"m"}'
RESPONSE = b'id: 7\ndata: {"jsonrpc":"2.0","id":1,"result":{}}'
COMMENT = b": no data"


def pieces(whole: bytes, size: int) -> list[bytes]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_only_whole_events_come_out_and_all_of_their_bytes(size: int, end: bytes) -> None:
    parts = [part.replace(b"\n", end) + end + end for part in (COMMENT, NOTE, RESPONSE)]
    edges = {sum(map(len, parts[:count])) for count in range(4)}
    events, out = WholeEvents(), b""
    for piece in pieces(b"".join(parts), size):
        out += events.take(piece)
        assert len(out) in edges
    assert out == b"".join(parts)
    assert events.waiting == 0


def test_what_is_not_complete_waits() -> None:
    events = WholeEvents()
    assert events.take(NOTE) == b""
    assert events.waiting == len(NOTE)
    assert events.take(b"\n\n" + RESPONSE) == NOTE + b"\n\n"
    assert events.waiting == len(RESPONSE)
    assert not events.end_in_response


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    ("parts", "answered"),
    [
        ([], False),
        ([NOTE], False),
        ([RESPONSE], True),
        ([NOTE, RESPONSE, COMMENT], True),
        ([b'data: {"jsonrpc":"2.0",\ndata: "id":1,"result":{}}'], True),
        ([b'data: {"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}'], True),
        ([b"data: [DONE]"], False),
    ],
)
def test_it_is_known_whether_the_response_came(parts: list[bytes], answered: bool, size: int) -> None:
    """M-100: else the client is told so, and never twice."""
    events = WholeEvents()
    for piece in pieces(b"".join(part + b"\n\n" for part in parts), size):
        events.take(piece)
    assert events.end_in_response is answered


async def test_a_stream_is_ended_between_two_pieces_and_its_source_closed() -> None:
    """At the manager's stop: what is on its way is not waited for."""
    is_closed = False

    async def source() -> AsyncGenerator[bytes]:
        nonlocal is_closed
        try:
            yield b"one"
            await asyncio.Event().wait()
        finally:
            is_closed = True

    ending = Ending(asyncio.Event(), b"")
    passed = until(source(), ending)
    assert await anext(passed) == b"one"
    following = asyncio.ensure_future(anext(passed, b"ended"))
    await asyncio.sleep(0)
    ending.event.set()
    assert await asyncio.wait_for(following, 5) == b"ended"
    assert is_closed


@pytest.mark.parametrize("ending", [None, Ending(asyncio.Event(), b"")], ids=["its own", "may be ended"])
async def test_a_stream_that_ends_by_itself_is_passed_whole(ending: Ending | None) -> None:
    async def source() -> AsyncGenerator[bytes]:
        yield b"one"
        yield b"two"

    assert [piece async for piece in until(source(), ending)] == [b"one", b"two"]
