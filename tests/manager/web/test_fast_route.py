"""Requests that are compared with the last one: a head is taken for the same where reading it says so, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manager.answers.exchange import Located
from manager.answers.sighting import sighting
from manager.routing.arrival import Arrival
from manager.routing.door import DoorRules
from manager.routing.heads import Heads, Refused
from manager.routing.ladder import Source
from manager.upstream import learned
from manager.upstream.response import ResponseHead
from manager.web.fast_route import NOTED_S, FastRoute
from protocol.call_pattern import probe_of
from support import exchanges

CAP = 4000
RULES = DoorRules.for_ports([4000], body_cap=CAP)
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}'
FIELDS = (
    b"Host: 127.0.0.1:4000\r\nContent-Type: application/json\r\nContent-Length: %b\r\n"
    b"Accept: application/json\r\nMcp-Session-Id: s-1\r\n"
)
ENDS = b"\r\n\r\n"


def head(length: bytes, fields: bytes = FIELDS, more: bytes = b"") -> bytes:
    return b"POST /mcp HTTP/1.1\r\n" + fields % length + more + b"\r\n"


def request(body: bytes = BODY, more: bytes = b"") -> bytes:
    return head(b"%d" % len(body), more=more) + body


class Reader:
    """Who reads every head, and the route of the requests that come with one of them."""

    def __init__(self, fields: bytes = FIELDS, *, is_in_session: bool = True) -> None:
        self.heads = Heads(RULES)
        first = head(b"%d" % len(BODY), fields)
        self.arrival, _ = self.of(first) or (None, 0)
        self.route = route(self.arrival, is_in_session=is_in_session)
        self.route.comes_with(first)

    def of(self, raw: bytes) -> tuple[Arrival | None, int | None] | None:
        """What a head says, and the length of its body; None where it does not get in."""
        read = self.heads.read(raw)
        return None if isinstance(read, Refused) else (read[0].arrival, read[1])

    def body_at(self, data: bytes) -> int:
        """What `FastRoute.body_at` should say at most."""
        end = data.find(ENDS) + len(ENDS)
        if end < len(ENDS):
            return -1
        is_whole = self.of(data[:end]) == (self.arrival, len(data) - end)
        return end if is_whole else -1


def route(arrival: Arrival | None, *, is_in_session: bool = True) -> FastRoute:
    own: dict[str, Any] = {"accepts_events": True} | ({} if is_in_session else {"session": None})
    exchange = exchanges.legacy(BODY, headers={"Mcp-Session-Id": "s-1"}, **own)
    found = probe_of(BODY)
    assert found is not None
    nowhere = cast("Any", Mock())
    return FastRoute(
        arrival or nowhere,
        exchange,
        Located(nowhere, Source.SESSION),
        nowhere,
        patterns=(found[0], None),
        upstream=b"POST /mcp HTTP/1.1\r\nContent-Length: ",
        client=sighting(exchange, 0.0)[0],
        folder=None,
        longest=CAP,
    )


# -- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 999, 1000, CAP])
@pytest.mark.parametrize("fields", [FIELDS, FIELDS.replace(b"Content-Length", b"content-length")])
def test_a_request_with_another_length_is_the_same(fields: bytes, size: int) -> None:
    reader = Reader(fields)
    data = head(b"%d" % size, fields) + b"x" * size
    for _ in range(2):
        assert reader.route.body_at(data) == len(data) - size == reader.body_at(data)


LENGTHS = st.sampled_from(
    [b"0", b"87", b"88", b"89", b"087", b"00000087", b"+87", b"8 7", b" 87", b"87 ", b"", b"87, 87"]
)
SMUGGLED = st.sampled_from(
    [
        b"",
        b"",
        b"Content-Length: 87\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Origin: http://evil.example\r\n",
        b"Mcp-Session-Id: s-2\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"X: y\n",
        b"\n",
    ]
)


@given(
    length=LENGTHS | st.integers(0, 5000).map(b"%d".__mod__),
    more=SMUGGLED,
    body=st.sampled_from(
        [BODY, BODY[:-1], BODY + b"\r\n", BODY * 2, BODY + request(), b"", b"x" * (CAP + 1)]
    ),
    cut=st.integers(-300, 400),
    inserted=st.sampled_from([b"", b"", b"", b"\r\n", b"\r", b"\n", b" ", b"0", b"7", b"\0", b": ", b"\xe9"]),
    dropped=st.integers(0, 2),
)
@example(b"4001", b"", b"x" * 4001, 0, b"", 0)
@example(b"87", b"", BODY, 120, b"", 0)
def test_no_other_request_is_taken_for_the_same(
    length: bytes, more: bytes, body: bytes, cut: int, inserted: bytes, dropped: int
) -> None:
    """Lengths that lie, a second length, other fields, and anything inserted or left out anywhere."""
    reader = Reader()
    reader.route.body_at(request())
    whole = head(length, more=more) + body
    data = whole[:cut] + inserted + whole[cut + dropped :]
    assert reader.route.body_at(data) in (-1, reader.body_at(data))


def test_a_request_that_is_not_whole_or_not_alone_is_none() -> None:
    reader, data = Reader(), request()
    assert [reader.route.body_at(data[:size]) for size in range(len(data))] == [-1] * len(data)
    assert [reader.route.body_at(data[start:]) for start in range(1, len(data))] == [-1] * (len(data) - 1)
    assert reader.route.body_at(data * 2) == -1
    assert reader.route.body_at(data) > 0
    for other in (data[:-1], data + b"x", data[1:] + b"}", b"x" * len(data)):
        assert reader.route.body_at(other) == -1


def test_a_head_without_a_length_is_never_known() -> None:
    made = route(None)
    made.comes_with(head(b"1").replace(b"Content-Length: 1\r\n", b""))
    assert made.body_at(head(b"1") + b"x") == made.body_at(b"") == -1


# -- answers -----------------------------------------------------------------------------------------------

RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}'
PLAIN = RESULT.replace(b'"resultType":"complete",', b"")
DATE = b"\r\nDate: a\r\n\r\n"


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    learned._heads.clear()
    for status in (200, 500):
        head_of = ResponseHead(status, ((b"content-length", b"2"),), 2, b"application/json")
        learned.remember(response(b"{}", status), head_of)
    yield
    learned._heads.clear()


def body_of(made: FastRoute, data: bytes) -> bytes | None:
    answer = made.answer(data, DATE)
    return None if answer is None else answer.partition(DATE)[2]


def response(body: bytes, status: int = 200, length: int | None = None) -> bytes:
    told = len(body) if length is None else length
    return b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        told,
        body,
    )


@pytest.mark.parametrize("is_in_session", [True, False])
def test_an_answer_is_worded_as_its_era_has_it(is_in_session: bool) -> None:
    made = Reader(is_in_session=is_in_session).route
    expected = RESULT.replace(b'"resultType":"complete",', b"") if is_in_session else RESULT
    for _ in range(2):
        assert body_of(made, response(RESULT)) == expected


@pytest.mark.parametrize(
    "data",
    [
        response(RESULT, 500),
        response(RESULT, 201),
        response(RESULT, length=len(RESULT) - 1),
        response(RESULT, length=len(RESULT) + 1),
        response(RESULT)[:-1],
        response(RESULT) + b"x",
        response(RESULT) * 2,
        response(RESULT).replace(b"application/json", b"text/event-strea"),
        response(RESULT).replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n"),
        response(RESULT).replace(b"HTTP/1.1", b"HTTP/1.0"),
        response(RESULT.replace(b"result", b"resulx")),
        response(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}'),
        response(b'{"jsonrpc":"2.0","id":1,"result":{"a":"%b"}}' % (b"x" * 256 * 1024)),
        response(b""),
        b"",
    ],
    ids=lambda data: data[:40],
)
def test_any_other_answer_is_left_to_others(data: bytes) -> None:
    for made in (Reader().route, Reader(is_in_session=False).route):
        assert made.answer(data, DATE) is None
        assert made.answer(response(RESULT), DATE) is not None
        assert made.answer(data, DATE) is None


def test_the_answers_head_tells_length_and_date() -> None:
    made = Reader().route
    dates = [DATE, DATE.replace(b"a", b"b")]
    bodies = [PLAIN, PLAIN.replace(b"[]", b"[1]")]
    for date, body in [
        (dates[0], bodies[0]),
        (dates[0], bodies[1]),
        (dates[1], bodies[1]),
        (dates[1], bodies[0]),
    ]:
        told, _, sent = (made.answer(response(body), date) or b"").partition(b"\r\n\r\n")
        assert told.endswith(b"\r\nContent-Length: %d%b" % (len(body), date[:-4]))
        assert told.startswith(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s-1\r\n"
        )
        assert sent == body


EVENT = b"event: message\ndata: %b\n\n"


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_stream_of_one_event_stays_one_but_in_a_session(is_chunked: bool) -> None:
    kind = b"text/event-stream"
    stream = EVENT % RESULT
    if is_chunked:
        begin = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        learned.remember(begin, ResponseHead(200, ((b"transfer-encoding", b"chunked"),), None, kind))
        data = b"%b%x\r\n%b\r\n0\r\n\r\n" % (begin, len(stream), stream)
    else:
        data = response(stream).replace(b"application/json", kind)
        learned.remember(data, ResponseHead(200, ((b"content-length", b"1"),), len(stream), kind))
    modern, legacy = Reader(is_in_session=False).route, Reader().route
    for _ in range(2):
        assert body_of(modern, data) == b"%x\r\n%b\r\n0\r\n\r\n" % (len(stream), stream)
        assert body_of(legacy, data) == PLAIN
        assert body_of(modern, response(RESULT)) == RESULT
        assert body_of(legacy, response(RESULT)) == PLAIN
    told = (modern.answer(data, DATE) or b"").partition(DATE)[0]
    assert b"\r\nContent-Type: text/event-stream" in told
    assert b"\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n" in told


def test_of_calls_in_quick_succession_one_is_noted() -> None:
    made = Reader().route
    times = [10.0, 10.0 + NOTED_S / 2, 10.0 + 2 * NOTED_S, 11.0]
    assert [made.note(now) is not None for now in times] == [True, False, True, True]


def test_a_request_for_the_server_tells_its_length() -> None:
    made = Reader().route
    found = made.match(BODY)
    assert found is not None
    sent = made.request(BODY, found)
    assert sent == b"POST /mcp HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
