"""What a window, or what passes for one, cannot do: it answers wrongly, for ever, too much, or never."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from lm_tools_bridge.editors.finder import WindowFinder
from lm_tools_bridge.editors.source import EditorSource
from lm_tools_bridge.protocol.errors import Refusal
from support.processes.timeouts import GUARD_S
from support.servers.mcp_sources.remote_source import context
from support.servers.scripted.editor_window import EditorWindow, a_tool, free_range

Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


WINDOWS: list[EditorWindow] = []


class Liar(EditorWindow):
    """A window whose calls are answered by `answer`; everything else is right."""

    answer: Answer

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        self.requests.append(message)
        if message.get("method") != "tools/call":
            return await super()._post(request)
        return await self.answer(request, message)


@asynccontextmanager
async def attached(root: Path, answer: Answer) -> AsyncIterator[EditorSource]:
    """A source with such a window; `WINDOWS` has it."""
    first = free_range()
    window = Liar([str(root)], tools=[a_tool("lm_x")])
    window.answer = answer
    await window.open(first)
    WINDOWS.append(window)
    source = EditorSource(WindowFinder(root, {}, first), str(root), "1")
    try:
        assert [tool.name for tool in await source.list_tools()] == ["lm_x"]
        yield source
    finally:
        await source.close()
        await WINDOWS.pop().close()


async def call(source: EditorSource) -> Any:
    async with asyncio.timeout(GUARD_S):
        outcome = await source.call_tool("lm_x", {}, context({}))
    return json.loads(bytes(outcome)) if isinstance(outcome, msgspec.Raw) else outcome


async def stream(request: web.Request, *events: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(event)
    return response


def event(message: Any) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


def result(identity: Any, text: str = "right") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "result": {"content": [{"type": "text", "text": text}]}}


def body(content: bytes, status: int = 200, kind: str = "application/json") -> Answer:
    async def answer(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=content, status=status, content_type=kind)

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (body(b"garbage"), "no JSON-RPC message"),
        (body(b""), "no JSON-RPC message"),
        (body(b"[" * 100_000), "no JSON-RPC message"),
        (body(b"data: \xff\n\n", kind="text/event-stream"), "no JSON-RPC message"),
        (body(b": nothing\n\n", kind="text/event-stream"), "broke off"),
        (body(b"{}", status=500), "HTTP 500"),
        (body(b"{}", status=302), "HTTP 302"),
    ],
)
async def test_what_is_no_answer_refuses_the_call(tmp_path: Path, answer: Answer, said: str) -> None:
    async with attached(tmp_path.resolve(), answer) as source:
        outcome = await call(source)
        assert isinstance(outcome, Refusal) and said in outcome.message
        assert source.window is not None


async def test_an_answer_to_another_request_is_not_ours(tmp_path: Path) -> None:
    async def answer(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, event(result(message["id"] + 1, "wrong")), event(result(message["id"])))

    async with attached(tmp_path.resolve(), answer) as source:
        assert (await call(source))["content"][0]["text"] == "right"


async def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    async def answer(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        response = await stream(request, b"data: ")
        with pytest.raises((ConnectionError, RuntimeError)):
            for _ in range(200):
                await response.write(b"x" * 2**20)
        return response

    async with attached(tmp_path.resolve(), answer) as source:
        outcome = await call(source)
        assert isinstance(outcome, Refusal) and outcome.reason.word == "response_too_large"


async def test_one_that_never_answers_delays_no_other_call_and_ends_with_the_source(tmp_path: Path) -> None:
    hang, ended = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        if hang.is_set():
            return await stream(request, event(result(message["id"])))
        hang.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with attached(tmp_path.resolve(), answer) as source:
        first = asyncio.create_task(source.call_tool("lm_x", {}, context({})))
        await hang.wait()
        assert (await call(source))["content"][0]["text"] == "right"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.wait_for(ended.wait(), 10)  # the window learns that nobody waits


async def test_notifications_in_a_flood_do_not_stop_the_answer(tmp_path: Path) -> None:
    async def answer(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        said = event(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        )
        return await stream(request, *[said] * 2000, event(result(message["id"])))

    async with attached(tmp_path.resolve(), answer) as source:
        assert (await call(source))["content"][0]["text"] == "right"


THIEF = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
while True:
    connection, _ = server.accept()
    print(len(connection.recv(4096)), flush=True)
    connection.close()
"""


@asynccontextmanager
async def thief(port: int, user: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that takes a port and prints how many bytes it gets over each connection."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", THIEF, str(port), str(user), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"listens\n"
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a program as another user")
@pytest.mark.parametrize("call_again", [False, True])
async def test_no_call_is_sent_to_another_user_who_takes_the_port(tmp_path: Path, call_again: bool) -> None:
    async with attached(tmp_path.resolve(), body(b"{}")) as source:
        assert source.window is not None
        port = source.window.port
        await WINDOWS[-1].close()
        async with thief(port, 65534) as process:
            for _ in range(1 + call_again):
                assert isinstance(await call(source), Refusal)
        assert process.stdout is not None
        assert set((await process.stdout.read()).split()) <= {b"0"}
        assert source.window is None


async def test_no_call_is_sent_to_a_port_that_this_user_does_not_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with attached(tmp_path.resolve(), body(b"{}")) as source:
        asked = len(WINDOWS[-1].requests)
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        assert isinstance(await call(source), Refusal)
        assert len(WINDOWS[-1].requests) == asked
