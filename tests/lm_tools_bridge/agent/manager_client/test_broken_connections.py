"""What the agent does when responses break off, come late, are refused or belong to nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lm_tools_bridge.agent.manager_client.elicitation import Elicitation
from lm_tools_bridge.agent.manager_client.source import ManagerSource
from lm_tools_bridge.agent.tool_source import Outcome
from support.clients.scripted_person import ScriptedPerson
from support.processes.timeouts import within

Handler = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
EVENTS = {"Content-Type": "text/event-stream"}


class Nobody:
    async def approve(self, *_: object) -> bool:
        return False


class Peer:
    """An MCP endpoint whose calls are answered as a test says; it counts what arrives."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.cancelled: list[Any] = []
        self.replies: list[dict[str, Any]] = []
        self.call: Handler = no_answer
        self.resume: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.url = ""
        self.lost = 0
        self.list: Handler = no_tools

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        method = message.get("method", "reply")
        self.methods.append(method)
        if method == "initialize" and self.lost > 0:
            self.lost -= 1
            return web.json_response({"error": "not here"}, status=404)
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            return web.json_response(reply(message, result), headers={"Mcp-Session-Id": "s"})
        if method == "tools/call":
            return await self.call(request, message)
        if method == "tools/list":
            return await self.list(request, message)
        if method == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        if method == "reply":
            self.replies.append(message)
        return web.Response(status=202)

    async def get(self, request: web.Request) -> web.StreamResponse:
        if "Last-Event-ID" in request.headers and self.resume is not None:
            return await self.resume(request)
        raise web.HTTPMethodNotAllowed("GET", ["POST"])


def reply(message: dict[str, Any], result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def done(message: dict[str, Any], text: str = "done") -> dict[str, Any]:
    return reply(message, {"content": [{"type": "text", "text": text}]})


async def no_answer(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def no_tools(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
    return web.json_response(reply(message, {"tools": []}))


async def stream(request: web.Request, *parts: str) -> web.StreamResponse:
    response = web.StreamResponse(headers=EVENTS)
    await response.prepare(request)
    for part in parts:
        await response.write(part.encode())
    return response


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    scripted = Peer()
    app = web.Application()
    app.router.add_post("/mcp", scripted.post)
    app.router.add_get("/mcp", scripted.get)
    async with TestServer(app, host="127.0.0.1") as server:
        scripted.url = str(server.make_url("/mcp"))
        yield scripted


@pytest.fixture
async def source(peer: Peer) -> AsyncIterator[ManagerSource]:
    async with aiohttp.ClientSession() as http:
        elicitation = Elicitation(ScriptedPerson(), Nobody())
        made = ManagerSource(peer.url, "/", elicitation, http, start=None, tool_s=10)
        yield made
        await made.close()


async def call(source: ManagerSource) -> Outcome:
    return await source.call("x", {}, lambda _: None)


def text_of(outcome: Outcome) -> str:
    return str(outcome.content[0]["text"])


async def test_a_call_without_a_response_is_never_repeated(peer: Peer, source: ManagerSource) -> None:
    outcome = await call(source)
    assert (outcome.is_error, outcome.code, outcome.delivered) == (True, 47112, True)
    assert text_of(outcome).startswith("Error: Tool call failed: the connection to the manager was lost")
    assert text_of(outcome).endswith("check whether the request took effect before you repeat it")
    assert peer.methods.count("tools/call") == 1


async def test_a_stream_that_breaks_off_is_resumed(peer: Peer, source: ManagerSource) -> None:
    ids: list[str] = []
    calls: list[dict[str, Any]] = []

    async def cut(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        calls.append(message)
        response = await stream(request, "id: 1-1\ndata: \n\n", "id: 1-2\nda")
        assert request.transport is not None
        request.transport.close()
        return response

    async def resume(request: web.Request) -> web.StreamResponse:
        ids.append(request.headers["Last-Event-ID"])
        return await stream(request, f"id: 1-2\ndata: {json.dumps(done(calls[0]))}\n\n")

    peer.call, peer.resume = cut, resume
    assert text_of(await call(source)) == "done"
    assert (ids, len(calls)) == (["1-1"], 1)


async def test_a_stopping_manager_is_asked_again(peer: Peer, source: ManagerSource) -> None:
    refusals = iter([503, 503])

    async def busy(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        if status := next(refusals, None):
            return web.json_response({"error": "stopping"}, status=status, headers={"Retry-After": "0"})
        return web.json_response(done(message))

    peer.call = busy
    assert text_of(await call(source)) == "done"


async def test_a_refused_request_says_why(peer: Peer, source: ManagerSource) -> None:
    async def refuse(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": "foreign host"}, status=403)

    peer.call = refuse
    outcome = await call(source)
    assert text_of(outcome) == "Error: Tool call failed: foreign host. Next step: run lmtb doctor"
    assert outcome.delivered is False


async def test_messages_of_nobody_do_not_shift_answers(peer: Peer, source: ManagerSource) -> None:
    async def chatty(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        strange = [
            {"jsonrpc": "2.0", "id": 4711, "result": {"content": [{"type": "text", "text": "wrong"}]}},
            {"jsonrpc": "2.0", "method": "notifications/strange"},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            {"jsonrpc": "2.0", "id": "m", "method": "sampling/createMessage", "params": {}},
            "no message",
        ]
        parts = [f"data: {json.dumps(one)}\n\n" for one in [*strange, done(message)]]
        response = await stream(request, ": comment\n\n", *parts[:-1])
        async with asyncio.timeout(5):
            while len(peer.replies) < 2:
                await asyncio.sleep(0.01)
        await response.write(parts[-1].encode())
        return response

    peer.call = chatty
    assert text_of(await call(source)) == "done"
    answers = {one["id"]: one.get("result", one.get("error", {}).get("code")) for one in peer.replies}
    assert answers == {"p": {}, "m": -32601}


async def test_a_late_call_is_cancelled_at_its_server(peer: Peer, source: ManagerSource) -> None:
    async def wait(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        response = await stream(request, ": begun\n\n")
        began.set()
        await asyncio.sleep(30)
        return response

    peer.call, began = wait, asyncio.Event()
    running = asyncio.create_task(call(source))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await source.close()
    assert len(peer.cancelled) == 1


@pytest.mark.parametrize("body", ["[]", "{}", '{"jsonrpc":"2.0","id":1,"result":7}', "\xff"])
async def test_an_odd_response_fails_one_call_only(peer: Peer, source: ManagerSource, body: str) -> None:
    async def odd(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=body.encode("latin-1"), content_type="application/json")

    peer.call = odd
    assert (await call(source)).is_error

    async def fine(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(done(message))

    peer.call = fine
    assert text_of(await call(source)) == "done"


async def test_lists_at_the_same_time_are_all_whole(peer: Peer, source: ManagerSource) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        begun.set()
        await go.wait()
        return web.json_response(reply(message, {"tools": [{"name": "read"}]}))

    peer.list = slow
    first = asyncio.create_task(source.list_tools())
    await begun.wait()
    second = asyncio.create_task(source.list_tools())
    await asyncio.wait({second}, timeout=0.1)  # it must not end before the first
    go.set()
    lists = await asyncio.gather(first, second)
    assert [[tool.name for tool in one] for one in lists] == [["read"], ["read"]]


async def test_the_agent_comes_back_to_an_endpoint_that_was_missing(
    peer: Peer, source: ManagerSource
) -> None:
    peer.lost = 10_000
    assert list(await source.list_tools()) == []
    tried = peer.methods.count("initialize")
    async with asyncio.timeout(within(20)):
        while peer.methods.count("initialize") < tried + 2:  # the stream goes on trying
            await asyncio.sleep(0.01)
    peer.lost = 0
    async with asyncio.timeout(within(20)):
        while source.state().state != "ready":
            await source.list_tools()


@pytest.mark.parametrize("error", ["no", 7, [], {"message": "no"}])
async def test_an_odd_error_of_a_list_is_a_problem_of_the_source(
    peer: Peer, source: ManagerSource, error: Any
) -> None:
    async def odd(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})

    peer.list = odd
    assert list(await source.list_tools()) == []
    assert source.state().state == "unavailable"
