"""An answer goes only to the call whose id it carries: whatever its form, its size and its way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from lm_tools_bridge.protocol import names
from manager.supervision import workspaces
from support.clients.raw_clients import EVENTS, JSON, Answer, Client
from support.http.client_connection import connected
from support.processes.managers.manager_in_process import RunningManager, running_manager
from support.projects.registered_setup import RegisteredSetup, raw_http, registered_server
from support.servers.scripted.scripted_answers import PROGRESS, SERVER
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Answerer,
    Received,
    error,
    event,
    result,
    stream,
    trimmed,
    trimmed_event,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

LATE_S = 0.3
BOTH = f"{JSON}, {EVENTS}"
SMALL: dict[str, Any] = {**COMPLETE, "_meta": SERVER}
MIDDLING = {**COMPLETE, "text": "x" * 150_000, "_meta": SERVER}
LARGE = {**COMPLETE, "text": "x" * 300_000, "_meta": SERVER}
RESPONSE = b'{"jsonrpc":"2.0","id":%%(id)s,"result":%b}'
SHAPES: dict[str, Answerer] = {
    "small": result(SMALL),
    "small, trimmed": trimmed(SMALL),
    "middling": result(MIDDLING),
    "large": result(LARGE),
    "large, trimmed": trimmed(LARGE),
    "error": error(-32602, "no such tool"),
    "large error": error(-32602, "x" * 300_000),
    "event": stream(event(RESPONSE % json.dumps(SMALL).encode())),
    "large event": stream(event(RESPONSE % json.dumps(LARGE).encode())),
    "event, trimmed": stream(trimmed_event(SMALL)),
    "large event, trimmed": stream(trimmed_event(LARGE)),
    "progress, event": stream(event(PROGRESS), event(RESPONSE % json.dumps(SMALL).encode())),
    "progress, large event": stream(event(PROGRESS), event(RESPONSE % json.dumps(LARGE).encode())),
    "progress and event": stream(event(PROGRESS) + event(RESPONSE % json.dumps(SMALL).encode())),
}
CLIENTS = pytest.mark.parametrize(
    ("era", "accept"),
    [(era, accept) for era in ("legacy", "modern") for accept in (BOTH, JSON, EVENTS)],
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def manager(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningManager]:
    """One for all tests; each has a server and a workspace of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspaces, "ROOT_CHECK_S", 60)
        async with running_manager(tmp_path_factory.mktemp("manager"), call_timeout_s=20) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def setup(manager: RunningManager, tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with raw_http() as http, registered_server(manager, http, tmp_path / "scripted") as registered:
        yield registered


class OfAnotherCall:
    """Answers as another play does, but under this id; remembers the connections."""

    def __init__(self, answerer: Answerer, identity: bytes = b"4711") -> None:
        self._answer = answerer
        self._identity = identity
        self.transports: list[asyncio.BaseTransport] = []

    async def __call__(self, request: web.Request, received: Received) -> web.StreamResponse:
        assert request.transport is not None
        self.transports.append(request.transport)
        body = json.dumps({**received.message, "id": json.loads(self._identity)}).encode()
        return await self._answer(request, Received(received.headers, received.target, body))

    async def is_closed(self) -> bool:
        """Whether the manager closed the connection of the last call."""
        async with asyncio.timeout(5):
            while not self.transports[-1].is_closing():
                await asyncio.sleep(0.01)
        return True


class Twice:
    """Answers a request, and 0.3 s later once more on the same connection."""

    def __init__(self, body: bytes, kind: str = JSON) -> None:
        self._body = body
        self._kind = kind

    async def __call__(self, request: web.Request, received: Received) -> web.StreamResponse:
        body = self._body.replace(b"%(id)s", received.id)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {self._kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        transport = request.transport
        assert transport is not None
        loop = asyncio.get_running_loop()
        loop.call_later(LATE_S, lambda: transport.is_closing() or transport.write(head.encode() + body))
        return web.Response(body=body, content_type=self._kind)


def combinations() -> Iterator[tuple[str, str, str, bool]]:
    """Shapes, eras, forms of an answer, and whether a call went before: each pair of them meets.

    All of a large answer in events, because a stateless client that takes events gets it piece by piece.
    """
    for number, shape in enumerate(SHAPES):
        for other, accept in enumerate((BOTH, JSON, EVENTS)):
            era, is_warm = ("legacy", "modern")[(number + other) % 2], bool((number // 2 + other) % 2)
            yield shape, era, accept, is_warm
            if "large event" in shape:
                yield shape, "legacy" if era == "modern" else "modern", accept, is_warm


async def client_of(setup: RegisteredSetup, era: str, accept: str) -> Client:
    return setup.modern(accept=accept) if era == "modern" else await setup.legacy(accept=accept)


def assert_refused(answer: Answer) -> None:
    refused = answer.error["data"]
    assert (refused["reason"], refused["delivered"]) == ("invalid_upstream_answer", "unknown")
    assert b"4711" not in answer.body


@pytest.mark.parametrize(("shape", "era", "accept", "is_warm"), list(combinations()))
async def test_an_answer_under_another_id_is_refused(
    shape: str, is_warm: bool, era: str, accept: str, setup: RegisteredSetup
) -> None:
    """The connection it came on is closed, and the next call succeeds."""
    client = await client_of(setup, era, accept)
    if is_warm:
        for _ in range(3):
            await client.call("t")
    foreign = setup.upstream.answers["t"] = OfAnotherCall(SHAPES[shape])
    assert_refused(await client.call("t"))
    assert await foreign.is_closed()
    del setup.upstream.answers["t"]
    assert (await client.call("t")).result["content"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_an_answer_under_another_id_is_refused_on_a_cached_route(
    shape: str, era: str, setup: RegisteredSetup
) -> None:
    client = await connected(setup, era, "t")
    await client.warm("t")
    foreign = setup.upstream.answers["t"] = OfAnotherCall(SHAPES[shape])
    assert_refused(await client.call("t", 12))
    assert await foreign.is_closed()
    client.close()


@CLIENTS
@pytest.mark.parametrize("kind", [JSON, EVENTS])
@pytest.mark.parametrize("size", [10, 300_000])
async def test_an_answer_given_twice_reaches_no_other_client(
    size: int, kind: str, era: str, accept: str, setup: RegisteredSetup
) -> None:
    """While the second one is on its way, the connection may carry the next call already."""
    client = await client_of(setup, era, accept)
    body = RESPONSE % json.dumps({**SMALL, "text": "x" * size}).encode()
    setup.upstream.answers["twice"] = Twice(body if kind == JSON else event(body), kind)
    gate = asyncio.Event()

    async def slow(request: web.Request, received: Received) -> web.StreamResponse:
        await gate.wait()
        return await result(SMALL)(request, received)

    setup.upstream.answers["slow"] = slow
    assert (await client.call("twice", identity=70)).result["text"] == "x" * size
    first = await client.call("slow", identity=71)  # without the check: the second answer to 70
    assert_refused(first)
    gate.set()
    for identity in range(72, 76):
        assert (await client.call("slow", identity=identity)).result["content"]


@CLIENTS
async def test_an_answer_given_twice_to_an_idle_connection_closes_it(
    era: str, accept: str, setup: RegisteredSetup
) -> None:
    client = await client_of(setup, era, accept)
    setup.upstream.answers["twice"] = Twice(RESPONSE % json.dumps(SMALL).encode())
    for identity in range(70, 73):
        assert (await client.call("twice", identity=identity)).result["content"]
        await asyncio.sleep(LATE_S + 0.05)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["first", "warm"])
async def test_a_server_that_answered_twice_gets_a_connection_for_each_call(
    is_warm: bool, era: str, setup: RegisteredSetup
) -> None:
    """Its next second answer cannot reach a call of another client that has the same id."""
    one, other = [await client_of(setup, era, BOTH) for _ in range(2)]
    for identity in range(60, 63) if is_warm else ():
        await other.call("slow", identity=identity)
    setup.upstream.answers["twice"] = Twice(RESPONSE % json.dumps({**SMALL, "text": "of one"}).encode())

    async def slow(request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(LATE_S + 0.1)
        return await result({**SMALL, "text": "of the other"})(request, received)

    setup.upstream.answers["slow"] = slow
    assert (await one.call("twice", identity=70)).result["text"] == "of one"
    await asyncio.sleep(LATE_S + 0.05)  # the second answer arrives on the idle connection
    assert (await one.call("twice", identity=71)).result["text"] == "of one"
    assert (await other.call("slow", identity=71)).result["text"] == "of the other"


@pytest.mark.parametrize("form", [JSON, EVENTS])
@pytest.mark.parametrize("size", [10, 300_000])
async def test_a_list_under_another_id_is_not_shown(size: int, form: str, setup: RegisteredSetup) -> None:
    """The manager's own requests have ids, too."""
    stray = {"name": "stray", "description": "x" * size, "inputSchema": {"type": "object"}}
    text = json.dumps({"resultType": "complete", "tools": [stray]}).encode()
    made = result(text) if form == JSON else stream(event(RESPONSE % text))
    foreign = setup.upstream.answers[names.TOOLS_LIST] = OfAnotherCall(made, b'"another"')
    for client in (await setup.legacy(), setup.modern(pure=False), setup.modern()):
        listed = await client.ask(names.TOOLS_LIST)
        assert b"stray" not in listed.body
        assert await foreign.is_closed()


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","result":{"content":[],"text":"%b"},"id":%%(id)s}',
        b'{ "jsonrpc" : "2.0" , "id" :\n%%(id)s , "result" : {"content":[],"text":"%b"}}',
    ],
)
@pytest.mark.parametrize("size", [10, 300_000])
@CLIENTS
async def test_the_id_counts_wherever_it_stands(
    size: int, body: bytes, era: str, accept: str, setup: RegisteredSetup
) -> None:
    """Servers may write the members of a response in any order, with white space, and the id with escapes."""
    client = await client_of(setup, era, accept)
    text = body % (b"x" * size)

    async def written(request: web.Request, received: Received) -> web.StreamResponse:
        identity = received.id.replace(b"a", b"\\u0061")
        return web.Response(body=text.replace(b"%(id)s", identity), content_type=JSON)

    setup.upstream.answers["t"] = written
    for identity in (7, "abc"):
        answer = await client.call("t", identity=identity)
        assert answer.result["text"] == "x" * size
    setup.upstream.answers["t"] = OfAnotherCall(written)
    assert_refused(await client.call("t"))
