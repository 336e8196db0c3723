"""Tests of responses converted for session clients: removed members, error codes, and unchanged bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.forwarding.forwarded_call import Answered, InterruptedAnswerError, answered
from manager.routing import legacy_result
from manager.sessions import round_trips
from support.clients import exchanges

SERVER = {names.META_SERVER: {"name": "x", "version": "1"}}
READ, CALL = names.RESOURCES_READ, names.TOOLS_CALL


def legacy(method: str, body: bytes) -> bytes:
    return legacy_result.convert_response(method, body, jsonrpc.members_of(body))


def error(method: str, code: Any, data: Any = None, message: Any = "no") -> dict[str, Any]:
    content = {"code": code, "message": message, "x": 1} | ({} if data is None else {"data": data})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": content}).encode()
    worded: dict[str, Any] = json.loads(legacy(method, body))["error"]
    assert worded["x"] == 1, "unknown members stay"
    return worded


def test_members_of_the_stateless_revision_are_removed() -> None:
    """Result type, time to live and server info go; all other bytes stay, also numbers and unknown members."""
    body = (
        b'{"jsonrpc":"2.0","id":"\\u0031","x":1.50,"result":{"resultType":"complete","b":1.10,"content":[ 1 ],'
        b'"ttlMs":0,"a":12345678901234567890,"_meta":{"z":1e400,"io.modelcontextprotocol/serverInfo":{"name":"x"},'
        b'"y":"\\u00e9"},"cacheScope":"private","resultType2":{"ttlMs":1}}}'
    )
    assert legacy(CALL, body) == (
        b'{"jsonrpc":"2.0","id":"\\u0031","x":1.50,"result":{"b":1.10,"content":[ 1 ],'
        b'"a":12345678901234567890,"_meta":{"z":1e400,"y":"\\u00e9"},"resultType2":{"ttlMs":1}}}'
    )


@pytest.mark.parametrize(
    "result",
    ['{"a":1}', "{}", '{"tools":null}', '{"tools":{"a":1}}', '{"resources":[{"uri":"a:b"}]}', '{"tools":[]}'],
)
def test_a_list_without_tools_stays_as_it_is(result: str) -> None:
    """It may be the answer to another page's request, or one of a server that errs; nothing is made up."""
    body = b'{"jsonrpc":"2.0","id":1,"result":%b}' % result.encode()
    assert legacy(names.TOOLS_LIST, body) == body


def test_large_bodies_lose_the_same_members() -> None:
    """Their other bytes are copied, not serialised again."""
    text = b"x" * 100_000
    body = b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","text":"%b","ttlMs":1}}' % text
    assert legacy(CALL, body) == b'{"jsonrpc":"2.0","id":1,"result":{"text":"%b"}}' % text


def test_white_space_and_escapes_of_other_members_are_kept() -> None:
    body = (
        b'{ "id" : 1,\r\n"result" : {"ttlMs" : 0 , "a":[ 1.0,"\\u00e9" ] ,\t"resultType":"complete", "b": {} ,'
        b' "_meta": { "x":1 , "io.modelcontextprotocol/serverInfo": {"a":[1,2]} } , "cacheScope":"private" },'
        b' "jsonrpc":"2.0" }\n'
    )
    assert legacy(CALL, body) == (
        b'{ "id" : 1,\r\n"result" : { "a":[ 1.0,"\\u00e9" ] , "b": {} ,'
        b' "_meta": { "x":1 } },'
        b' "jsonrpc":"2.0" }\n'
    )


@pytest.mark.parametrize("name", ["\\u0061", 'say \\"hi\\"'])
def test_a_member_name_with_escapes_is_rewritten_without_them(name: str) -> None:
    """All values keep their bytes."""
    body = f'{{"jsonrpc":"2.0","id":1,"result":{{"{name}":1.10, "ttlMs":5}}}}'.encode()
    worded = legacy(CALL, body)
    assert b":1.10" in worded
    assert json.loads(worded)["result"] == {json.loads(f'"{name}"'): 1.1}


@pytest.mark.parametrize(
    "result",
    [
        b"{}",
        b'{ "content" : [] }',
        b'{"_meta":{"a":1} }',
        b"5",
        b"null",
        b"[1 ]",
        b'"resultType"',
        b'{"_meta":7}',
    ],
)
def test_a_result_without_such_members_is_forwarded_unchanged(result: bytes) -> None:
    body = b' {"jsonrpc":"2.0", "id":1,"result":' + result + b"}\n"
    assert legacy(CALL, body) is body


def test_an_emptied_meta_is_removed() -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"a": 1, "_meta": SERVER}}).encode()
    assert json.loads(legacy(CALL, body))["result"] == {"a": 1}
    assert legacy_result.convert_result({"a": 1, "_meta": {**SERVER, "b": 2}}) == {"a": 1, "_meta": {"b": 2}}


@given(
    st.dictionaries(
        st.sampled_from(["resultType", "ttlMs", "cacheScope", "a", "é", "_meta"]) | st.text(max_size=5),
        st.recursive(st.integers() | st.text(max_size=5) | st.none(), st.lists, max_leaves=3)
        | st.dictionaries(st.sampled_from(["b", names.META_SERVER]), st.integers()),
    )
)
def test_all_other_members_are_equal_after_the_conversion(result: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    expected = {
        key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope")
    }
    if isinstance(expected.get("_meta"), dict) and names.META_SERVER in expected["_meta"]:
        expected["_meta"] = {
            key: value for key, value in expected["_meta"].items() if key != names.META_SERVER
        }
        if not expected["_meta"]:
            del expected["_meta"]
    assert json.loads(legacy(CALL, body))["result"] == expected


@pytest.mark.parametrize(
    ("method", "code", "data", "expected"),
    [
        (READ, -32602, {"uri": "a://b"}, -32002),
        (READ, -32602, {"reason": "x"}, -32602),
        (READ, -32602, None, -32602),
        (READ, -32602, "uri", -32602),
        (CALL, -32602, {"uri": "a://b"}, -32602),
        (CALL, -32021, {}, -32602),
        (CALL, -32020, None, -32603),
        (CALL, -32022, {"supported": []}, -32603),
        (CALL, -32042, {"elicitations": []}, -32042),
        (READ, -32603, {"uri": "a://b"}, -32603),
        (CALL, -32601, None, -32601),
        (CALL, 47109, {"reason": "source_unavailable"}, 47109),
        (CALL, "text", None, "text"),
        (CALL, 1.5, None, 1.5),
    ],
)
def test_error_codes_are_those_of_the_older_revisions(
    method: str, code: Any, data: Any, expected: Any
) -> None:
    """-32602 became the code of an unknown resource in 2026-07-28; -32020 to -32022 are new there."""
    worded = error(method, code, data)
    assert (worded["code"], worded["message"], worded.get("data")) == (expected, "no", data)


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        (
            {"elicitation": {"url": {}}, "sampling": {}},
            "no (this client did not declare: elicitation.url, sampling)",
        ),
        ({"roots": {"listChanged": True}}, "no (this client did not declare: roots.listChanged)"),
        ({"sampling": None}, "no (this client did not declare: sampling)"),
        ({}, "no"),
        ("broken", "no"),
    ],
)
def test_the_message_names_the_missing_capability(required: Any, expected: str) -> None:
    """Session clients do not know the code, so the message must say it."""
    worded = error(CALL, -32021, {"requiredCapabilities": required})
    assert (worded["message"], worded["data"]) == (expected, {"requiredCapabilities": required})


def test_a_missing_capability_without_message_gets_one() -> None:
    data = {"requiredCapabilities": {"roots": {}}}
    assert error(CALL, -32021, data, message=5)["message"].startswith("a client capability is missing (")


OBJECT = '{"type":"object"}'


def definition(text: str) -> str:
    return jsonrpc.bytes_of(legacy_result.convert_definition(msgspec.Raw(text.encode()))).decode()


@pytest.mark.parametrize(
    "tool",
    [
        f'{{ "name":"a", "x": 1.10, "inputSchema": {OBJECT} }}',
        f'{{"name":"a","inputSchema":{OBJECT},"outputSchema": {{"properties":{{"a":{{}}}},"type":"object"}}}}',
        '{"name":"a","inputSchema":{"type":"object","properties":{"a": {"type":"string"}, "b":{}}}}',
        '{"name":"a"}',
        "5",
        "[ ]",
    ],
)
def test_a_definition_that_older_revisions_allow_is_unchanged(tool: str) -> None:
    raw = msgspec.Raw(tool.encode())
    assert legacy_result.convert_definition(raw) is raw


@pytest.mark.parametrize(
    "schema",
    ['{"type":"array"}', "{}", "true", '{"type":["object","null"]}', '{"anyOf":[{"type":"object"}]}',
     '{"type":"object","properties":{"a":true}}'],
)  # fmt: skip
def test_an_output_schema_of_another_type_than_object_is_removed(schema: str) -> None:
    tool = f'{{"name":"a","outputSchema":{schema},"inputSchema":{OBJECT},"x":1.10}}'
    assert definition(tool) == f'{{"name":"a","inputSchema":{OBJECT},"x":1.10}}'


def test_a_missing_input_schema_is_replaced_by_an_equivalent_one() -> None:
    tool = '{"name":"a","inputSchema":{"properties":{"a":true,"b":false,"c":{ }},"type":"object"}}'
    expected = '{"name":"a","inputSchema":{"properties":{"a":{},"b":{"not":{}},"c":{ }},"type":"object"}}'
    assert definition(tool) == expected


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ('{"content":[],"structuredContent":[1.10]}', '{"content":[{"type":"text","text":"[1.10]"}]}'),
        ('{"structuredContent":"é"}', '{"content":[{"type":"text","text":"\\"é\\""}]}'),
        ('{"content":[{"a":1}],"structuredContent":7,"x":1}', '{"content":[{"a":1}],"x":1}'),
        ('{"content":[ ],"structuredContent":null}', '{"content":[]}'),
    ],
)
def test_structured_content_other_than_an_object_becomes_missing_text(given: str, fits: str) -> None:
    members = legacy_result.convert_tool_result(jsonrpc.members_of(given.encode()))
    assert json.loads(jsonrpc.dumps(members)) == json.loads(fits)


@pytest.mark.parametrize("given", [{"content": []}, {"content": [], "structuredContent": {"a": 1}}])
def test_other_results_are_unchanged(given: dict[str, Any]) -> None:
    members = jsonrpc.members_of(json.dumps(given).encode())
    assert legacy_result.convert_tool_result(members) is members


EXCHANGE = exchanges.legacy(exchanges.call("t", {}))
FORWARDABLE_RESULT_SERVER = {"name": "s", "version": "1"}
META = {names.META_SERVER: FORWARDABLE_RESULT_SERVER}


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
    return legacy_result.for_session_client(body, 0, len(body), identity)


def is_plain(body: bytes, identity: bytes = b"1") -> bool:
    return legacy_result.is_forwardable(body, 0, len(body), identity)


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
    assert legacy_result.for_session_client(data, start, end, b"1") == session
    assert legacy_result.is_forwardable(data, start, end, b"1") == plain


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
        assert legacy_result.for_session_client(data, start, end, b"1", trim) == fully_converted(body)
        assert legacy_result.is_forwardable(data, start, end, b"1", trim)


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
    assert legacy_result.for_session_client(body, 0, len(body), b"1", trim) is None
