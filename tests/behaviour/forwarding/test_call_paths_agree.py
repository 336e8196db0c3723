"""Every path of a forwarded call gives the client the same answer (docs/build/forwarding.md).

The reference is the answer of the task path: a task sends the call on a new connection and reads the whole
response. `PathRecorder` tells which path a call took.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiohttp import web, web_response

from lm_tools_bridge.http_server import deadline
from manager import assembly
from manager.relay import direct_relay
from manager.supervision import workspaces
from manager.upstream.pool import Pool
from support.clients.raw_clients import BOTH, EVENTS, JSON, Answer
from support.http.client_connection import RawConnection, connected
from support.http.path_recorder import PathRecorder
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import PROGRESS, SERVER
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Answerer,
    Received,
    error,
    event,
    held,
    result,
    stream,
    trimmed,
    trimmed_event,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTENT: dict[str, Any] = {**COMPLETE, "structuredContent": {"a": [1, None]}}
SMALL = {**CONTENT, "_meta": SERVER}
LARGE = {**CONTENT, "text": "x" * 300_000, "_meta": SERVER}
TOOL_ERROR = {**CONTENT, "isError": True, "_meta": SERVER}
ERROR = b'{"jsonrpc":"2.0","id":%(id)s,"error":{"code":-32602,"message":"no such tool"}}'
FRAMING = ("date", "content-length", "transfer-encoding")
"""Header fields that may differ: the time, and how the end of the body is told."""


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def response(value: Any) -> bytes:
    """The event of a response without a trim, as bytes for `stream`."""
    return event(b'{"jsonrpc":"2.0","id":%(id)s,"result":' + compact(value) + b"}")


def one_piece(events: bytes) -> Answerer:
    """An event stream whose head, events and end leave in one piece."""

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": EVENTS})
        await answer.prepare(request)
        await answer.write_eof(events.replace(b"%(id)s", received.id))
        return answer

    return answer


class Shape(NamedTuple):
    """A response of a server, without and with a stated trim; errors have none.

    Attributes:
        is_small_result: whether the route cache can write it, in a form that the client accepts.
    """

    plain: Answerer
    trimmed: Answerer | None
    is_events: bool = False
    is_small_result: bool = False


def with_progress(value: Any) -> Shape:
    first = event(PROGRESS)
    plain, cut = stream(first, response(value)), stream(first, trimmed_event(value))
    return Shape(plain, cut, is_events=True)


SHAPES = {
    "small JSON": Shape(result(compact(SMALL)), trimmed(SMALL), is_small_result=True),
    "large JSON": Shape(result(compact(LARGE)), trimmed(LARGE)),
    "small event": Shape(
        one_piece(response(SMALL)), one_piece(trimmed_event(SMALL)), is_events=True, is_small_result=True
    ),
    "large event": Shape(stream(response(LARGE)), stream(trimmed_event(LARGE)), is_events=True),
    "progress, small event": with_progress(SMALL),
    "progress, large event": with_progress(LARGE),
    "tool error": Shape(result(compact(TOOL_ERROR)), trimmed(TOOL_ERROR), is_small_result=True),
    "tool error as event": Shape(
        one_piece(response(TOOL_ERROR)),
        one_piece(trimmed_event(TOOL_ERROR)),
        is_events=True,
        is_small_result=True,
    ),
    "JSON-RPC error": Shape(error(-32602, "no such tool", {"k": 1}), None),
    "JSON-RPC error as event": Shape(one_piece(event(ERROR)), None, is_events=True),
}


# -- paths -------------------------------------------------------------------------------------------------


class Connections:
    """Returns a scripted answer, and records which connections carried a call."""

    answerer: Answerer

    def __init__(self) -> None:
        self.used: list[asyncio.Transport] = []
        self.is_fresh: list[bool] = []

    async def __call__(self, request: web.Request, received: Received) -> web.StreamResponse:
        assert request.transport is not None
        self.is_fresh.append(not any(one is request.transport for one in self.used))
        self.used.append(request.transport)
        return await self.answerer(request, received)


class Path(NamedTuple):
    """A path through the manager.

    Attributes:
        first: the first step of its calls.
        connection: to the server: `fresh` carried no call yet; with `none`, the call has to open it.
        is_late: whether the server answers only once a task waits.
    """

    name: str
    first: str
    connection: str
    is_late: bool = False


REFERENCE = Path("task, new connection", "task", "none")
PATHS = (
    REFERENCE,
    Path("direct, fresh connection", "direct", "fresh"),
    Path("direct", "direct", "warm"),
    Path("direct, then task, fresh connection", "direct", "fresh", is_late=True),
    Path("direct, then task", "direct", "warm", is_late=True),
    Path("cached, fresh connection", "cached", "fresh"),
    Path("cached, second equal call", "cached", "warm"),
    Path("cached, third equal call", "cached", "warm"),
    Path("cached, then task, fresh connection", "cached", "fresh", is_late=True),
    Path("cached, then task", "cached", "warm", is_late=True),
)
PATHS_WITHOUT_JSON = (
    REFERENCE,
    Path("task, fresh connection", "task", "fresh"),
    Path("task, second equal call", "task", "warm"),
    Path("task, third equal call", "task", "warm"),
)
"""Those of a client that accepts event streams only: every call takes the task path."""


def paths_of(accept: str, *, has_fast_path: bool) -> Sequence[Path]:
    """The paths of a client that accepts this. Without the fast path, all calls take the general way."""
    if JSON not in accept:
        return PATHS_WITHOUT_JSON
    return [path for path in PATHS if has_fast_path or path.first != "cached"]


def steps_of(path: Path, shape: Shape, *, is_trimmed: bool, kind: str, accept: str) -> list[str]:
    """The steps that a call has to take, as docs/build/forwarding.md and the relay table have them."""
    if path.first == "task":
        return ["task"]
    is_acceptable = accept == BOTH or not shape.is_events
    if path.first == "cached" and not path.is_late and shape.is_small_result and is_acceptable:
        return ["cached", "written"]
    steps = ["cached", "direct"] if path.first == "cached" else ["direct"]
    needs_task = shape.is_events or (shape is SHAPES["large JSON"] and kind == "session" and not is_trimmed)
    return [*steps, "task"] if needs_task or path.is_late else steps


class Caller:
    """A client whose calls take the path that a test wants; no two calls have the same id."""

    ids = itertools.count(100)

    def __init__(self, client: RawConnection, recorder: PathRecorder, upstream: Connections) -> None:
        self._client = client
        self._recorder = recorder
        self._upstream = upstream

    async def call(self, answerer: Answerer, path: Path) -> tuple[list[str], Any]:
        """Call by this path; returns the steps that the call took, and what the client got."""
        recorder, client, upstream = self._recorder, self._client, self._upstream
        await self._prepare(path.connection)
        upstream.answerer = held(recorder.in_task, answerer) if path.is_late else answerer
        upstream.is_fresh.clear()
        recorder.clear()
        identity = next(self.ids)
        # a cached route needs an equal head that came before
        extra = (f"User-Agent: {identity}",) if path.first == "direct" else ()
        with pytest.MonkeyPatch.context() as patch:
            if path.is_late:
                patch.setattr(direct_relay, "PATIENCE_S", 0.0)
            answer = await client.send(client.request(client.body("t", identity), *extra))
        assert upstream.is_fresh == [path.connection != "warm"], path.name
        return list(recorder.steps), comparable(answer, identity)

    async def _prepare(self, connection: str) -> None:
        """Close the idle connections to the server, and open a new one, as wanted."""
        pool = self._recorder.pool
        async with asyncio.timeout(5):
            await settled(pool)
            if connection == "warm":
                return
            while (idle := pool.take_now(time.monotonic())) is not None:
                idle.close("connection_lost")
            await settled(pool)
            assert not pool.idle_count
            if connection == "fresh":
                await pool.probe(5)


async def settled(pool: Pool) -> None:
    """Wait for the end of responses that their clients have already, and of closed connections."""
    while pool.in_use:
        await asyncio.sleep(0)


def comparable(answer: Answer, identity: int) -> dict[str, Any]:
    """Status, header fields and decoded messages, without what differs between any two calls."""
    assert answer.message["id"] == identity
    fields = {name.lower(): value for name, value in answer.headers.items()}
    return {
        "status": answer.status,
        "fields": {name: value for name, value in fields.items() if name not in FRAMING},
        "messages": [{**one, "id": 0} if "id" in one else one for one in answer.messages],
    }


# -- tests -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[True, False], ids=["with fast path", "without"])
def has_fast_path(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(
    tmp_path_factory: pytest.TempPathFactory, has_fast_path: bool
) -> AsyncIterator[RegisteredSetup]:
    with pytest.MonkeyPatch.context() as patch:
        if not has_fast_path:
            patch.setattr(assembly, "_fast_path", lambda *_: None)
        patch.setattr(workspaces, "ROOT_CHECK_S", 60)  # no call waits for a check of the folder
        patch.setattr(deadline, "GRAIN_S", 0.001)  # patience of 0 s is over at once
        patch.setattr(direct_relay, "PATIENCE_S", 20.0)  # no other call continues in a task for its time
        # one date in all heads of the server: with a head that is new to it, the route cache writes nothing
        patch.setattr(web_response, "rfc822_formatted_time", lambda: "Mon, 02 Nov 2026 10:00:00 GMT")
        async with registered_setup(
            tmp_path_factory.mktemp("paths"),
            health_interval_s=600,  # a health request takes the connection that a call is to find
        ) as running:
            yield running


@pytest.fixture(scope="module")
def recorder() -> Iterator[PathRecorder]:
    with PathRecorder().recording() as recorder:
        yield recorder


@contextlib.asynccontextmanager
async def caller(
    setup: RegisteredSetup, recorder: PathRecorder, kind: str, accept: str, *, is_warm: bool
) -> AsyncIterator[Caller]:
    """A client of this kind; its calls have a cached route if it `is_warm`."""
    era = "legacy" if kind == "session" else "modern"
    client = await connected(setup, era, "t", accept=accept)
    try:
        if is_warm:
            await client.warm("t")
        else:
            await client.call("t")  # the recorder gets to know the pool
        upstream = setup.upstream.answers["t"] = Connections()
        yield Caller(client, recorder, upstream)
    finally:
        client.close()


@pytest.mark.parametrize("accept", [BOTH, JSON, EVENTS])
@pytest.mark.parametrize("kind", ["session", "stateless"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_every_path_gives_the_same_answer(
    shape: str, kind: str, accept: str, setup: RegisteredSetup, recorder: PathRecorder, has_fast_path: bool
) -> None:
    """Status, content type, header fields and messages, with the result trim stated or not."""
    made = SHAPES[shape]
    paths = paths_of(accept, has_fast_path=has_fast_path)
    async with caller(setup, recorder, kind, accept, is_warm=has_fast_path and JSON in accept) as client:
        _, expected = await client.call(made.plain, REFERENCE)
        for is_trimmed, answer in ((False, made.plain), (True, made.trimmed)):
            for path in paths:
                if answer is not None:
                    steps, got = await client.call(answer, path)
                    wanted = steps_of(path, made, is_trimmed=is_trimmed, kind=kind, accept=accept)
                    assert (path.name, is_trimmed, steps) == (path.name, is_trimmed, wanted)
                    assert got == expected, (path.name, is_trimmed)
