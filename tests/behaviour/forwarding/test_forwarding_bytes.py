"""Bytes that the manager forwards unchanged, and the few that it writes itself."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import EVENTS, JSON, Answer
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import Received, error, event, fixed, result, stream

META = (
    b'"io.modelcontextprotocol/protocolVersion": "2026-07-28",'
    b' "io.modelcontextprotocol/clientCapabilities":{"x.y/z": {"deep": [1, {"q":null}]}}'
)
ARGUMENTS = (
    b'{ "zeta": 1, "alpha": [1.10, 1e400, -0.0, 123456789012345678901234567890],\n'
    b'\t"emoji": "\xf0\x9f\x9a\x80", "escaped": "\\u00e9\\ud83d\\ude00\\/",  "": {"": [ ]},'
    b' "alpha2" : 1.0E+2 }'
)
RESULT = (
    b'{ "resultType":"complete" , '
    b'"content":[ {"type":"text","text":"caf\\u00e9 \xe2\x98\x95","x-new":[1.10]} ],'
    b'"structuredContent":{"n":123456789012345678901234567890,"f":1e400},\r\n "later": {"unknown": true},'
    b'"_meta":{"a.b/c": 1.0} }'
)
LEGACY_RESULT = RESULT.replace(b' "resultType":"complete" ,', b"")
TEMPLATE = b'{"z":0, "jsonrpc" : "2.0","id":%s,\n "method":"tools/call","params":%s, "unknown":{"k":[1.50]} }'


def call_params(meta: bytes = META) -> bytes:
    return b'{ "x-new": {"a":1.10}, "name":"echo", "_meta":{%s}, "arguments":%s }' % (meta, ARGUMENTS)


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


def only_call(setup: RegisteredSetup) -> Received:
    (received,) = setup.upstream.called()
    return received


@pytest.mark.parametrize("identity", [b"7", b'"seven \\u00e9"', b"123456789012345678901234567890"])
async def test_a_stateless_call_and_its_response_are_forwarded_unchanged(
    setup: RegisteredSetup, identity: bytes
) -> None:
    body = TEMPLATE % (identity, call_params())
    answered = b'{ "result" : %s ,"id":%s, "extra":1.10, "jsonrpc":"2.0"}\n' % (RESULT, identity)
    setup.upstream.answers["echo"] = fixed(answered)
    answer = await setup.modern().post(body)
    assert only_call(setup).body == body
    assert (answer.status, answer.body) == (200, answered)


async def test_non_object_output_costs_a_session_neither_list_nor_result(
    setup: RegisteredSetup,
) -> None:
    """Session clients validate results as objects; MCP 2026-07-28 allows any JSON value. One tool must not fail all."""
    plain, listing = b'{ "name":"plain","inputSchema":{"type":"object"} }', b'{"type":"array"}'
    odd = b'{"name":"odd" , "x":1.10,"outputSchema":%s,"inputSchema":{"type":"object"}}' % listing
    setup.upstream.tools = [plain, odd]
    setup.upstream.answers["odd"] = result(
        b'{"resultType":"complete","content":[],"structuredContent":[1.10]}'
    )
    client = await setup.legacy()
    for url in (setup.manager.address, setup.pure_url):
        body = (await client.ask(names.TOOLS_LIST, url=url)).body
        assert plain in body
        assert b'{"name":"odd","x":1.10,"inputSchema":{"type":"object"}}' in body
        assert b"outputSchema" not in body.partition(plain)[2]
    assert (await client.call("odd")).result == {"content": [{"type": "text", "text": "[1.10]"}]}
    assert odd in (await setup.modern().ask(names.TOOLS_LIST)).body


async def test_a_session_call_is_unchanged_but_for_the_spliced_meta(setup: RegisteredSetup) -> None:
    """Unknown members, numbers, order and white space stay, but for `_meta` and the type of the result."""
    client = await setup.legacy()
    params = b'{ "name":"echo" , "x-new": {"a":1.10}, "arguments":%s }' % ARGUMENTS
    body = TEMPLATE % (b'"s-1"', params)
    answered = b'{ "result" : %s ,"id":"s-1", "extra":1.10, "jsonrpc":"2.0"}\n'
    setup.upstream.answers["echo"] = fixed(answered % RESULT)
    answer = await client.post(body)
    sent = only_call(setup).body
    start, end = sent.index(b'"_meta":'), sent.index(b'"name":"echo"')
    assert sent[:start].rstrip(b" ,") + b" " + sent[end:] == body
    assert only_call(setup).params["_meta"] == {
        names.META_VERSION: "2026-07-28",
        names.META_CAPABILITIES: {},
        names.META_CLIENT: {"name": "test", "version": "1"},
        names.META_LOG_LEVEL: "info",
    }
    assert (answer.status, answer.body) == (200, answered % LEGACY_RESULT)


async def test_a_session_call_with_meta_keeps_the_bytes_of_every_member(
    setup: RegisteredSetup,
) -> None:
    """Only keys of the revision are added."""
    client = await setup.legacy()
    meta = b'{"a.b/c": [1.10, 1e400], "progressToken":12345678901234567890123}'
    params = b'{ "x-new": {"a":1.10} ,"_meta":%s, "name":"echo","arguments":%s}' % (meta, ARGUMENTS)
    await client.post(TEMPLATE % (b"5", params))
    sent = only_call(setup).body
    for kept in (
        ARGUMENTS,
        b'{"a":1.10}',
        b"[1.10, 1e400]",
        b"12345678901234567890123",
        b'"unknown":{"k":[1.50]}',
    ):
        assert kept in sent
    assert only_call(setup).params["_meta"].keys() == {
        "a.b/c",
        "progressToken",
        names.META_VERSION,
        names.META_CAPABILITIES,
        names.META_CLIENT,
        names.META_LOG_LEVEL,
    }


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_wrapped_call_keeps_the_bytes_of_its_arguments(setup: RegisteredSetup, era: str) -> None:
    """The name is trimmed, the arguments and unknown members are the client's bytes."""
    client = await setup.legacy() if era == "legacy" else setup.modern()
    meta = META if era == "modern" else b'"a.b/c":1.10'
    params = (
        b'{"name":"lmToolsBridge.callTool","x-new":1.10,"_meta":{%s},'
        b'"arguments":{"arguments":%s,"name":" echo "}}' % (meta, ARGUMENTS)
    )
    setup.upstream.answers["echo"] = result(RESULT)
    answer = await client.post(TEMPLATE % (b"5", params))
    sent = only_call(setup)
    assert ARGUMENTS in sent.body
    assert sent.params["name"] == "echo"
    assert b'"x-new":1.10' in sent.body
    assert sent.header(headers.NAME) == "echo"
    assert (RESULT if era == "modern" else LEGACY_RESULT) in answer.body


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "wrapped"])
async def test_meta_reaches_the_tool_as_the_client_wrote_it(
    setup: RegisteredSetup, era: str, wrapped: bool
) -> None:
    """Progress token, trace fields and unknown keys."""
    client = await setup.legacy() if era == "legacy" else setup.modern()
    meta = {
        "progressToken": "tok \U0001f680",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "baggage": "k=v",
        "com.example/unknown": {"deep": [1, None]},
    }
    name, arguments = (names.CALL_TOOL, {"name": "echo", "arguments": {}}) if wrapped else ("echo", {})
    await client.call(name, arguments, meta=meta)
    received = only_call(setup).params["_meta"]
    assert {key: received[key] for key in meta} == meta


async def test_wrapped_and_direct_calls_give_the_same_bytes(setup: RegisteredSetup) -> None:
    client = await setup.legacy()
    setup.upstream.answers["echo"] = result(RESULT)
    direct = await client.call("echo", identity=9)
    wrapped = await client.call(names.CALL_TOOL, {"name": "echo"}, identity=9)
    pure = await setup.modern().call("echo", identity=9)
    assert direct.body == wrapped.body == pure.body.replace(RESULT, LEGACY_RESULT)


@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "wrapped"])
@pytest.mark.parametrize(
    ("status", "era", "expected"),
    [(404, "modern", 404), (400, "modern", 400), (404, "legacy", 200), (400, "legacy", 200)],
)
async def test_an_upstream_error_keeps_code_message_and_data(
    setup: RegisteredSetup, wrapped: bool, status: int, era: str, expected: int
) -> None:
    """The status, too, unless the client would take it as the loss of its session."""
    client = await setup.legacy() if era == "legacy" else setup.modern()
    data = {"why": ["x", 1.5], "nested": {"k": None}}
    setup.upstream.answers["echo"] = error(-32077, "no, not today", data, status)
    name, arguments = (names.CALL_TOOL, {"name": "echo"}) if wrapped else ("echo", {})
    answer = await client.call(name, arguments)
    assert answer.error == {"code": -32077, "message": "no, not today", "data": data}
    assert answer.status == expected


async def test_a_session_survives_an_upstream_404(setup: RegisteredSetup) -> None:
    """The client must not be told that its session is gone."""
    client = await setup.legacy()
    setup.upstream.answers["echo"] = error(-32601, "gone", status=404)
    await client.call("echo")
    assert (await client.call("other")).result["content"]


@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "completion/complete", "vendor/own"])
async def test_other_methods_are_unchanged_at_a_workspaces_url(setup: RegisteredSetup, method: str) -> None:
    """Unknown methods pass through."""
    client = setup.modern()
    member = names.NAMED_PARAM.get(method)
    setup.upstream.answers[method] = result(RESULT)
    params: dict[str, Any] = {} if member is None else {member: "thing://x"}
    answer = await client.ask(method, {**params, "n": 1.5}, identity=3)
    (received,) = setup.upstream.received
    assert received.body == client.body(method, {**params, "n": 1.5}, 3)
    assert answer.body == b'{"jsonrpc":"2.0","id":3,"result":%s}' % RESULT


async def test_parameter_headers_are_forwarded_and_credentials_are_not(setup: RegisteredSetup) -> None:
    client = setup.modern()
    client.extra = {
        "Mcp-Param-Region": "eu",
        "Authorization": "Bearer t",
        "Cookie": "a=b",
        "Mcp-Session-Id": "not-yours",
        headers.SECRET: "guessed",
        headers.CALLER: "somebody else",
        "X-Other": "1",
    }
    await client.call("echo")
    received = only_call(setup)
    assert received.header("Mcp-Param-Region") == "eu"
    assert received.header(headers.SECRET) == setup.upstream.secret
    for name in ("Authorization", "Cookie", "Mcp-Session-Id", headers.CALLER, "X-Other"):
        assert received.header(name) is None


async def test_the_caller_header_comes_from_the_session_alone(setup: RegisteredSetup) -> None:
    """It is equal for calls of one session only, and does not reveal the session id."""
    callers = []
    clients = [await setup.legacy(), await setup.legacy()]
    for client in (clients[0], clients[0], clients[1]):
        client.extra = {headers.CALLER: f"forged {len(callers)}"}
        await client.call("echo")
        sent = setup.upstream.called()[-1].headers
        own = headers.CALLER.lower().encode()
        callers.append([value.decode() for name, value in sent if name.lower() == own])
    first, again, other = callers
    assert first == again != other
    assert len(first) == 1
    assert not any(client.session in value for client in clients for value in (*first, *other))


async def test_a_non_ascii_name_is_encoded_in_the_header(setup: RegisteredSetup) -> None:
    """The `Mcp-Name` header of MCP 2026-07-28, built from a session client's body."""
    client = await setup.legacy()
    await client.call("prüfe ☕")
    packed = base64.b64encode("prüfe ☕".encode()).decode()
    assert only_call(setup).header(headers.NAME) == f"=?base64?{packed}?="


@pytest.mark.parametrize(
    ("accept", "streamed"), [(JSON, False), (EVENTS, False), (None, True), (EVENTS, True)]
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_result_of_20_mb_passes(
    setup: RegisteredSetup, era: str, accept: str | None, streamed: bool
) -> None:
    """Body limits are about requests."""
    big = b'"content":[{"type":"text","text":"' + b"x" * 20_000_000 + b'"}]}'
    whole = b'{"resultType":"complete",' + big
    response = event(b'{"jsonrpc":"2.0","id":%(id)s,"result":' + whole + b"}")
    setup.upstream.answers["echo"] = stream(response) if streamed else result(whole)
    client = await setup.legacy(accept=accept) if era == "legacy" else setup.modern(accept=accept)
    answer: Answer = await client.call("echo")
    assert answer.is_stream == (accept == EVENTS)
    assert big in answer.body
    assert json.dumps(answer.message["id"]).encode() == only_call(setup).id
