"""A registered workspace server in the test process whose every answer a test decides.

It registers over the manager's control socket and renews its heartbeat, returns its nonce on the health route, keeps
every request byte for byte, and answers as `answers` says. Its `pid` is that of the test process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, UnixConnector, web

from lm_tools_bridge.protocol import headers, jsonrpc, names, sse
from lm_tools_bridge.protocol.internal import result_trim
from support.http.runner_end import end_runner

HEARTBEAT_EVERY_S = 0.5


@dataclass
class Received:
    """One request as it arrived. `gone` is set when the manager closed the connection before the answer."""

    headers: tuple[tuple[bytes, bytes], ...]
    target: str
    body: bytes
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @cached_property
    def message(self) -> dict[str, Any]:
        """The body, decoded."""
        return dict(json.loads(self.body))

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, decoded."""
        return dict(self.message.get("params", {}))

    @property
    def id(self) -> bytes:
        """The request's id as JSON text."""
        return jsonrpc.bytes_of(jsonrpc.members_of(self.body)["id"])

    def header(self, name: str) -> str | None:
        """The value of a header."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), None)


Answerer = Callable[[web.Request, Received], Awaitable[web.StreamResponse]]
"""How one request is answered."""


def fixed(body: bytes, status: int = 200, content_type: str = "application/json") -> Answerer:
    """Exactly these bytes."""

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type=content_type)

    return answer


def result(value: Any, **fields: str) -> Answerer:
    """A JSON-RPC result under the request's id; bytes are taken as JSON text. More header fields may be given."""

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        answer = _json(received, b"result", value)
        answer.headers.update(fields)
        return answer

    return answer


def trimmed(value: Any) -> Answerer:
    """The same as servers of ours write it, with the header that says what of it a session does not get."""
    text, said = _with_trim(value)
    return result(text, **{headers.RESULT_TRIM: said.value})


def trimmed_event(value: Any) -> bytes:
    """The same as an event, for `stream`."""
    text, said = _with_trim(value)
    return sse.encode(b'{"jsonrpc":"2.0","id":%%(id)s,"result":%b}' % text, comment=said.comment)


def _with_trim(value: Any) -> tuple[bytes, result_trim.ResultTrim]:
    text = json.dumps(value, separators=(",", ":")).encode()
    said = result_trim.compute_trim(text, 0, len(text))
    assert said is not None
    return text, said


def error(code: int, message: str, data: Any = None, status: int = 200) -> Answerer:
    """A JSON-RPC error under the request's id."""

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        content = {"code": code, "message": message} | ({} if data is None else {"data": data})
        return _json(received, b"error", content, status)

    return answer


def stream(*pieces: bytes | asyncio.Event | None) -> Answerer:
    """An event stream in pieces; an `Event` among them is waited for before what follows it, None for ever.

    `%(id)s` in a piece stands for the request's id.
    """

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            if piece is None or isinstance(piece, asyncio.Event):
                await (piece or asyncio.Event()).wait()
            else:
                await response.write(piece.replace(b"%(id)s", received.id))
        await response.write_eof()
        return response

    return answer


def broken_off(body: bytes, announced: int | None, content_type: str = "application/json") -> Answerer:
    """A body that ends with the connection before its announced length, None for a chunked one.

    `%(id)s` stands for the request's id.
    """

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = content_type
        response.content_length = announced
        await response.prepare(request)
        await response.write(body.replace(b"%(id)s", received.id))
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def cut(piece: bytes) -> Answerer:
    """An event stream that is cut off without its proper end."""
    return broken_off(piece, None, "text/event-stream")


def held(gate: asyncio.Event, then: Answerer) -> Answerer:
    """As `then`, once the gate is open."""

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        await gate.wait()
        return await then(request, received)

    return answer


async def never(request: web.Request, received: Received) -> web.StreamResponse:
    """No answer until the caller gives up."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def event(message: dict[str, Any] | bytes) -> bytes:
    """One server-sent event."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"event: message\ndata: " + data + b"\n\n"


def _json(received: Received, member: bytes, value: Any, status: int = 200) -> web.Response:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    body = b'{"jsonrpc":"2.0","id":' + received.id + b',"' + member + b'":' + text + b"}"
    return web.Response(body=body, status=status, content_type="application/json")


COMPLETE = {"resultType": "complete", "content": [{"type": "text", "text": "ok"}]}


class ScriptedWorkspaceServer:
    """One such server. `answers` maps a tool's or resource's name, else a method, to its answer.

    Attributes:
        root: the workspace folder it serves; `folders` are all it registers.
        tools: what `tools/list` shows.
        received: every POST, oldest first; `health_asked` counts health requests.
        is_healthy: whether it echoes its nonce; `is_well`: whether it says that all is well.
        is_silent: whether it renews nothing.
        secret: what the manager gave it at its registration.
        port: where it listens; set before serving, a port to take, else one the system chooses.
    """

    def __init__(self, root: Path, control_socket: Path) -> None:
        self.root = root
        self.folders = [str(root)]
        self.tools: Sequence[Any] = ()
        self.answers: dict[str, Answerer] = {}
        self.received: list[Received] = []
        self.session_id = f"external-{secrets.token_hex(4)}"
        self.nonce = secrets.token_hex(8)
        self.is_healthy = self.is_well = True
        self.is_silent = False
        self.health_asked = 0
        self.secret: str | None = None
        self.port = 0
        self._control_socket = control_socket
        self._arrived = asyncio.Event()

    def called(self, name: str | None = None) -> list[Received]:
        """The `tools/call` requests that arrived, of one tool where named."""
        calls = [one for one in self.received if one.message["method"] == names.TOOLS_CALL]
        return [one for one in calls if name is None or one.params["name"] == name]

    async def arrival(self, name: str) -> Received:
        """The first call of a tool, waited for if need be."""
        async with asyncio.timeout(5):
            while not self.called(name):
                self._arrived.clear()
                await self._arrived.wait()
        return self.called(name)[0]

    @contextlib.asynccontextmanager
    async def serving(self, *, registered: bool = True) -> AsyncIterator[ScriptedWorkspaceServer]:
        """Listen, and by default register and keep renewing, for as long as the block lasts."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get(names.HEALTH_PATH, self._health)
        app.router.add_post(names.MCP_PATH, self._post)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = runner.addresses[0][1]
        renewing: asyncio.Task[None] | None = None
        try:
            if registered:
                await self.register()
                renewing = asyncio.create_task(self._renew())
            yield self
        finally:
            if renewing is not None:
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)
            await end_runner(runner)

    async def register(self) -> None:
        """Announce it, and wait until the manager believes it where it is healthy."""
        await self.heartbeat()
        async with asyncio.timeout(5):
            while self.is_healthy and await self.state() != "ready":
                await asyncio.sleep(0.01)

    async def heartbeat(self) -> dict[str, Any]:
        """One heartbeat and its answer."""
        answer = await self.control("POST", "/heartbeat", self.payload())
        self.secret = answer.get("secret", self.secret)
        return answer

    def payload(self) -> dict[str, Any]:
        """What a heartbeat says."""
        return {
            "sessionId": self.session_id,
            "pid": os.getpid(),
            "workspaceFolders": self.folders,
            "host": "127.0.0.1",
            "port": self.port,
            "nonce": self.nonce,
            "kind": "workspace-server",
        }

    async def state(self) -> str | None:
        """What the manager thinks of it."""
        listed = await self.control("GET", "/list")
        found = [one["state"] for one in listed["instances"] if one["sessionId"] == self.session_id]
        return found[0] if found else None

    async def control(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One question on the control socket."""
        async with (
            ClientSession(connector=UnixConnector(str(self._control_socket))) as http,
            http.request(method, f"http://localhost{path}", json=body) as response,
        ):
            answer: dict[str, Any] = await response.json()
        assert answer["ok"] is True, answer
        return answer

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_EVERY_S)
            if not self.is_silent:
                await self.heartbeat()

    async def _health(self, request: web.Request) -> web.StreamResponse:
        self.health_asked += 1
        if not self.is_healthy:
            return web.json_response({"ok": False}, status=503)
        if not self.is_well:
            return web.json_response({"ok": False, "nonce": self.nonce}, status=503)
        return web.json_response({"ok": True, "nonce": self.nonce, "extra": {"kept": [1, None]}})

    async def _post(self, request: web.Request) -> web.StreamResponse:
        received = Received(tuple(request.raw_headers), request.raw_path, await request.read())
        self.received.append(received)
        assert received.header(headers.SECRET) == self.secret
        self._arrived.set()
        try:
            return await self._answer(received)(request, received)
        except (asyncio.CancelledError, ConnectionError):
            received.gone.set()
            raise

    def _answer(self, received: Received) -> Answerer:
        method = received.message["method"]
        name = received.params.get(names.NAMED_PARAM.get(method, ""))
        for key in (name, method):
            if key in self.answers:
                return self.answers[key]
        if method == names.TOOLS_LIST:
            tools = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in self.tools]
            return result(b'{"resultType":"complete","tools":[' + b",".join(tools) + b"]}")
        if method == names.TOOLS_CALL:
            return result(COMPLETE)
        return error(jsonrpc.METHOD_NOT_FOUND, f"not scripted: {method}")
