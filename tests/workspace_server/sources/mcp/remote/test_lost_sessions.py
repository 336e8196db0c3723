"""Servers that were restarted refuse the session in their own way; what refuses everything is said to be down."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

import pytest
from aiohttp import web

from lm_tools_bridge.protocol.errors import Refusal
from support.processes.timeouts import within
from support.servers.mcp_sources.remote_server import (
    Answerer,
    Received,
    ScriptedRemoteServer,
    body,
    events,
    fake_remote,
    status,
)
from support.servers.mcp_sources.remote_source import MakeSource, call
from workspace_server.sources.mcp.remote.source import RemoteSource
from workspace_server.tool import RpcError


def said(code: int, message: str, http: int = 400, identity: Any = None) -> Answerer:
    """Answers with a JSON-RPC error that names no request of ours."""

    async def answer(got: Received) -> web.StreamResponse:
        return got.error(code, message, http, identity)

    return answer


def text(code: int, words: str) -> Answerer:
    async def answer(_got: Received) -> web.StreamResponse:
        return web.Response(status=code, text=words)

    return answer


REFUSALS: dict[str, Answerer] = {
    "the TypeScript SDK, not initialized": said(-32000, "Bad Request: Server not initialized"),
    "the Python SDK": said(-32600, "Bad Request: No valid session ID provided", 400, "server-error"),
    "text": text(400, "No active session"),
    "empty": status(400),
    "404": status(404),
    "409": text(409, "conflict"),
    "410": status(410),
    "422": text(422, '{"detail": "header"}'),
    "500 about the session": text(500, "Error: invalid session id"),
    "401 about the session": text(401, "Unauthorized: Session not found"),
    "200 without an id": said(-32001, "who are you?", 200),
    "error without a member id": body(b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}'),
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_call_is_made_again_in_a_new_session_whatever_the_words(
    fake: ScriptedRemoteServer, make_source: MakeSource, answer: Answerer
) -> None:
    async def in_second(got: Received) -> Any:
        is_known = got.request.headers.get("Mcp-Session-Id") == "session-2"
        return await (fake.default if is_known else answer)(got)

    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [in_second]
    fake.answers["tools/list"] = [in_second]
    assert (await call(source))["content"]
    assert (fake.sessions, fake.count("tools/call"), source.state) == (2, 2, "ready")


UNNAMED = b'data: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"who?"}}\n\n'
STREAMED = {
    "first event": (UNNAMED,),
    "after a comment and an empty event": (b": hello\n\nid: 1\ndata:\n\n", UNNAMED),
    "in pieces": (UNNAMED[:9], UNNAMED[9:70], UNNAMED[70:-1], UNNAMED[-1:]),
    "carriage returns": (UNNAMED.replace(b"\n", b"\r\n"),),
    "named event": (b"event: message\n" + UNNAMED,),
}


@pytest.mark.parametrize("pieces", STREAMED.values(), ids=STREAMED.keys())
async def test_a_refusal_on_a_stream_opens_a_new_session_too(
    fake: ScriptedRemoteServer, make_source: MakeSource, pieces: tuple[bytes, ...]
) -> None:
    async def in_second(got: Received) -> Any:
        is_known = got.request.headers.get("Mcp-Session-Id") == "session-2"
        return await (fake.default if is_known else events(*pieces))(got)

    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [in_second]
    assert (await call(source))["content"]
    assert (fake.sessions, fake.count("tools/call")) == (2, 2)


async def test_an_error_on_a_stream_that_has_begun_is_the_answer(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """The call runs: it must not be made again."""
    log = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [events(log, UNNAMED)]
    assert await call(source) == RpcError(-32600, "who?")
    assert (fake.sessions, fake.count("tools/call")) == (1, 1)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_id_that_comes_back_as_text_is_taken(
    fake: ScriptedRemoteServer, make_source: MakeSource, is_streamed: bool
) -> None:
    async def answer(got: Received) -> Any:
        result = json.dumps(
            {"jsonrpc": "2.0", "id": str(got.message["id"]), "result": {"content": []}}
        ).encode()
        return await (events(b"data: " + result + b"\n\n") if is_streamed else body(result))(got)

    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [answer]
    assert (await call(source))["content"] == []


@pytest.mark.parametrize(
    "answer", [status(403), status(413), status(408), text(500, "broken"), said(-32603, "broken", 500)]
)
async def test_a_call_that_was_refused_for_itself_or_may_have_run_is_not_made_again(
    fake: ScriptedRemoteServer, make_source: MakeSource, answer: Answerer
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [answer]
    assert isinstance(await call(source), Refusal | RpcError)
    assert (fake.sessions, fake.count("tools/call")) == (1, 1)


async def reaches(source: RemoteSource, state: str) -> None:
    changed = asyncio.Event()
    source.watch(changed.set)
    async with asyncio.timeout(within(5)):
        while source.state != state:
            changed.clear()
            await changed.wait()


async def test_a_server_that_refuses_every_new_session_is_down_until_it_answers(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """It lets itself be initialized each time, which proves nothing."""
    source = make_source(fake.url)
    await source.list_tools()
    refuse = said(-32000, "Bad Request: Server not initialized")
    fake.answers |= {"tools/call": [refuse], "tools/list": [refuse]}
    refusal = await call(source)
    assert isinstance(refusal, Refusal) and refusal.delivered == "no"
    assert source.state == "backoff"
    assert source.error is not None and "Server not initialized" in source.error
    assert fake.count("tools/call") == 1
    fake.answers.clear()
    await reaches(source, "ready")
    assert (await call(source))["content"]
    assert source.error is None


async def test_a_call_that_is_refused_in_a_working_session_gets_the_servers_words(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """Others are served meanwhile, however often that call is repeated."""
    source = make_source(fake.url)
    await source.list_tools()
    refuse = said(-32602, "the argument is no good")
    fake.answers["tools/call"] = [refuse, refuse, fake.default]
    assert await call(source) == RpcError(-32602, "the argument is no good")
    assert source.state == "ready"
    assert (await call(source))["content"]
    fake.answers["tools/call"] = [refuse]
    for _ in range(12):
        assert isinstance(await call(source), RpcError)
        assert source.state == "ready"


async def test_a_list_that_a_server_refuses_does_not_cost_its_session(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    async def initialize(got: Received) -> Any:
        fake.sessions += 1
        capabilities = {"tools": {}, "prompts": {}, "resources": {}}
        value = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}}
        return got.result(value, **{"Mcp-Session-Id": f"session-{fake.sessions}"})

    fake.answers |= {
        "initialize": [initialize],
        "prompts/list": [status(405)],
        "resources/list": [status(400)],
    }
    source = make_source(fake.url)
    assert [tool.name for tool in await source.list_tools()] == ["echo"]
    await source.lists.wait_for_others()
    assert (await call(source))["content"]
    assert (fake.sessions, source.state) == (1, "ready")


class OlderServer:
    """A server of HTTP with SSE: a stream, and an address for messages that names it."""

    def __init__(self, refusal: int) -> None:
        self.refusal = refusal
        self.streams: dict[str, web.StreamResponse] = {}
        self.forgotten: set[str] = set()
        self.calls = 0
        self.answers: defaultdict[str, list[Answerer]] = defaultdict(list)

    async def stream(self, got: Received) -> web.StreamResponse:
        """`GET`: the stream begins with the address for messages."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(got.request)
        name = f"s{len(self.streams)}"
        self.streams[name] = response
        await response.write(b"event: endpoint\ndata: /messages/?session_id=" + name.encode() + b"\n\n")
        await asyncio.Event().wait()
        return response

    async def message(self, got: Received) -> web.StreamResponse:
        """`POST`: the answer comes on the stream."""
        name = got.request.query.get("session_id")
        if name is None:
            return web.Response(status=405)
        self.calls += got.method == "tools/call"
        if name in self.forgotten:
            return web.Response(status=self.refusal, text="Could not find session")
        values: dict[str, Any] = {
            "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": name}]},
        }
        if got.method in values:
            answer = {"jsonrpc": "2.0", "id": got.message["id"], "result": values[got.method]}
            await self.streams[name].write(b"data: " + json.dumps(answer).encode() + b"\n\n")
        return web.Response(status=202)


@pytest.mark.parametrize("refusal", [400, 404, 410, 500])
async def test_the_older_transport_opens_a_new_stream(
    fake: ScriptedRemoteServer, make_source: MakeSource, refusal: int
) -> None:
    older = OlderServer(refusal)
    fake.answers["GET"] = [older.stream]
    for method in ("initialize", "notifications/initialized", "tools/list", "tools/call"):
        fake.answers[method] = [older.message]
    source = make_source(fake.url, transport="sse")
    await source.list_tools()
    assert (await call(source))["content"][0]["text"] == "s0"
    older.forgotten.add("s0")
    assert (await call(source))["content"][0]["text"] == "s1"
    assert older.calls == 3


@pytest.mark.parametrize("era", ["a session", "no session"])
async def test_a_stateless_server_that_is_replaced_is_spoken_to_anew(
    make_source: MakeSource, era: str
) -> None:
    """A server of the newest revision ends; an older one answers at its address, in words of its own."""
    async with fake_remote() as fake:

        async def discovered(got: Received) -> Any:
            meta = {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "1"}}
            value = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": meta}
            return got.result(value | {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"})

        fake.answers["server/discover"] = [discovered]
        source = make_source(fake.url)
        await source.list_tools()
        assert fake.count("initialize") == 0

        async def older(got: Received) -> Any:
            if era == "a session" and "Mcp-Session-Id" not in got.request.headers:
                return await text(400, "who is there?")(got)
            if got.request.headers.get("MCP-Protocol-Version") == "2026-07-28":
                return await text(400, "unsupported")(got)
            return await fake.default(got)

        fake.answers |= {method: [older] for method in ("tools/list", "tools/call")}
        fake.answers["server/discover"] = [text(400, "who is there?")]
        assert (await call(source))["content"]
        assert (fake.count("initialize"), source.state) == (1, "ready")


@pytest.mark.parametrize("before", ["ready", "backoff", "throttled", "auth_required"])
async def test_a_restart_opens_a_new_session_in_every_state(
    fake: ScriptedRemoteServer, make_source: MakeSource, before: str
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    codes = {
        "backoff": status(503),
        "throttled": status(429, Retry_After="600"),
        "auth_required": status(401),
    }
    if before != "ready":
        fake.answers["tools/call"] = [codes[before]]
        for _ in range(5):
            await call(source)
        fake.answers.clear()
    sessions = fake.sessions
    said_of_it = await source.restart()
    assert said_of_it.endswith("is ready again")
    assert fake.sessions == sessions + 1
    assert (await call(source))["content"]


async def test_a_restart_says_why_there_is_no_new_session(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["initialize"] = [status(500)]
    done = await source.restart()
    assert done == "it was ended and cannot be started: answered HTTP 500 Internal Server Error"
    assert source.state == "backoff"
