"""A byte stream is split into messages; those that are too large are dropped, not kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol.content_length import MAX_HEAD, START, ContentLengthSplitter, TooLarge, frame


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(1, 9))
def test_messages_survive_wherever_the_stream_is_cut(messages: list[bytes], size: int) -> None:
    stream = b"".join(frame(message) for message in messages)
    splitter = ContentLengthSplitter(50, 100)
    found = [one for at in range(0, len(stream), size) for one in splitter.feed(stream[at : at + size])]
    kept = [one if len(one) <= 50 else TooLarge(len(one), one[:START]) for one in messages]
    assert (found, splitter.broken, splitter.is_between) == (kept, None, True)


def test_the_messages_around_one_that_is_too_large_arrive() -> None:
    splitter = ContentLengthSplitter(1000, 1_000_000)
    large = b'{"id":7,' + b" " * 500_000
    found = splitter.feed(frame(b"{}") + frame(large) + frame(b"[]"))
    assert found == [b"{}", TooLarge(len(large), large[:START]), b"[]"]


def test_what_is_dropped_is_not_kept_in_memory_meanwhile() -> None:
    splitter = ContentLengthSplitter(1000, 1_000_000_000)
    splitter.feed(b"Content-Length: 900000000\r\n\r\n")
    for _ in range(100):
        assert splitter.feed(b"x" * 100_000) == []
        assert len(splitter._buffer) == 0
    assert not splitter.is_between


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 1001\r\n\r\n",
        b"hello, I am a log line\r\n\r\n",
        b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n{",
        b"Content-Length: -1\r\n\r\n",
        b"\r\n\r\n",
        b"x" * (MAX_HEAD + 1),
    ],
)
def test_a_stream_that_cannot_be_split_is_broken_for_good(sent: bytes) -> None:
    splitter = ContentLengthSplitter(1000)
    assert splitter.feed(frame(b"{}") + sent) == [b"{}"]
    assert splitter.broken is not None
    assert splitter.feed(frame(b"{}")) == []


def test_a_large_message_in_small_pieces_costs_linear_time() -> None:
    """A quadratic search would take minutes."""
    splitter = ContentLengthSplitter(64 * 2**20)
    started = time.thread_time()
    splitter.feed(b"Content-Length: 20000000\r\n\r\n")
    found = [one for _ in range(200_000) for one in splitter.feed(b"x" * 100)]
    assert len(found) == 1
    assert time.thread_time() - started < 10
