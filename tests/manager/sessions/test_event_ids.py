"""Writing and parsing event ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc
from manager.sessions.event_ids import MAX_REQUEST, SERVER_STREAM, EventId, parse, stream_name

REQUESTS = st.one_of(st.integers(-(2**63), 2**64), st.text(max_size=12)).map(jsonrpc.dumps)


@given(request=st.one_of(st.none(), REQUESTS), number=st.integers(0, 10**9), event=st.integers(0, 10**9))
def test_an_event_id_survives_writing_and_parsing(request: bytes | None, number: int, event: int) -> None:
    if request is not None and len(request) > MAX_REQUEST:
        return
    made = EventId(stream_name("k-_Q", number, request), event)
    assert str(made).isascii() and str(made).isprintable()
    assert parse(str(made)) == made
    assert made.request == request


def test_a_server_stream_is_known_by_its_number() -> None:
    assert EventId(stream_name("a", SERVER_STREAM), 7).is_server_stream
    assert not EventId(stream_name("a", 1), 7).is_server_stream
    assert not EventId(stream_name("a", SERVER_STREAM, b"0"), 7).is_server_stream


def test_a_long_request_id_is_left_out() -> None:
    assert EventId(stream_name("a", 1, b'"' + b"x" * MAX_REQUEST + b'"'), 1).request is None


@pytest.mark.parametrize(
    "text",
    ["", "-", "7", "a.1", "a.1-", "a.1-x", "a.x-1", "a.1.-1", "a.1-1\n", "é.1-1", "a.1-²", "a.1-" + "9" * 16,
     "a" * 33 + ".1-1", "a.1." + "b" * 89 + "-1", "0 or 1=1", "a.1.b.c-1"],
)  # fmt: skip
def test_other_texts_are_not_event_ids(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("request_part", ["!!!", "e30", "bnVsbA", "MS41", "IgE", "A", "_w"])
def test_an_invalid_request_id_is_ignored(request_part: str) -> None:
    """`e30` is {}, `bnVsbA` null, `MS41` 1.5: no ids of requests."""
    assert EventId(f"a.1.{request_part}", 1).request is None
