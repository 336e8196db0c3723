"""Forwardable results: the shortcut and the full conversion give the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.forwarding.answer import InterruptedAnswerError
from manager.forwarding.messages import Answered, answered
from manager.routing.json import forwardable_result
from manager.sessions import round_trips
from support.clients import exchanges

EXCHANGE = exchanges.legacy(exchanges.call("t", {}))
SERVER = {"name": "s", "version": "1"}
META = {names.META_SERVER: SERVER}


def parsed(body: bytes, identity: bytes = b"1") -> Answered | None:
    """The parsed response; None if it is no response, or one to another request."""
    try:
        return answered(body, identity)
    except InterruptedAnswerError:
        return None


def fully_converted(body: bytes, identity: bytes = b"1") -> bytes | None:
    """What a session client gets after the response was parsed and converted."""
    found = parsed(body, identity)
    return None if found is None else round_trips.final_response(EXCHANGE, found)


def shortcut(body: bytes, identity: bytes = b"1") -> bytes | None:
    return forwardable_result.for_session_client(body, 0, len(body), identity)


def is_plain(body: bytes, identity: bytes = b"1") -> bool:
    return forwardable_result.is_forwardable(body, 0, len(body), identity)


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


LEAVES = (
    st.none()
    | st.integers()
    | st.sampled_from(
        [
            "",
            "complete",
            "resultType",
            "_meta",
            '"resultType":"complete",',
            '},"result":{',
            "é",
            "\\",
            "input_required",
        ]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["resultType", "_meta", "result", "id", "a"]), inner, max_size=2)
    ),
    max_leaves=6,
)
MEMBERS = st.one_of(
    st.tuples(
        st.just("resultType"), st.sampled_from(["complete", "complete", "input_required", "task", None, 1])
    ),
    st.tuples(
        st.just("_meta"), st.sampled_from([META, META, {**META, "x": 1}, {"x": META}, {}, None, [META]])
    ),
    st.tuples(st.just("structuredContent"), VALUES),
    st.tuples(st.sampled_from(["ttlMs", "cacheScope"]), LEAVES),
    st.tuples(st.sampled_from(["content", "isError", "x", "inputRequests"]), VALUES),
)
USUAL: tuple[tuple[str, Any], ...] = (("resultType", "complete"), ("content", []), ("_meta", META))


def _object(members: list[tuple[str, Any]], write: Any) -> bytes:
    """A JSON object with these members, duplicates included."""
    return (
        b"{"
        + b",".join(write(name) + b":" + (v if isinstance(v, bytes) else write(v)) for name, v in members)
        + b"}"
    )


@st.composite
def results(draw: st.DrawFn) -> bytes:
    members = draw(st.lists(MEMBERS, max_size=4) | st.just([*USUAL]) | st.permutations(USUAL))
    if draw(st.booleans()):  # as it mostly comes
        members = [USUAL[0], *members, USUAL[-1]]
    write = draw(st.sampled_from([compact, compact, lambda value: json.dumps(value).encode()]))
    return _object(members, write)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    version = draw(st.sampled_from([b'"2.0"', b'"2.0"', b'"2.0"', b'"1.0"', b'"2\\u002e0"']))
    identity = draw(st.sampled_from([b"1", b"1", b'"a"', b"null", b"1.5", b'"\\u0041"', b"{}"]))
    members: list[tuple[str, Any]] = [("jsonrpc", version), ("id", identity), ("result", draw(results()))]
    more = st.sampled_from(
        [("error", {}), ("method", "m"), ("x", {"a": 1, "_meta": META}), ("id", 2), ("_meta", META)]
    )
    members += draw(st.just([]) | st.lists(more | results().map(lambda one: ("result", one)), max_size=2))
    body = _object(members, compact)
    return body + draw(st.sampled_from([b"", b"", b"", b"\n", b" ", b"}", b"x"]))


BEGIN = b'{"jsonrpc":"2.0","id":1,"result":'


@given(body=responses())
@example(BEGIN + b'{"content":[]}}\n')
@example(BEGIN + b'{"content":[]} }')
@example(BEGIN + b'{"content":[]},"x":1}')
@example(BEGIN + b'{"resultType":"complete","a":1},"result":{"b":1}}')
@example(BEGIN + b'{"resultType":"complete","a":1,"resultType":"complete"}}')
@example(
    BEGIN + b'{"resultType":"complete","_meta":%b,"a":1},"x":{"a":1,"_meta":%b}}' % ((compact(META),) * 2)
)
@example(BEGIN + b'{"a":1,"_meta":%b,"_meta":%b}}' % ((compact(META),) * 2))
@example(BEGIN + b'{"resultType":"complete","_meta":%b}}' % compact(META))
@example(BEGIN + b'{"resultType":"complete"}}')
@example(BEGIN + b"{}}")
@example(BEGIN + b'{"structuredContent":[1]}}')
@example(b'{"jsonrpc":"2\\u002e0","id":1,"result":{}}')
def test_the_shortcut_gives_the_same_bytes_as_the_full_conversion(body: bytes) -> None:
    session = shortcut(body)
    assert session in (None, fully_converted(body))
    plain = is_plain(body)
    assert not plain or parsed(body) is not None
    data, start, end = b"head" + body + b"}}\n\n", 4, 4 + len(body)
    assert forwardable_result.for_session_client(data, start, end, b"1") == session
    assert forwardable_result.is_forwardable(data, start, end, b"1") == plain


@pytest.mark.parametrize(
    "content", [[], [{"type": "text", "text": 'é "resultType": "_meta" \\ }}'}], [1, {"a": [{}]}]]
)
@pytest.mark.parametrize("identity", [b"0", b"7", b'"x-1"'])
def test_a_usual_result_takes_the_shortcut(identity: bytes, content: Any) -> None:
    result = {"resultType": "complete", "content": content, "structuredContent": {"a": 1}, "_meta": META}
    body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (identity, compact(result))
    assert is_plain(body, identity)
    found = shortcut(body, identity)
    assert found == fully_converted(body, identity)
    assert json.loads(found or b"")["result"] == {"content": content, "structuredContent": {"a": 1}}


def test_a_legacy_result_is_forwarded_unchanged() -> None:
    body = BEGIN + b'{"content":[ ], "_meta" : 1}}'
    assert shortcut(body) is None
    body = BEGIN + b'{"content":[ ] , "isError" :false}}'
    assert shortcut(body) == body == fully_converted(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        BEGIN,
        BEGIN + b"}",
        BEGIN + b"{}",
        BEGIN + b'{"a":1}}}',
        BEGIN + b'{"a":NaN}}',
        BEGIN + b"[" * 100_000 + b"]" * 100_000 + b"}",
        BEGIN + b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":01,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,2,"result":{}}',
        b'{"jsonrpc":"2.0","method":"m","params":{"a":1,"result":{}}}',
        b'{"jsonrpc":"2.0","id":2,"result":{}}',
        b'{"jsonrpc":"2.0","id":"1","result":{}}',
    ],
    ids=lambda body: body[:60],
)
def test_the_shortcut_declines_everything_else(body: bytes) -> None:
    assert not is_plain(body)
    assert shortcut(body) is None


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": 'é "_meta" }}'}]])
def test_a_trim_replaces_reading_the_result(content: Any) -> None:
    result = compact({"resultType": "complete", "content": content, "_meta": META})
    body = BEGIN + result + b"}"
    trim = result_trim.compute_trim(result, 0, len(result))
    assert trim is not None
    for start, behind in ((0, b""), (4, b"\n\n")):
        data, end = b"head"[:start] + body + behind, start + len(body)
        assert forwardable_result.for_session_client(data, start, end, b"1", trim) == fully_converted(body)
        assert forwardable_result.is_forwardable(data, start, end, b"1", trim)


@pytest.mark.parametrize(
    ("body", "trim"),
    [
        (BEGIN + b'{"content":[]}}', ResultTrim(14, 0)),
        (BEGIN + b'{"content":[]}}', ResultTrim(0, 9000)),
        (BEGIN + b'{"content":[]}', ResultTrim(0, 0)),
        (b'{"jsonrpc":"2.0","id":2,"result":{"content":[]}}', ResultTrim(0, 0)),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', ResultTrim(0, 0)),
    ],
)
def test_the_shortcut_declines_an_impossible_trim(body: bytes, trim: ResultTrim) -> None:
    assert forwardable_result.for_session_client(body, 0, len(body), b"1", trim) is None
