"""Tests of server-sent events: encoding, incremental parsing and limits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.protocol.sse import Decoder, Event, EventTooLarge, encode, single_event, single_line

LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=8)
FIELDS = st.one_of(
    LINE.map("data: {}".format),
    LINE.map("data:{}".format),
    LINE.map("event: {}".format),
    LINE.map("id: {}".format),
    LINE.map(": {}".format),
    st.just("data"),
    st.just("retry: 5"),
    LINE,
)


def read(*chunks: bytes) -> list[Event]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def test_an_event_has_the_expected_bytes() -> None:
    assert encode(b'{"a":1}') == b'event: message\ndata: {"a":1}\n\n'
    assert encode(b"{}", event="endpoint", identity="7") == b"id: 7\nevent: endpoint\ndata: {}\n\n"


@pytest.mark.parametrize("data", [b"a\nb", b"a\rb", b"\n"])
def test_data_with_a_line_break_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="single line"):
        encode(data)


@pytest.mark.parametrize(
    ("body", "line"),
    [(b"{}", b"{}"), (b'{\r\n "a":1\n}', b'{   "a":1 }'), (b'{"a":"\\n"}', b'{"a":"\\n"}')],
)
def test_json_is_put_on_one_line_without_changing_strings(body: bytes, line: bytes) -> None:
    assert single_line(body) == line


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_all_three_line_ends_are_read(end: bytes) -> None:
    stream = end.join([b"event: x", b"data: 1", b"data: 2", b"", b"data: 3", b"", b": tail"])
    assert read(stream + b"\n") == [Event(b"1\n2", "x"), Event(b"3")]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: x\n\n", [Event(b"x")]),
        (b"data:x\n\n", [Event(b"x")]),
        (b"data:  x\n\n", [Event(b" x")]),
        (b"data\n\n", [Event(b"")]),
        (b"data:a:b\n\n", [Event(b"a:b")]),
        (b"event: x\n\ndata: y\n\n", [Event(b"y")]),
        (b": comment\n\n", []),
        (sse.KEEP_ALIVE, []),
        (b"retry: 10\nunknown: 1\ndata: x\n\n", [Event(b"x")]),
        (b"id: 1\ndata: x\n\ndata: y\n\n", [Event(b"x", id="1"), Event(b"y", id="1")]),
        (b"id: a\0b\ndata: x\n\n", [Event(b"x")]),
        (b"data: unfinished\n", []),
        (b"\n\n\n", []),
    ],
)
def test_fields_are_parsed_as_in_the_html_standard(stream: bytes, events: list[Event]) -> None:
    assert read(stream) == events


def test_encoded_events_are_decoded_to_the_same() -> None:
    assert read(encode(b"{}", event="endpoint", identity="7")) == [Event(b"{}", "endpoint", "7")]


@given(
    st.lists(st.tuples(FIELDS, st.sampled_from(["\n", "\r", "\r\n"]), st.booleans()), max_size=12),
    st.lists(st.integers(0, 200), max_size=12),
)
@example([("data: x", "\r\n", True)], [8, 9, 10])
def test_events_do_not_depend_on_chunk_boundaries(
    lines: list[tuple[str, str, bool]], cuts: list[int]
) -> None:
    stream = "".join(f"{text}{end}{end if twice else ''}" for text, end, twice in lines).encode() + b"\n\n"
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert b"".join(pieces) == stream
    whole = read(stream)
    assert read(*pieces) == whole
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == whole


@pytest.mark.parametrize(
    "piece",
    [b"x", b"data: x\n", b"data\n", b"data:\n", b"data: " + b"x" * 40 + b"\n"],
    ids=["no line end", "many lines", "bare data", "empty data", "long lines"],
)
def test_an_event_above_the_limit_is_refused_early(piece: bytes) -> None:
    decoder = Decoder(limit=1000)
    with pytest.raises(EventTooLarge):
        for _ in range(2000):
            assert decoder.feed(piece) == []


def test_the_limit_is_for_one_event_not_for_the_stream() -> None:
    decoder = Decoder(limit=100)
    assert sum(len(decoder.feed(b"data: " + b"x" * 80 + b"\n\n")) for _ in range(50)) == 50


@pytest.mark.parametrize("comment", [None, b"", b" said: 1 2"])
@pytest.mark.parametrize("begin", [b"event: message\ndata: ", b"data: "])
def test_the_message_of_a_one_event_stream_is_found_without_parsing(
    begin: bytes, comment: bytes | None
) -> None:
    event = (b":%b\n" % comment if comment is not None else b"") + begin + b'{"a":1}\n\n'
    for stream, start in ((event, 0), (b"data: 0\n\n" + event + b"\r\n\n\n", 9)):
        found = single_event(stream, start, start + len(event))
        assert found is not None
        assert stream[found.start : found.end] == read(event)[0].data == b'{"a":1}'
        assert found.comment == comment


def test_comments_are_ignored() -> None:
    event = encode(b"{}", comment="said: 1 2", identity="7")
    assert event.startswith(b": said: 1 2\n")
    assert read(event) == [Event(b"{}", id="7")]


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"data: 1",
        b"data: 1\n",
        b"data:1\n\n",
        b"data: 1\r\n\r\n",
        b"data: 1\ndata: 2\n\n",
        b"data: 1\rdata: 2\n\n",
        b"data: 1\n\ndata: 2\n\n",
        b": one\n: two\ndata: 1\n\n",
        b": one\r\ndata: 1\n\n",
        b": one\n\ndata: 1\n\n",
        b"id: 1\ndata: 1\n\n",
        b"event: other\ndata: 1\n\n",
    ],
)
def test_other_streams_have_to_be_parsed(stream: bytes) -> None:
    assert single_event(stream, 0, len(stream)) is None
