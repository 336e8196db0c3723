"""The routes: admission checks, form of requests, and callers that disconnect."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.protocol import headers, jsonrpc, names, sse
from support.clients.stateless_requests import SECRET, body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.tool import ToolResult

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
        found, answer = await refused(served, "POST", "/mcp", data=json.dumps(CALL), headers=sent)
        assert (found, answer["error"]["code"]) == (status, -32600)
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
        found, answer = await refused(served, "POST", "/mcp", data=data, headers=sent)
        assert (found, answer["error"]["code"]) == (status, code)
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
