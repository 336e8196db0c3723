"""Serves a scripted model for an agent on loopback: each request is recorded, and a script decides what the model does next.

One server speaks the wire formats of four vendors (`formats/`). An agent also sends requests that offer no
tools, to name a conversation for example: they get a word, and the script does not see them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Protocol

from aiohttp import web

from support.http.runner_end import end_runner
from support.servers.models.formats import anthropic_messages, gemini_content, openai_chat, openai_responses
from support.servers.models.formats.steps import Json, ModelRequest, Say, Step

Script = Callable[[ModelRequest], Awaitable[Step]]
LARGEST = 32 * 1024 * 1024


class Format(Protocol):
    """The module of a wire format."""

    PATHS: tuple[str, ...]

    def read(self, body: Json) -> tuple[list[str], list[str]]: ...

    def stream(self, step: Step, number: int) -> Iterator[bytes]: ...


FORMATS: tuple[Format, ...] = (anthropic_messages, openai_responses, openai_chat, gemini_content)


class ScriptedModel:
    """The model.

    Attributes:
        requests: those that offered tools.
        asides: the bodies of those that did not.
        unknown: method and path of requests that no format has.
        errors: what the script raised.
        url: where it is.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[ModelRequest] = []
        self.asides: list[Json] = []
        self.unknown: list[str] = []
        self.errors: list[BaseException] = []
        self.url = ""

    def app(self) -> web.Application:
        """Every format at its paths; all else is recorded and not found."""
        app = web.Application(client_max_size=LARGEST)
        for one in FORMATS:
            for path in one.PATHS:
                app.router.add_post(path, self._handler(one))
        app.router.add_post("/v1/messages/count_tokens", _count)
        app.router.add_route("*", "/{other:.*}", self._nothing)
        return app

    def _handler(self, form: Format) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.json()
            step, number = await self._next(form, body)
            if request.path.endswith(":generateContent"):
                return web.json_response(gemini_content.whole(step, number))
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            with contextlib.suppress(ConnectionResetError):  # the agent was ended meanwhile
                await response.prepare(request)
                for event in form.stream(step, number):
                    await response.write(event)
            return response

        return handle

    async def _nothing(self, request: web.Request) -> web.Response:
        self.unknown.append(f"{request.method} {request.path_qs}")
        return web.json_response({}, status=404)

    async def _next(self, form: Format, body: Json) -> tuple[Step, int]:
        tools, results = form.read(body)
        if not tools:
            self.asides.append(body)
            return Say("aside"), 0
        request = ModelRequest(len(self.requests) + 1, frozenset(tools), tuple(results), body)
        self.requests.append(request)
        try:
            return await self._script(request), request.number
        except Exception as error:  # noqa: BLE001  the agent must end, and the test must hear of it
            self.errors.append(error)
            return Say("the script failed"), request.number


async def _count(request: web.Request) -> web.Response:
    return web.json_response({"input_tokens": 1})


@contextlib.asynccontextmanager
async def scripted_model(script: Script) -> AsyncIterator[ScriptedModel]:
    """The model for the time of the block, at `url` (a port that the system chose)."""
    model = ScriptedModel(script)
    runner = web.AppRunner(model.app(), shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        model.url = f"http://{host}:{port}"
        yield model
    finally:
        await end_runner(runner)
