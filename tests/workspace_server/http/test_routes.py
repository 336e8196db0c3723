"""The routes: admission checks, form of requests, and callers that disconnect."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.protocol import headers, jsonrpc, names, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.clients.stateless_requests import META, SECRET, body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.calls.approvals import Approvals
from workspace_server.calls.gate import CallGate, RateLimiter
from workspace_server.calls.request_state import RequestStates
from workspace_server.config.model import Configuration
from workspace_server.http.routes import LEARN_EVERY, MAX_PATTERNS
from workspace_server.methods.table import Methods
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.tool import CallOutcome, RpcError, ToolError, ToolResult
from workspace_server.workspace import Workspace

CALL = body_of(names.TOOLS_CALL, {"name": "a", "arguments": {}})


async def refused(served: Serving, method: str, path: str, **request: Any) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of a request; aiohttp's automatic content type is left out."""
    options = {"skip_auto_headers": ["Content-Type"], **request}
    async with served.session.request(method, served.base + path, **options) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({headers.SECRET: None}, 401),
        ({headers.SECRET: ""}, 401),
        ({headers.SECRET: SECRET + "x"}, 401),
        ({headers.SECRET: SECRET.upper()}, 401),
        ({"Host": "localhost:{port}"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1:1"}, 403),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Referer": "http://evil.example/"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
        ({"Content-Encoding": "gzip"}, 415),
    ],
)
async def test_request_that_may_not_come_in_runs_no_tool(changed: dict[str, str | None], status: int) -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        port = served.base.rpartition(":")[2]
        sent = headers_of(CALL)
        for name, value in changed.items():
            sent.pop(name, None)
            if value is not None:
                sent[name] = value.format(port=port)
        answered_status, answer = await refused(served, "POST", "/mcp", data=json.dumps(CALL), headers=sent)
        assert (answered_status, answer["error"]["code"]) == (status, -32600)
        assert source.calls == []


@pytest.mark.parametrize(
    "path",
    [
        "/mcp/health",
        "/mcp/lifeline",
        "/mcp/inspect",
        "/mcp/refresh",
        "/mcp/restart",
        "/mcp/calls",
        "/nowhere",
    ],
)
@pytest.mark.parametrize("bad", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
async def test_every_route_has_the_same_admission_checks(path: str, bad: dict[str, str]) -> None:
    async with serving([ScriptedSource()]) as served:
        sent = {headers.SECRET: SECRET, "Content-Type": "application/json", **bad}
        for method in ("GET", "POST", "PUT", "OPTIONS", "TRACE", "PROPFIND"):
            assert (await refused(served, method, path, headers=sent))[0] == 403
        assert not served.life.stopping


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/mcp", 405, "POST"),
        ("DELETE", "/mcp", 405, "POST"),
        ("OPTIONS", "/mcp", 405, "POST"),
        ("PROPFIND", "/mcp/health", 405, "GET"),
        ("POST", "/mcp/health", 405, "GET"),
        ("POST", "/mcp/lifeline", 405, "GET"),
        ("GET", "/", 404, None),
        ("GET", "/mcp/../mcp/healthz", 404, None),
        ("POST", "/mcp/", 404, None),
    ],
)
async def test_wrong_method_names_the_right_one_and_unknown_paths_do_not_exist(
    method: str, path: str, status: int, allow: str | None
) -> None:
    async with serving([ScriptedSource()]) as served:
        sent = {headers.SECRET: SECRET, "Content-Type": "application/json"}
        async with served.session.request(method, served.base + path, headers=sent) as response:
            assert (response.status, response.headers.get("Allow")) == (status, allow)
            assert (await response.json())["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/mcp/lifeline"),
        ("GET", "/mcp/inspect"),
        ("GET", "/mcp/calls"),
        ("POST", "/mcp/refresh"),
        ("POST", "/mcp/restart"),
        ("GET", "/nowhere"),
        ("OPTIONS", "/mcp"),
        ("PUT", "/mcp"),
        ("HEAD", "/mcp/x"),
    ],
)
async def test_only_health_is_answered_without_the_secret(method: str, path: str) -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        async with served.session.request(method, served.base + path) as response:
            assert response.status == 401
        await served.caller.result(names.TOOLS_LIST)
        assert await refused(served, "GET", "/mcp/health") == (200, {"ok": True, "nonce": "nonce-1"})


@pytest.mark.parametrize("secret", [None, "", SECRET + "x", SECRET.upper()])
async def test_health_without_the_secret_only_proves_the_identity(secret: str | None) -> None:
    sent = {} if secret is None else {headers.SECRET: secret}
    async with serving([ScriptedSource([tool("a")])]) as served:
        await served.caller.result(names.TOOLS_LIST)
        answer = await refused(served, "GET", "/mcp/health", headers=sent)
        assert answer == (200, {"ok": True, "nonce": "nonce-1"})


async def test_health_with_the_secret_describes_the_server_and_its_sources() -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        await served.caller.result(names.TOOLS_LIST)
        health = await served.health()
        assert (health["ok"], health["nonce"], health["workspace"]) == (True, "nonce-1", "ws-1")
        assert (health["root"], health["version"]) == ("/somewhere", "1.2.3")
        (source,) = health["sources"]
        assert source.pop("lastRefresh") > 0
        assert source == {
            "id": "script",
            "kind": "script",
            "namespace": None,
            "file": None,
            "state": "ready",
            "tools": 1,
            "toolCount": 1,
            "enabledToolCount": 1,
            "stale": False,
            "error": None,
            "pid": None,
        }
        assert SECRET not in json.dumps(health)


async def test_health_never_waits_for_a_source() -> None:
    hung = ScriptedSource()
    hung.gate.clear()
    async with serving([hung]) as served, asyncio.timeout(1):
        assert (await refused(served, "GET", "/mcp/health"))[0] == 200


@pytest.mark.parametrize(
    ("body", "changed", "status", "code"),
    [
        (b"{", {}, 400, -32700),
        (b"[]", {}, 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', {}, 400, -32600),
        (
            json.dumps(CALL).encode().replace(b'"arguments": {}', b'"arguments": {"x": "\xe9"}'),
            {},
            400,
            -32700,
        ),
        (None, {headers.METHOD: "tools/list"}, 400, -32020),
        (None, {headers.NAME: "b"}, 400, -32020),
        (None, {headers.VERSION: "2025-11-25"}, 400, -32020),
        (None, {headers.VERSION: None}, 400, -32020),
    ],
)
async def test_broken_or_contradicting_message_runs_no_tool(
    body: bytes | None, changed: dict[str, str | None], status: int, code: int
) -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        sent = {key: value for key, value in {**headers_of(CALL), **changed}.items() if value is not None}
        data = json.dumps(CALL) if body is None else body
        answered_status, answer = await refused(served, "POST", "/mcp", data=data, headers=sent)
        assert (answered_status, answer["error"]["code"]) == (status, code)
        assert ("; send one JSON-RPC message" in answer["error"]["message"]) == (code == -32700)
        assert source.calls == []


@pytest.mark.parametrize("name", [headers.METHOD, headers.NAME, headers.VERSION, "Mcp-Param-X"])
async def test_routing_header_that_is_sent_twice_is_refused(name: str) -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        sent = headers_of(CALL)
        sent.setdefault(name, "x")
        status, answer = await raw_post(served, [*sent.items(), (name, sent[name])])
        assert (status, answer["error"]["code"], answer["id"]) == (400, -32020, 1)
        assert source.calls == []


async def test_secret_that_is_sent_twice_opens_nothing() -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        sent = [*headers_of(CALL).items(), (headers.SECRET, SECRET)]
        assert (await raw_post(served, sent))[0] == 401


async def raw_post(served: Serving, sent: list[tuple[str, str]]) -> tuple[int, dict[str, Any]]:
    """Post the call with exactly these header lines, which no client library would send."""
    address = served.base.removeprefix("http://")
    data = json.dumps(CALL).encode()
    lines = [("Host", address), ("Content-Length", str(len(data))), ("Connection", "close"), *sent]
    reader, writer = await asyncio.open_connection(*address.split(":"))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines)
    writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + data)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    top, _, body = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), json.loads(body)


@pytest.mark.parametrize("method", ["initialize", "tools/list", "notifications/initialized"])
async def test_message_of_the_session_era_is_refused_with_what_is_served(method: str) -> None:
    async with serving([ScriptedSource([tool("a")])]) as served:
        message = {"jsonrpc": "2.0", "id": 9, "method": method, "params": {}}
        if method.startswith("notifications/"):
            del message["id"]
        sent = {headers.SECRET: SECRET, "Content-Type": "application/json"}
        status, answer = await refused(served, "POST", "/mcp", data=json.dumps(message), headers=sent)
        assert (status, answer["error"]["code"], answer["id"]) == (400, -32022, message.get("id"))
        assert answer["error"]["data"]["supported"] == ["2026-07-28"]


async def test_modern_notification_is_accepted_and_a_modern_response_is_not() -> None:
    async with serving([ScriptedSource()]) as served:
        sent = {headers.SECRET: SECRET, "Content-Type": "application/json", headers.VERSION: "2026-07-28"}
        note = {"jsonrpc": "2.0", "method": "notifications/x"}
        async with served.session.post(f"{served.base}/mcp", data=json.dumps(note), headers=sent) as response:
            assert (response.status, await response.read()) == (202, b"")
        answer = {"jsonrpc": "2.0", "id": 3, "result": {}}
        status, error = await refused(served, "POST", "/mcp", data=json.dumps(answer), headers=sent)
        assert (status, error["error"]["code"], error["id"]) == (400, -32600, 3)


async def going_on(served: Serving) -> int:
    """How many calls go on without their clients, as health says."""
    return int((await served.health())["tasks"])


async def test_a_call_that_waits_for_its_client_is_let_go_by_its_state() -> None:
    """Between its rounds it has no connection that could be closed; meanwhile the server is not idle."""
    source = ScriptedSource([tool("a")])

    async def asks(arguments: Any, context: CallContext) -> ToolResult:
        await context.ask(names.ELICIT, jsonrpc.raw({"message": "?", "requestedSchema": {}}))
        raise AssertionError

    source.answers["a"] = asks
    meta: dict[str, Any] = {names.META_CAPABILITIES: {"elicitation": {}}}
    async with serving([source]) as served:
        answer = await served.caller.message(names.TOOLS_CALL, {"name": "a", "arguments": {}}, **meta)
        for state in ("", "other", answer["result"]["requestState"]):
            assert not source.cancelled.is_set()
            assert await going_on(served) == 1
            body = body_of(names.CANCELLED, {"requestState": state})
            del body["id"]
            async with served.session.post(
                f"{served.base}/mcp", data=json.dumps(body), headers=headers_of(body)
            ) as response:
                assert response.status == 202
        async with asyncio.timeout(10):
            await source.cancelled.wait()
        assert await going_on(served) == 0


async def test_body_beyond_the_cap_is_refused_and_one_below_is_served() -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        large = body_of(names.TOOLS_CALL, {"name": "a", "arguments": {"x": "y" * (15 * 1024 * 1024)}})
        async with served.session.post(
            f"{served.base}/mcp", data=io.BytesIO(json.dumps(large).encode()), headers=headers_of(large)
        ) as response:
            assert response.status == 200
        too_large = b" " * (16 * 1024 * 1024 + 1)
        status, _ = await refused(
            served, "POST", "/mcp", data=io.BytesIO(too_large), headers=headers_of(CALL)
        )
        assert status == 413
        assert len(source.calls) == 1


async def hanging(arguments: Any, context: CallContext) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError


async def test_caller_that_leaves_cancels_its_call() -> None:
    source = ScriptedSource([tool("a")])
    source.answers["a"] = hanging
    async with serving([source]) as served, aiohttp.ClientSession() as leaving:
        task = asyncio.create_task(
            leaving.post(f"{served.base}/mcp", data=json.dumps(CALL), headers=headers_of(CALL))
        )
        await asyncio.wait_for(source.started.wait(), 5)
        task.cancel()
        await asyncio.wait_for(source.cancelled.wait(), 5)


async def test_a_stopping_server_refuses_requests_and_finishes_calls_in_flight() -> None:
    source = ScriptedSource([tool("a")])
    release = asyncio.Event()

    async def slow(arguments: Any, context: CallContext) -> ToolResult:
        await release.wait()
        return ToolResult("late")

    source.answers["a"] = slow
    async with serving([source]) as served:
        running = asyncio.create_task(served.caller.call("a"))
        await asyncio.wait_for(source.started.wait(), 5)
        served.life.stop("test")
        async with served.caller.open(names.TOOLS_LIST) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"], error["data"]["delivered"]) == (503, 47102, "no")
        assert (await refused(served, "GET", "/mcp/health"))[1]["ok"] is False
        ending = asyncio.create_task(served.life.until_stopped())
        release.set()
        assert (await running)["content"][0]["text"] == "late"
        await asyncio.wait_for(ending, 5)


async def test_call_that_outlives_the_drain_time_is_cancelled_and_says_so() -> None:
    source = ScriptedSource([tool("a")])
    source.answers["a"] = hanging
    async with serving([source], drain_s=0.02) as served:
        running = asyncio.create_task(served.caller.error(names.TOOLS_CALL, {"name": "a"}))
        await asyncio.wait_for(source.started.wait(), 5)
        served.life.stop("test")
        await asyncio.wait_for(served.life.until_stopped(), 5)
        error = await asyncio.wait_for(running, 5)
        assert (error["code"], error["data"]["delivered"]) == (47103, "unknown")
        assert source.cancelled.is_set()


async def test_lifeline_speaks_at_once_and_goes_on_in_comments() -> None:
    async with serving([ScriptedSource()], keep_alive_s=0.02) as served:
        sent = {headers.SECRET: SECRET}
        async with served.session.get(f"{served.base}/mcp/lifeline", headers=sent) as response:
            async with asyncio.timeout(5):
                for _ in range(3):
                    assert await response.content.readuntil(b"\n\n") == sse.KEEP_ALIVE
                served.life.stop("test")
                await response.content.read()
            assert response.content.at_eof()


async def test_health_counts_tools_once_a_manager_holds_the_lifeline() -> None:
    """Before anybody has asked for a list."""
    async with serving([ScriptedSource([tool("a"), tool("b")])]) as served, asyncio.timeout(5):
        sent = {headers.SECRET: SECRET}
        async with served.session.get(f"{served.base}/mcp/lifeline", headers=sent):
            while (await served.health())["sources"][0]["tools"] != 2:
                await asyncio.sleep(0)


TEMPLATE = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":%s,"_meta":%s}}'
PLAIN = json.dumps(META, separators=(",", ":"))
SUM = '{"expression":"1 + 1"}'
Answer = tuple[int, str | None, bytes]


def call(identity: str = "1", arguments: str = SUM, *, name: str = "calculator", meta: str = PLAIN) -> bytes:
    return (TEMPLATE % (identity, name, arguments, meta)).encode()


async def send(served: Serving, body: bytes, *, name: str = "calculator", **more: str) -> Answer:
    sent = {**headers_of(body_of(names.TOOLS_CALL, {"name": name})), **more}
    async with served.session.post(f"{served.base}/mcp", data=body, headers=sent) as response:
        return response.status, response.headers.get("Content-Type"), await response.read()


@contextmanager
def answered_again() -> Iterator[list[bool]]:
    """Whether an answer was found, for each call that was known."""
    repeats: list[bool] = []
    own = Methods.answer_repeated

    def noted(self: Methods, *args: Any) -> Any:
        answer = own(self, *args)
        repeats.append(answer is not None)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Methods, "answer_repeated", noted)
        yield repeats


async def warm(served: Serving, body: bytes | None = None, *, name: str = "calculator", **more: str) -> None:
    """Lists, and as many calls as it takes to know the next one."""
    await served.caller.result(names.TOOLS_LIST)
    for _ in range(3):
        await send(served, body or call(name=name), name=name, **more)


@asynccontextmanager
async def calculators(folder: Path, count: int = 1, **configured: Any) -> AsyncIterator[list[Serving]]:
    """So many servers, of which the first knows the call of a sum."""
    configuration = Configuration(**configured)
    gate = CallGate(Approvals(RequestStates("w")), RateLimiter())
    sources = [BuiltinSource(Workspace.of(folder)) for _ in range(count)]
    contexts = [serving([source], configuration=configuration, gate=gate) for source in sources]
    served = [await source.__aenter__() for source in contexts]
    try:
        await warm(served[0])
        for source in served[1:]:
            await source.caller.result(names.TOOLS_LIST)
        yield served
    finally:
        for each in contexts:
            await each.__aexit__(None, None, None)


async def test_a_call_is_known_whose_head_came_before(tmp_path: Path) -> None:
    async with calculators(tmp_path) as (served,):
        with answered_again() as repeats:
            _, _, body_of_answer = await send(served, call("77", '{"expression":"2 * 3"}'))
    assert repeats == [True]
    assert body_of_answer.startswith(b'{"jsonrpc":"2.0","id":77,"result":{')
    assert json.loads(body_of_answer)["result"]["structuredContent"] == {"value": 6}


KNOWN = {
    "another id": call("2"),
    "a text as id": call('"a b"'),
    "an id of sixteen digits": call("1" * 16),
    "a negative id": call("-1"),
    "an id with a leading zero": call("01"),
    "an id with a fraction": call("1.0"),
    "no id": call("null"),
    "an id with escapes": call(r'"\u0061"'),
    "half a character as id": call(r'"\ud800"'),
    "two ids": call('1,"id":2'),
    "two methods": call('1,"method":"tools/list"'),
    "an id that closes the message": call('1,"x":{"id":2}'),
    "arguments twice": call(arguments=SUM + ',"arguments":{"expression":"3"}'),
    "an expression twice": call(arguments='{"expression":"1","expression":"2"}'),
    "escapes": call(arguments=r'{"expression":"1\t\u002b 1"}'),
    "an escaped quote": call(arguments=r'{"expression":"1\"}"}'),
    "other letters": call(arguments='{"expression":"1 × 1"}'),
    "half a character": call(arguments=r'{"expression":"\ud800"}'),
    "no expression": call(arguments="{}"),
    "too many arguments": call(arguments='{"expression":"1","more":2}'),
    "a number as expression": call(arguments='{"expression":1}'),
    "a nested argument": call(arguments='{"expression":[[{"a":1}]]}'),
    "deep arguments": call(arguments='{"expression":' + "[" * 90 + "]" * 90 + "}"),
    "too deep arguments": call(arguments='{"expression":' + "[" * 2000 + "]" * 2000 + "}"),
    "a large number": call(arguments='{"expression":1e999}'),
    "no arguments": call(arguments="null"),
    "a list as arguments": call(arguments="[]"),
    "text as arguments": call(arguments='"{}"'),
    "broken arguments": call(arguments='{"expression":"1"'),
    "arguments that close the parameters": call(arguments='{"expression":"1"}},"x":{"y":{}'),
    "a mistake": call(arguments='{"expression":"1 +"}'),
    "a division by zero": call(arguments='{"expression":"1/0"}'),
    "white space": call(arguments=' {"expression":"1"} '),
    "an exact large number": call(arguments='{"expression":"2**70"}'),
    "a long body": call(arguments=json.dumps({"expression": "1" * 20_000})),
    "an answer": call(arguments=SUM + ',"inputResponses":{}'),
    "a state": call(arguments=SUM + ',"requestState":"made up"'),
    "another tool": call(name="datetime"),
    "no such tool": call(name="nothing"),
    "another revision": call(meta=PLAIN.replace("2026", "2027")),
    "no meta": call(meta="{}"),
    "more meta": call(meta=PLAIN[:-1] + ',"x":1}'),
    "an array": b"[" + call() + b"]",
    "two messages": call() + call(),
    "nothing": b"",
}


@pytest.mark.parametrize("body", KNOWN.values(), ids=KNOWN)
async def test_bodies_with_a_known_head_get_the_answers_of_a_fresh_server(
    tmp_path: Path, body: bytes
) -> None:
    async with calculators(tmp_path, 2) as (warmed, new):
        assert await send(warmed, body) == await send(new, body)
        with answered_again() as repeats:
            assert await send(warmed, call("5")) == await send(new, call("5"))
        assert repeats == [True]


@pytest.mark.parametrize("name", ["progressToken", "claudecode/toolUseId"])
async def test_calls_that_are_marked_anew_each_time_are_known(tmp_path: Path, name: str) -> None:
    def marked(number: int) -> bytes:
        return call(str(number), meta=f'{PLAIN[:-1]},"{name}":"mark-{number}"}}')

    async with calculators(tmp_path, 2) as (warmed, new):
        await send(warmed, marked(1))
        with answered_again() as repeats:
            assert await send(warmed, marked(2)) == await send(new, marked(2))
        assert repeats == [True]


async def test_heads_that_never_come_again_leave_nothing(tmp_path: Path) -> None:
    async with calculators(tmp_path) as (served,):
        with answered_again() as repeats:
            for number in range(3):
                await send(served, call(), traceparent=f"00-{number}")
    assert repeats == []


async def test_of_calls_that_always_differ_only_a_few_are_learned(
    tmp_path: Path,
) -> None:
    async with calculators(tmp_path) as (served,):
        with pytest.MonkeyPatch.context() as patch:
            learned: list[bytes] = []
            patch.setattr("workspace_server.http.routes.derive_pattern", learned.append)
            for number in range(LEARN_EVERY):
                await send(served, call(meta=f'{PLAIN[:-1]},"new":{number}}}'))
        assert len(learned) == MAX_PATTERNS  # one of them is that of the sum, one comes in its time
        with answered_again() as repeats:
            await send(served, call())
    assert repeats == [True]


# -- what may change between two calls ----------------------------------------------------------------------


async def test_a_server_that_stops_refuses_calls_it_knows(tmp_path: Path) -> None:
    async with calculators(tmp_path, 2) as both:
        for server in both:
            server.life.stop("it is time")
        with answered_again() as repeats:
            first, second = [await send(server, call("3")) for server in both]
    assert first == second
    assert first[0] == 503
    assert repeats == []


def scripted(outcome: CallOutcome | Exception, **members: Any) -> ScriptedSource:
    """A source with one tool that is answered at once."""
    source = ScriptedSource([tool("a", **members)])

    def call_nowait(name: str, arguments: Any) -> CallOutcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    source.cached_tools = lambda: source.tools  # it answers from memory
    source.nowait_tools = frozenset({"a", "b"})
    source.call_nowait = call_nowait
    return source


async def test_a_tool_that_is_no_longer_there_is_not_called() -> None:
    source = scripted(ToolResult("there"))
    async with serving([source]) as served:
        body = call(name="a", arguments="{}")
        await warm(served, body, name="a")
        source.tools = (tool("b"),)
        with answered_again() as repeats:
            _, _, body_of_answer = await send(served, body, name="a")
            assert json.loads(body_of_answer)["error"]["code"] == -32602
            source.tools = (tool("a"), tool("b"))
            for _ in range(3):
                assert b'"isError":false' in (await send(served, body, name="a"))[2]
        assert repeats == [False, False, False, True]


async def test_another_schema_counts_from_the_next_call_on() -> None:
    source = scripted(ToolResult("fits"))
    async with serving([source]) as served:
        body = call(name="a", arguments="{}")
        await warm(served, body, name="a")
        source.tools = (tool("a", {"type": "object", "required": ["x"]}),)
        _, _, body_of_answer = await send(served, body, name="a")
        assert json.loads(body_of_answer)["result"]["isError"] is True


OUTCOMES: dict[str, CallOutcome | Exception] = {
    "a result": ToolResult("x", structured={"n": 1}),
    "nothing": ToolResult(""),
    "a failure": ToolResult("x", is_error=True, structured={"n": "1"}),
    "what breaks the promise": ToolResult("x", structured={"n": "1"}),
    "a refusal": Refusal(Reason.OVERLOADED, "no", delivered="no"),
    "an error of the protocol": RpcError(-7, "no"),
    "an error": ToolError("no", {"why": 1}),
    "a fault": KeyError("x"),
    "meta of its own": ToolResult("x", structured={"n": 1}, meta={"a": 1}),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_whatever_a_tool_gives_is_answered_as_ever(outcome: CallOutcome | Exception) -> None:
    promise = {"type": "object", "properties": {"n": {"type": "number"}}}
    body = call(name="a", arguments="{}")
    async with (
        serving([scripted(outcome, outputSchema=promise)]) as warmed,
        serving([scripted(outcome, outputSchema=promise)]) as new,
    ):
        await warm(warmed, body, name="a")
        await new.caller.result(names.TOOLS_LIST)
        with answered_again() as repeats:
            assert await send(warmed, body, name="a") == await send(new, body, name="a")
    assert repeats == [True]


async def test_mirrored_headers_are_compared_with_every_repeated_call() -> None:
    """Such calls are read."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "x-mcp-header": "X"}}}
    source = scripted(ToolResult("said"))
    source.tools = (tool("a", schema),)
    async with serving([source]) as served:
        more = {"Mcp-Param-X": "one"}
        await warm(served, call(name="a", arguments='{"x":"one"}'), name="a", **more)
        with answered_again() as repeats:
            status, _, _ = await send(served, call(name="a", arguments='{"x":"two"}'), name="a", **more)
    assert (status, repeats) == (400, [])


async def test_defaults_of_the_user_are_filled_in(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    source = scripted(ToolResult(""))
    source.tools = (tool("a", schema),)
    source.call_nowait = lambda name, arguments: ToolResult(str(arguments))
    configuration = Configuration(schema_defaults=(("a", "x", "mine"),))
    async with serving([source], configuration=configuration) as served:
        body = call(name="a", arguments="{}")
        await warm(served, body, name="a")
        with answered_again() as repeats:
            assert b"mine" in (await send(served, body, name="a"))[2]
    assert repeats == [True]


async def test_calls_that_leave_a_trace_are_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with calculators(tmp_path, debug="simple") as (served,):
        with answered_again() as repeats:
            await send(served, call("9"))
    assert repeats == []
    assert capfd.readouterr().err.count('"tool_call"') == 4


async def test_what_has_to_be_asked_about_is_never_known(tmp_path: Path) -> None:
    """Neither is what is denied."""
    for decision in ("ask", "deny"):
        async with calculators(tmp_path, approvals={"calculator": decision}) as (served,):
            with answered_again() as repeats:
                await send(served, call("9"))
        assert repeats == []


async def test_a_head_that_names_another_tool_is_another_head(tmp_path: Path) -> None:
    async with calculators(tmp_path) as (served,):
        status, _, body_of_answer = await send(served, call(), name="datetime")
    assert status == 400
    assert headers.NAME.encode() in body_of_answer
