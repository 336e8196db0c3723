"""A cached route rewrites requests and responses, and distinguishes sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import Mock

import pytest

from lm_tools_bridge.protocol.call_pattern import derive_pattern
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from manager.answers.exchange import Located, client_record
from manager.answers.upstream_request import caller_header
from manager.route_cache.bound_route import BoundRoute, HeadPattern
from manager.route_cache.cached_route import CachedRoute, SessionProfile
from manager.routing.resolution import WorkspaceSource
from manager.routing.state.session_table import Session
from manager.upstream import response as upstream_response
from manager.upstream.response import ResponseHead
from support.clients import exchanges

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}'


def route(session: Session | None) -> CachedRoute:
    fields = {"Mcp-Session-Id": session.id} if session is not None else {}
    exchange = exchanges.legacy(BODY, headers=fields, accepts_events=True, session=session)
    found = derive_pattern(BODY)
    assert found is not None
    own = b"" if session is None else b"%b: %b\r\n" % caller_header(session.id)
    nowhere = cast("Any", Mock())
    return CachedRoute(
        nowhere,
        exchange,
        Located(nowhere, WorkspaceSource.SESSION),
        nowhere,
        patterns=(found[0], None),
        upstream=b"POST /mcp HTTP/1.1\r\n%bContent-Length: " % own,
        client=client_record(exchange, 0.0)[0],
        folders=(),
    )


def bound_route(*, is_in_session: bool = True) -> BoundRoute:
    """The bound route of a client with one connection."""
    session = exchanges.session_of() if is_in_session else None
    return BoundRoute(route(session), session, HeadPattern(b"", 0))


# -- requests ----------------------------------------------------------------------------------------------


def test_a_request_to_the_server_has_its_content_length() -> None:
    bound = bound_route(is_in_session=False)
    found = bound.route.match(BODY)
    assert found is not None
    sent = bound.request(BODY, found)
    assert sent == b"POST /mcp HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


def test_bytes_for_one_session_name_no_other_session() -> None:
    one, other = exchanges.session_of(), exchanges.session_of()
    other.id = "s-2"
    shared = route(one)
    found = shared.match(BODY)
    assert found is not None
    for session in (one, other, one):
        bound, alone = (BoundRoute(each, session, HeadPattern(b"", 0)) for each in (shared, route(session)))
        assert bound.request(BODY, found) == alone.request(BODY, found)
        assert bound.answer(response(RESULT), b"1", DATE) == alone.answer(response(RESULT), b"1", DATE)
        assert caller_header(session.id)[1] in bound.request(BODY, found)
        assert f"\r\nMcp-Session-Id: {session.id}\r\n".encode() in (
            bound.answer(response(RESULT), b"1", DATE) or b""
        )


@pytest.mark.parametrize(
    "changed",
    [
        {"workspace": "other"},
        {"roots": ("file:///x",)},
        {"log_level": "error"},
        {"revision": "2025-03-26"},
        {"client_name": "other"},
        {"client_version": "other"},
        {"capabilities": b'{"roots":{}}'},
        {"mode": (("X-MCP-Tool-Mode", "all"),)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_sessions_with_different_profiles_are_distinguished(changed: dict[str, Any]) -> None:
    one, same, other = (exchanges.session_of(roots=("file:///",)) for _ in range(3))
    same.id, same.seen = "s-2", 9.0
    same.in_flight.add(b"1", print)
    for name, value in changed.items():
        setattr(other, name, value)
    assert SessionProfile.of(one) == SessionProfile.of(same) != SessionProfile.of(other)
    assert SessionProfile.of(one).is_current(same)
    may_change = {"workspace", "roots", "log_level"}
    assert SessionProfile.of(one).is_current(other) is may_change.isdisjoint(changed)


# -- answers -----------------------------------------------------------------------------------------------

RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}'
PLAIN = RESULT.replace(b'"resultType":"complete",', b"")
DATE = b"\r\nDate: a\r\n\r\n"


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    upstream_response._heads.clear()
    for status in (200, 500):
        head_of = ResponseHead(status, ((b"content-length", b"2"),), 2, b"application/json")
        upstream_response.remember_head(response(b"{}", status), head_of)
    yield
    upstream_response._heads.clear()


def body_of(bound: BoundRoute, data: bytes) -> bytes | None:
    answer = bound.answer(data, b"1", DATE)
    return None if answer is None else answer.partition(DATE)[2]


def response(body: bytes, status: int = 200, length: int | None = None) -> bytes:
    told = len(body) if length is None else length
    return b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        told,
        body,
    )


@pytest.mark.parametrize("is_in_session", [True, False])
def test_an_answer_has_the_format_of_its_client(is_in_session: bool) -> None:
    bound = bound_route(is_in_session=is_in_session)
    expected = RESULT.replace(b'"resultType":"complete",', b"") if is_in_session else RESULT
    for _ in range(2):
        assert body_of(bound, response(RESULT)) == expected


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
def test_an_answer_that_has_to_be_parsed_is_rejected(data: bytes) -> None:
    for bound in (bound_route(), bound_route(is_in_session=False)):
        assert bound.answer(data, b"1", DATE) is None
        assert bound.answer(response(RESULT), b"1", DATE) is not None
        assert bound.answer(data, b"1", DATE) is None


def timed(timing: CallTiming, *, behind: bytes = b"") -> bytes:
    """A response that says where its time went, and with a line behind that."""
    return response(RESULT).replace(b"\r\n\r\n", b"\r\n" + timing.line + behind + b"\r\n\r\n", 1)


@pytest.mark.parametrize("behind", [b"", b"\r\nX: y"], ids=["the last line", "not the last line"])
def test_each_answer_says_where_its_own_time_went(behind: bytes) -> None:
    bound = bound_route()
    first = CallTiming("scripts", 0, 0)
    fields = ((b"content-length", b"%d" % len(RESULT)), (b"lm-tools-bridge-took", first.value))
    head = ResponseHead(200, fields, len(RESULT), b"application/json")
    upstream_response.remember_head(timed(first, behind=behind), head)
    for took in (5, 6, 7_000_000, 6, 10**11):
        timing = CallTiming("scripts", took, took)
        assert body_of(bound, timed(timing, behind=behind)) == PLAIN
        assert bound.route.took == timing.value
        assert body_of(bound, response(RESULT)) == PLAIN
        assert bound.route.took == b""


def test_the_head_of_an_answer_has_length_and_date() -> None:
    bound = bound_route()
    dates = [DATE, DATE.replace(b"a", b"b")]
    bodies = [PLAIN, PLAIN.replace(b"[]", b"[1]")]
    for date, body in [
        (dates[0], bodies[0]),
        (dates[0], bodies[1]),
        (dates[1], bodies[1]),
        (dates[1], bodies[0]),
    ]:
        told, _, sent = (bound.answer(response(body), b"1", date) or b"").partition(b"\r\n\r\n")
        assert told.endswith(b"\r\nContent-Length: %d%b" % (len(body), date[:-4]))
        assert told.startswith(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s-1\r\n"
        )
        assert sent == body


EVENT = b"event: message\ndata: %b\n\n"


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_stream_of_one_event_becomes_json_only_in_a_session(is_chunked: bool) -> None:
    group = b"text/event-stream"
    stream = EVENT % RESULT
    if is_chunked:
        begin = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        upstream_response.remember_head(
            begin, ResponseHead(200, ((b"transfer-encoding", b"chunked"),), None, group)
        )
        data = b"%b%x\r\n%b\r\n0\r\n\r\n" % (begin, len(stream), stream)
    else:
        data = response(stream).replace(b"application/json", group)
        upstream_response.remember_head(
            data, ResponseHead(200, ((b"content-length", b"1"),), len(stream), group)
        )
    modern, legacy = bound_route(is_in_session=False), bound_route()
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(stream), stream)
    for _ in range(2):
        assert body_of(modern, data) == (chunk if is_chunked else None), "streams come in chunks"
        assert body_of(legacy, data) == (PLAIN if is_chunked else None)
        assert body_of(modern, response(RESULT)) == RESULT
        assert body_of(legacy, response(RESULT)) == PLAIN
    if not is_chunked:
        return
    for other in (
        data.replace(b"5f\r\n", b"5e\r\n"),
        data.replace(b"5f\r\n", b"+5f\r\n"),
        data.replace(b"5f\r\n", b"5f;a=b\r\n"),
        data[:-2],
        data[:-7],
        data + b"x",
        data.replace(b"\n\n\r\n", b"\n\n\r\n1\r\nx\r\n"),
        data.replace(b'"id":1', b'"id":2'),
        data.replace(b"}}\n", b"}]\n"),
    ):
        assert other != data
        assert modern.answer(other, b"1", DATE) is legacy.answer(other, b"1", DATE) is None, other
    assert body_of(modern, data.replace(b"5f\r\n", b"5F\r\n")) == chunk.replace(b"5f", b"5F")
    told = (modern.answer(data, b"1", DATE) or b"").partition(DATE)[0]
    assert b"\r\nContent-Type: text/event-stream" in told
    assert b"\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n" in told


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SIGNED = RESULT.replace(b'"content":[]', b'"content":[%b]')


def events(message: bytes, said: bytes) -> bytes:
    stream = said + EVENT % message
    upstream_response.remember_head(
        CHUNKED, ResponseHead(200, ((b"transfer-encoding", b"chunked"),), None, b"text/event-stream")
    )
    return b"%b%x\r\n%b\r\n0\r\n\r\n" % (CHUNKED, len(stream), stream)


def test_an_event_with_a_trim_comment_is_not_parsed() -> None:
    """A member with invalid JSON would be rejected by a parser."""
    trim = b": Lm-Tools-Bridge-Trim: 24 0\n"
    for content in (b"1", b"x", b"xx", b"yy"):  # of one size with the one before, and of another
        message = SIGNED % content
        is_json = content == b"1"
        modern, legacy = bound_route(is_in_session=False), bound_route()
        for bound, whole in ((modern, message), (legacy, PLAIN.replace(b"[]", b"[%b]" % content))):
            for _ in range(2):
                sent = body_of(bound, events(message, trim))
                assert sent is not None
                assert whole in sent
                assert (body_of(bound, events(message, b"")) is not None) is is_json
                assert (body_of(bound, events(message, b": said\n")) is not None) is is_json
                assert (
                    body_of(bound, events(message, b": Lm-Tools-Bridge-Trim: a\n")) is not None
                ) is is_json
            assert body_of(bound, events(message.replace(b'"id":1', b'"id":2'), trim)) is None
            assert body_of(bound, events(message.replace(b"}}", b"}]"), trim)) is None
            assert body_of(bound, events(message, trim)[:-2] + b"x\n") is None


def test_an_event_of_the_same_size_with_a_line_end_is_rejected() -> None:
    """The rest is another line of the event, which has to be parsed."""
    message = SIGNED % b"1, 1"
    for bound in (bound_route(is_in_session=False), bound_route()):
        for _ in range(2):
            assert body_of(bound, events(message, b"")) is not None
            for end in (b"\n", b"\r"):
                assert body_of(bound, events(message.replace(b", 1", b",%b1" % end), b"")) is None
