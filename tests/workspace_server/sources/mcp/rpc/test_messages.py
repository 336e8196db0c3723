"""Reading and writing single messages, and what is replaced between client and server."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.names import Era
from workspace_server.call_context import CallContext, Client
from workspace_server.sources.mcp.invalid_output import InvalidOutput
from workspace_server.sources.mcp.rpc import messages
from workspace_server.sources.mcp.rpc.messages import InvalidResponse, Notification, Request, Response
from workspace_server.tool import RpcError

META = "io.modelcontextprotocol/"


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def test_a_result_keeps_its_bytes() -> None:
    reply = messages.read(b'{"id": 7, "result": { "b":1.0, "a":\t2 }, "jsonrpc":"2.0", "x":null}')
    assert isinstance(reply, Response)
    assert reply.id == b"7"
    assert isinstance(reply.outcome, msgspec.Raw)
    assert jsonrpc.bytes_of(reply.outcome) == b'{ "b":1.0, "a":\t2 }'


def test_a_null_error_beside_a_result_is_ignored() -> None:
    reply = messages.read(b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}')
    assert isinstance(reply, Response)
    assert isinstance(reply.outcome, msgspec.Raw)


def test_an_error_wins_over_a_result() -> None:
    reply = messages.read(b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":5,"message":"no"}}')
    assert isinstance(reply, Response)
    assert reply.outcome == RpcError(5, "no")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","method":"a","params":{"b":1}}', Notification("a", msgspec.Raw(b'{"b":1}'))),
        (b'{"jsonrpc":"2.0","method":"a","id":"x"}', Request(b'"x"', "a", msgspec.Raw())),
        (b'{"jsonrpc":"2.0","method":"a","id":null}', None),
        (b'{"jsonrpc":"2.0","method":"a","id":[1]}', None),
        (b'{"jsonrpc":"2.0","id":4}', None),
        (b'{"jsonrpc":"2.0","id":4,"error":null}', InvalidResponse((b"4",))),
        (b'{"jsonrpc":"2.0","id":4,"result":NaN}', InvalidResponse((b"4",))),
        (b'{"jsonrpc":"2.0","id":4,"result":"\xff"}', InvalidResponse((b"4",))),
        (b'{"jsonrpc":"2.0","id":4,"result":NaN', InvalidResponse((b"4",))),
        (b'{"jsonrpc":"2.0","id":4,"result":{"a":"\x01"}}', InvalidResponse((b"4",))),
        (b'{"jsonrpc":"2.0","id":4,"result":{}} and more', InvalidResponse((b"4",))),
        (
            b'{"jsonrpc":"2.0","id":4,"result":{}}{"jsonrpc":"2.0","id":5,"result":{}}',
            InvalidResponse((b"4",)),
        ),
        (b'{"jsonrpc": "2.0", "id": 4, "id": 5, "result": {}}', InvalidResponse((b"4", b"5"))),
        (b'{"jsonrpc":"2.0","id":4,"\\u0069d":5,"result":{}}', InvalidResponse((b"4",))),
        (
            b'{"jsonrpc":"2.0","id":4,"result":' + b"[" * 99_999 + b"]" * 99_999 + b"}",
            InvalidResponse((b"4",)),
        ),
        (
            b'{"result":' + b"[" * 99_999 + b"]" * 99_999 + b',"jsonrpc":"2.0","id":4}',
            InvalidResponse((b"4",)),
        ),
        (b'{"jsonrpc":"2.0","id":4,"result":{"id":7,"a":NaN}}', InvalidResponse((b"4",))),
        (b'{"jsonrpc":"2.0","result":{"id":7,"a":NaN}}', None),
        (b'{"jsonrpc":"2.0","result":"\\",\\"id\\":7,\x01","id":4}', InvalidResponse((b"4",))),
        (b'got {"jsonrpc":"2.0","id":4,"result":{}}', None),
        (b'{"jsonrpc":"2.0","id":"4","result":{}}', Response(b"4", msgspec.Raw(b"{}"))),
        (b'{"jsonrpc":"2.0","id":4.0,"result":{}}', Response(b"4", msgspec.Raw(b"{}"))),
        (b'{"jsonrpc":"2.0","id":"x4","result":{}}', Response(b'"x4"', msgspec.Raw(b"{}"))),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":4,"result":{}}', Response(b"4", msgspec.Raw(b"{}"))),
        (b'{"jsonrpc":"2.0","id":true,"result":NaN}', None),
        (b'{"jsonrpc":"2.0","id":4,"method":"x","result":NaN}', None),
    ],
)
def test_messages_are_told_apart(line: bytes, expected: object) -> None:
    assert messages.read(line) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b"{}", b'{"resultType":"complete"}'),
        (b"{ }", b'{"resultType":"complete"}'),
        (b'{ "a" : 1 }', b'{"resultType":"complete","a" : 1 }'),
        (b'{"a":"\\"resultType\\""}', b'{"resultType":"complete","a":"\\"resultType\\""}'),
        (b'{"a":{"resultType":"x"}}', b'{"resultType":"complete","a":{"resultType":"x"}}'),
        (b'{"resultType":"input_required","requestState":"\\u0041"}',) * 2,
        (b"[]", None),
        (b"null", None),
    ],
)
def test_a_result_gets_its_type_and_nothing_else_changes(result: bytes, expected: bytes | None) -> None:
    completed = messages.to_modern_result(msgspec.Raw(result), "tasks/get")
    assert (None if completed is None else jsonrpc.bytes_of(completed)) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (b'{"contents":[]}', b'{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}'),
        (b'{"ttlMs":5}', b'{"resultType":"complete","cacheScope":"private","ttlMs":5}'),
        (b'{"a":"ttlMs"}', b'{"resultType":"complete","ttlMs":0,"cacheScope":"private","a":"ttlMs"}'),
        (b'{"resultType":"input_required","requestState":"s"}',) * 2,
        (
            b'{"ttlMs":-1,"a":1.0,"cacheScope":"shared","resultType":null}',
            b'{"ttlMs":0,"a":1.0,"cacheScope":"private","resultType":"complete"}',
        ),
    ],
)
def test_a_cacheable_result_gets_a_lifetime_of_zero(result: bytes, expected: bytes) -> None:
    completed = messages.to_modern_result(msgspec.Raw(result), "skills/get")
    assert completed is not None
    assert jsonrpc.bytes_of(completed) == expected


def test_a_missing_resource_gets_the_modern_error_code() -> None:
    missing = RpcError(-32002, "Resource not found", raw({"uri": "x:y"}))
    translated = messages.to_modern_error(missing, "resources/read", Era.LEGACY)
    assert (translated.code, translated.message, translated.data) == (-32602, missing.message, missing.data)
    assert messages.to_modern_error(missing, "tools/call", Era.LEGACY) is missing, "a tool's own number"


def sent(meta: object, era: Era) -> Any:
    """The parameters of a call as the server receives them."""
    params = {
        "name": raw("ns__tool"),
        "arguments": raw({}),
        "requestState": raw("s"),
        "inputResponses": raw({"k": 1}),
    }
    context = CallContext(arguments=msgspec.Raw(b'{ "a":1.0 }'), params={**params, "_meta": raw(meta)})
    own = messages.hop_meta(era, "2026-07-28", "9", {"elicitation": {}})
    params = {**params, "name": "tool", "arguments": context.arguments}
    made = messages.forwarded_params(params, Client(context), own, 3, era)
    body = messages.request(3, "tools/call", made)
    assert b'{ "a":1.0 }' in body
    return json.loads(body)["params"]


BEFORE = {
    "traceparent": "00-1",
    "acme/x": {"deep": [1]},
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientInfo": {"name": "them"},
    f"{META}logLevel": "debug",
    "progressToken": "theirs",
}


def test_hop_metadata_is_replaced_for_a_modern_server() -> None:
    """The log level that the client requested is passed on."""
    meta = sent(BEFORE, Era.MODERN)["_meta"]
    assert meta == {
        f"{META}logLevel": "debug",
        "traceparent": "00-1",
        "acme/x": {"deep": [1]},
        "progressToken": 3,
        f"{META}protocolVersion": "2026-07-28",
        f"{META}clientInfo": {"name": "lm-tools-bridge", "version": "9"},
        f"{META}clientCapabilities": {"elicitation": {}},
    }


def test_hop_metadata_is_removed_for_a_legacy_server() -> None:
    """These keys have no meaning in the legacy era."""
    assert sent(BEFORE, Era.LEGACY)["_meta"] == {
        "traceparent": "00-1",
        "acme/x": {"deep": [1]},
        "progressToken": 3,
    }
    assert "_meta" not in sent({f"{META}protocolVersion": "2026-07-28"}, Era.LEGACY)


def test_input_responses_are_passed_to_modern_servers_only() -> None:
    params = sent({}, Era.MODERN)
    assert (params["name"], params["requestState"], params["inputResponses"]) == ("tool", "s", {"k": 1})
    assert set(sent({}, Era.LEGACY)) == {"name", "arguments"}


def test_junk_is_kept_short_and_clean() -> None:
    junk = InvalidOutput()
    for n in range(7):
        junk.add(b"\x1b[31mred\x00 %d " % n + b"x" * 10_000 + b"\xff", 0.0)
    assert junk.count == 7
    assert [text[:5] for text in junk.first] == [f"red {n}" for n in range(5)]
    assert max(map(len, junk.first)) <= 200


@pytest.mark.parametrize(("apart_s", "flooded"), [(0.05, True), (0.07, False)])
def test_a_flood_is_more_than_a_thousand_lines_in_a_minute(apart_s: float, flooded: bool) -> None:
    junk = InvalidOutput()
    flood_reported = [junk.add(b"x", n * apart_s) for n in range(1_500)]
    assert junk.flooded is flooded
    assert sum(flood_reported) == flooded
