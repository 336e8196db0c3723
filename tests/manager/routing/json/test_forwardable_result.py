"""Results that need no thought: what is said of them is what those say who think."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manager.forwarding.messages import answered
from manager.routing.json import forwardable_result
from manager.sessions import round_trips
from protocol import names
from protocol.internal import result_trim
from protocol.internal.result_trim import ResultTrim
from support.clients import exchanges

EXCHANGE = exchanges.legacy(exchanges.call("t", {}))
SERVER = {"name": "s", "version": "1"}
META = {names.META_SERVER: SERVER}


def by_reading(body: bytes) -> bytes | None:
    """What a client of the era of sessions gets of it the usual way."""
    found = answered(body)
    return None if found is None else round_trips.final_response(EXCHANGE, found)


def in_session(body: bytes, identity: bytes = b"1") -> bytes | None:
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
    """A JSON object of these members, double ones too."""
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
def test_what_a_client_gets_at_once_is_what_it_gets_of_a_reader(body: bytes) -> None:
    session = in_session(body)
    assert session in (None, by_reading(body))
    plain = is_plain(body)
    assert not plain or answered(body) is not None
    data, start, end = b"head" + body + b"}}\n\n", 4, 4 + len(body)
    assert forwardable_result.for_session_client(data, start, end, b"1") == session
    assert forwardable_result.is_forwardable(data, start, end, b"1") == plain


@pytest.mark.parametrize(
    "content", [[], [{"type": "text", "text": 'é "resultType": "_meta" \\ }}'}], [1, {"a": [{}]}]]
)
@pytest.mark.parametrize("identity", [b"0", b"7", b'"x-1"'])
def test_the_usual_result_needs_no_reader(identity: bytes, content: Any) -> None:
    result = {"resultType": "complete", "content": content, "structuredContent": {"a": 1}, "_meta": META}
    body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (identity, compact(result))
    assert is_plain(body, identity)
    worded = in_session(body, identity)
    assert worded == by_reading(body)
    assert json.loads(worded or b"")["result"] == {"content": content, "structuredContent": {"a": 1}}


def test_a_result_of_the_older_era_is_passed_on_as_it_is() -> None:
    body = BEGIN + b'{"content":[ ], "_meta" : 1}}'
    assert in_session(body) is None
    body = BEGIN + b'{"content":[ ] , "isError" :false}}'
    assert in_session(body) == body == by_reading(body)


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
def test_anything_else_is_left_to_readers(body: bytes) -> None:
    assert not is_plain(body)
    assert in_session(body) is None


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": 'é "_meta" }}'}]])
def test_what_the_server_says_of_a_result_spares_to_read_it(content: Any) -> None:
    result = compact({"resultType": "complete", "content": content, "_meta": META})
    body = BEGIN + result + b"}"
    said = result_trim.compute_trim(result, 0, len(result))
    assert said is not None
    for start, behind in ((0, b""), (4, b"\n\n")):
        data, end = b"head"[:start] + body + behind, start + len(body)
        assert forwardable_result.for_session_client(data, start, end, b"1", said) == by_reading(body)
        assert forwardable_result.is_forwardable(data, start, end, b"1", said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (BEGIN + b'{"content":[]}}', ResultTrim(14, 0)),
        (BEGIN + b'{"content":[]}}', ResultTrim(0, 9000)),
        (BEGIN + b'{"content":[]}', ResultTrim(0, 0)),
        (b'{"jsonrpc":"2.0","id":2,"result":{"content":[]}}', ResultTrim(0, 0)),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}', ResultTrim(0, 0)),
    ],
)
def test_what_the_server_cannot_have_meant_is_left_to_readers(body: bytes, said: ResultTrim) -> None:
    assert forwardable_result.for_session_client(body, 0, len(body), b"1", said) is None
