"""A byte stream is split into messages in both forms."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_server.internal_channel.connection import Form, MessageFraming

MESSAGE = '{"é":"\U0001f600 \u2028"}'.encode()


def framed(form: Form, *messages: bytes) -> bytes:
    framing = MessageFraming()
    framing.form = form
    return b"".join(framing.frame(message) for message in messages)


@pytest.mark.parametrize("form", ["length", "line"])
def test_non_ascii_message_is_exact_wherever_it_is_split(form: Form) -> None:
    stream = framed(form, MESSAGE)
    for split in range(len(stream) + 1):
        framing = MessageFraming()
        assert framing.feed(stream[:split]) + framing.feed(stream[split:]) == [MESSAGE]
        assert framing.is_between
        assert framing.form == form
    framing = MessageFraming()
    assert [one for byte in stream for one in framing.feed(bytes([byte]))] == [MESSAGE]


@pytest.mark.parametrize("form", ["length", "line"])
def test_two_messages_at_once_are_both_found(form: Form) -> None:
    assert MessageFraming().feed(framed(form, MESSAGE, b"{}")) == [MESSAGE, b"{}"]


@given(st.lists(st.binary(max_size=50)), st.integers(1, 7))
def test_any_bytes_survive_the_length_form(messages: list[bytes], size: int) -> None:
    stream = framed("length", *messages)
    framing = MessageFraming()
    found = [one for at in range(0, len(stream), size) for one in framing.feed(stream[at : at + size])]
    assert found == messages


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2",
        b"content-length:2",
        b"CONTENT-LENGTH :  2 ",
        b"Content-Type: application/json\r\nContent-Length: 2",
    ],
)
def test_header_is_read_in_any_case_and_beside_others(head: bytes) -> None:
    assert MessageFraming().feed(head + b"\r\n\r\n{}") == [b"{}"]


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Type: application/json",
        b"Content-Length: ",
        b"Content-Length: -1",
        b"Content-Length: +1",
        b"Content-Length: 1_0",
        b"Content-Length: 0x10",
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: 2, 2",
        b"Content-Length: \xd9\xa2",
        b"Content-Length: 5000000",
        b"Content-Length: 99999999999999999999",
        b"Content-" + b"x" * 5000,
    ],
)
def test_without_one_usable_length_the_stream_is_broken(head: bytes) -> None:
    framing = MessageFraming()
    assert framing.feed(framed("length", b"{}") + head + b"\r\n\r\n{}") == [b"{}"]
    assert framing.broken is not None
    assert framing.feed(framed("length", b"{}")) == []


def test_a_line_that_is_too_long_breaks_the_stream_before_it_ends() -> None:
    framing = MessageFraming(max_message=100)
    assert framing.feed(b'{"' + b"x" * 98) == []
    assert framing.broken is None
    framing.feed(b"x")
    assert framing.broken is not None


def test_blank_lines_are_skipped_and_a_carriage_return_is_white_space() -> None:
    assert MessageFraming().feed(b'\n\r\n {"a":1}\r\n\n') == [b' {"a":1}\r']


def test_cost_of_a_message_that_comes_in_small_pieces_is_linear() -> None:
    """A quadratic search would take minutes."""
    framing = MessageFraming()
    started = time.thread_time()
    framing.feed(b"{")
    for _ in range(40_000):
        framing.feed(b"x" * 100)
    assert time.thread_time() - started < 5
