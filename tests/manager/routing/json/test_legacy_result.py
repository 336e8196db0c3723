"""Tests of responses converted for session clients: removed members, error codes, and unchanged bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc, names
from manager.routing.json import legacy_result

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
