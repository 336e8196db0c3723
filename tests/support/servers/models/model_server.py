"""Serves scripted replies of a model on loopback in the four dialects of the agent's providers, and their faults.

The script is a list of turns, each the answer to one request. Every request is recorded. The bytes of a reply are sent
in pieces of any size, so that a piece can end inside of a character. Ollama cuts the beginning of a prompt that is too
long for its window, as the real one does (`RecordedRequest.seen`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal

from aiohttp import web

from support.http.runner_end import end_runner
from support.servers.models.formats import anthropic_messages, gemini_content, ollama_chat, openai_chat
from support.servers.models.formats.steps import Json, Reply, reply_of

DIALECTS: Mapping[str, ModuleType] = {
    "ollama": ollama_chat, "openai": openai_chat, "anthropic": anthropic_messages, "gemini": gemini_content,
}  # fmt: skip
KEY_HEADERS = {
    "authorization": "Bearer {}", "api-key": "{}", "x-api-key": "{}", "x-goog-api-key": "{}"
}  # fmt: skip
LARGEST = 32 * 1024 * 1024


@dataclass(frozen=True)
class RecordedRequest:
    """A request for a reply: its dialect, path with query, headers in lower case, and body."""

    dialect: str
    path: str
    headers: Mapping[str, str]
    body: Json

    @property
    def tools(self) -> list[str]:
        """The names of the offered tools."""
        return list(DIALECTS[self.dialect].read(self.body)[0])

    @property
    def results(self) -> list[str]:
        """The texts of the tool results so far."""
        return list(DIALECTS[self.dialect].read(self.body)[1])

    @property
    def seen(self) -> str:
        """What the model of a scripted Ollama sees of the prompt."""
        return ollama_chat.seen(self.body)


@dataclass(frozen=True)
class Refuse:
    """The server answers with an error; `body` takes the place of the dialect's own form."""

    status: int
    text: str = "refused"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True)
class Broken:
    """The server sends this many bytes of the reply, then disconnects or goes silent."""

    reply: Reply
    after: int
    how: Literal["cut", "silent"] = "cut"


@dataclass(frozen=True)
class Bytes:
    """The server sends these bytes instead of a reply, with status 200."""

    content: bytes
    kind: str = "application/octet-stream"


@dataclass(frozen=True)
class HangUp:
    """The server closes the connection without an answer."""


Turn = Reply | Refuse | Broken | Bytes | HangUp
Turns = Sequence[Turn | Callable[[RecordedRequest], Turn | Awaitable[Turn]]]


class ModelServer:
    """The model server.

    Attributes:
        turns: what comes next; a function decides when the request is there. After the last one it says "done".
        requests: all requests for a reply, in order.
        unknown: method and path of all other requests.
        url: its address, without a path.
        piece: number of bytes that are sent at once; None for an event at a time.
        gap_s: seconds between two pieces.
        key: if set, requests without this key are refused with 401.
        models: if set, other models are refused with 404.
        listed: if set, the names in its list of models in the dialects of Ollama and OpenAI.
        window: the context length that Ollama reports for its models.
        left: set when a client closed the connection of a reply that was not complete.
    """

    def __init__(self, turns: Turns = (), *, piece: int | None = None, key: str | None = None) -> None:
        self.turns = list(turns)
        self.requests: list[RecordedRequest] = []
        self.unknown: list[str] = []
        self.url = ""
        self.piece = piece
        self.gap_s = 0.0
        self.key = key
        self.models: frozenset[str] | None = None
        self.listed: list[str] | None = None
        self.window = 32_768
        self.left = asyncio.Event()
        self._stopping = asyncio.Event()

    def base(self, dialect: str) -> str:
        """The address to configure for a provider of this dialect."""
        return self.url + ("/v1" if dialect == "openai" else "")

    def stop_silence(self) -> None:
        """End the replies that went silent."""
        self._stopping.set()

    def app(self) -> web.Application:
        """Every dialect at its paths; all else is recorded and not found."""
        app = web.Application(client_max_size=LARGEST)
        for name, dialect in DIALECTS.items():
            for path in dialect.PATHS:
                app.router.add_post(path, self._handler(name, dialect))
        app.router.add_post("/api/show", self._show)
        app.router.add_route("*", "/{other:.*}", self._nothing)
        return app

    async def _show(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_info": {"general.architecture": "scripted", "scripted.context_length": self.window},
                "capabilities": ["completion", "tools"],
            }
        )

    async def _nothing(self, request: web.Request) -> web.Response:
        if self.listed is not None and request.path in {"/api/tags", "/v1/models"}:
            listed = [{"name": name, "id": name} for name in self.listed]
            return web.json_response({"models": listed, "data": listed})
        self.unknown.append(f"{request.method} {request.path_qs}")
        return web.json_response({"error": "no such path"}, status=404)

    def _handler(
        self, name: str, dialect: ModuleType
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.json()
            headers = {key.lower(): value for key, value in request.headers.items()}
            recorded = RecordedRequest(name, request.path_qs, headers, body)
            self.requests.append(recorded)
            turn = self._refused(recorded) or await self._next(recorded)
            if isinstance(turn, Refuse):
                text = (
                    turn.body
                    if turn.body is not None
                    else json.dumps(dialect.refusal(turn.status, turn.text)).encode()
                )
                kind = {"Content-Type": "application/json"}
                return web.Response(status=turn.status, body=text, headers={**kind, **turn.headers})
            if isinstance(turn, HangUp):
                assert request.transport is not None
                request.transport.close()
                return web.Response()
            if isinstance(turn, Bytes):
                return web.Response(body=turn.content, content_type=turn.kind)
            return await self._send(request, turn, self._events(recorded, dialect, turn))

        return handle

    def _refused(self, request: RecordedRequest) -> Refuse | None:
        model = request.body.get("model")
        if self.key is not None and not any(
            request.headers.get(name) == form.format(self.key) for name, form in KEY_HEADERS.items()
        ):
            return Refuse(401, "the key is wrong")
        if self.models is not None and model is not None and model not in self.models:
            return Refuse(404, f"model '{model}' not found")
        return None

    async def _next(self, request: RecordedRequest) -> Turn:
        turn = self.turns.pop(0) if self.turns else Reply(("done",))
        if callable(turn):
            decided = turn(request)
            return await decided if isinstance(decided, Awaitable) else decided
        return turn

    def _events(self, request: RecordedRequest, dialect: ModuleType, turn: Reply | Broken) -> list[bytes]:
        reply, number = (turn if isinstance(turn, Reply) else turn.reply), len(self.requests)
        if dialect is ollama_chat and reply.prompt_tokens == 1:
            reply = ollama_chat.counted(reply, request.body, number)
        streams = "streamGenerateContent" in request.path or request.body.get(
            "stream", dialect is ollama_chat
        )
        if streams:
            return list(dialect.stream(reply_of(reply, number), number))
        return [json.dumps(dialect.whole(reply_of(reply, number), number), ensure_ascii=False).encode()]

    async def _send(
        self, request: web.Request, turn: Reply | Broken, events: list[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        if isinstance(turn, Broken) and turn.after == 0 and turn.how == "silent":
            await self._silence()
        await response.prepare(request)
        whole = b"".join(events)
        sent = whole[: turn.after] if isinstance(turn, Broken) else whole
        pieces = (
            events
            if self.piece is None
            else [sent[at : at + self.piece] for at in range(0, len(sent), self.piece)]
        )
        if isinstance(turn, Broken) and self.piece is None:
            pieces = [sent]
        try:
            for one in pieces:
                await response.write(one)
                if self.gap_s:
                    await asyncio.sleep(self.gap_s)
            if isinstance(turn, Broken):
                await self._break(request, turn)
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        return response

    async def _break(self, request: web.Request, turn: Broken) -> None:
        if turn.how == "silent":
            await self._silence()
        if request.transport is not None:
            request.transport.close()

    async def _silence(self) -> None:
        try:
            await self._stopping.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise


@contextlib.asynccontextmanager
async def model_server(
    *turns: Turn | Callable[[RecordedRequest], Turn | Awaitable[Turn]],
    piece: int | None = None,
    key: str | None = None,
) -> AsyncIterator[ModelServer]:
    """The server for the time of the block, at `url` (a port that the system chose)."""
    server = ModelServer(turns, piece=piece, key=key)
    runner = web.AppRunner(server.app(), shutdown_timeout=1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}"
        yield server
    finally:
        server.stop_silence()
        await end_runner(runner)
