"""One raw client connection for tool calls: the test controls every byte and every TCP segment.

The calls share their head except for its length, and differ in id and arguments, so that the route cache
(`manager/route_cache/route_cache.py`) applies. `calls_known_again` tells for which calls it did.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import pytest
from multidict import CIMultiDict

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.call_pattern import PatternValues
from manager.forwarding.forwarded_call import ForwardedCall
from manager.route_cache.cached_calls import CachedCalls
from manager.route_cache.cached_route import CachedRoute
from manager.route_cache.route_cache import RouteCache
from manager.routing.state.session_table import Session
from support.clients import stateless_requests as modern
from support.clients.raw_clients import BOTH, JSON, Answer
from support.projects.registered_setup import RegisteredSetup
from support.servers.scripted.scripted_answers import PLAIN_RESULT

WITHIN_S = 10.0


class Known(list[CachedRoute]):
    """The routes of calls that were known again.

    Attributes:
        answered: how many of these calls were read in neither direction.
        session: that of the last call that might have been one.
        path: who knows them.
    """

    answered = 0
    path: RouteCache | None = None
    session: Session | None = None


@contextlib.contextmanager
def calls_known_again(*, ever: bool = True) -> Iterator[Known]:
    """The calls that are known again meanwhile; not `ever`: all calls are read."""
    known = Known()
    begin, take, is_valid = RouteCache.begin, CachedCalls.take, RouteCache.is_valid

    def begun(
        self: RouteCache,
        route: CachedRoute,
        values: PatternValues,
        session: str | None,
        now: float,
        made_trace: int,
    ) -> ForwardedCall:
        known.append(route)
        return begin(self, route, values, session, now, made_trace)

    def taken(self: CachedCalls, data: bytes) -> bool:
        is_answered = take(self, data)
        known.answered += is_answered
        return is_answered

    def asked(self: RouteCache, route: CachedRoute, session: Session | None, now: float) -> bool:
        known.session, known.path = session, self
        return ever and is_valid(self, route, session, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RouteCache, "begin", begun)
        patch.setattr(CachedCalls, "take", taken)
        patch.setattr(RouteCache, "is_valid", asked)
        yield known


async def sent(known: Known, count: int) -> None:
    """Wait until so many calls were known again, and are on their way."""
    async with asyncio.timeout(WITHIN_S):
        while len(known) < count:
            await asyncio.sleep(0.001)


class RawConnection:
    """A client of either era, stateless at the workspace endpoint, or with a session.

    Attributes:
        lines: the lines of its heads, without those about the body.
        path: of its requests.
        port: where it is connected.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, setup: RegisteredSetup, path: str, *lines: str, accept: str = BOTH) -> None:
        self.setup = setup
        self.path = path
        self.port = setup.manager.port
        self.lines = [f"Host: 127.0.0.1:{self.port}", f"Accept: {accept}", f"Content-Type: {JSON}", *lines]
        self.is_modern = any(headers.METHOD in line for line in lines)
        self._ids = itertools.count(1000)

    async def open(self) -> None:
        """Connect, again where it was connected before."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    def close(self) -> None:
        """Leave, without a word."""
        self.writer.transport.abort()

    @contextlib.asynccontextmanager
    async def other(self) -> AsyncIterator[Self]:
        """Another connection of the same client."""
        twin = copy.copy(self)
        await twin.open()
        try:
            yield twin
        finally:
            twin.close()

    # -- bytes ------------------------------------------------------------------------------------------

    def body(self, tool: str, identity: Any = 7, arguments: Any = None) -> bytes:
        """A call."""
        params = {
            "name": tool,
            "arguments": arguments or {},
            **({"_meta": modern.META} if self.is_modern else {}),
        }
        call = {"jsonrpc": "2.0", "id": identity, "method": names.TOOLS_CALL, "params": params}
        return json.dumps(call, separators=(",", ":"), ensure_ascii=False).encode()

    def head(self, length: int | str, *extra: str) -> bytes:
        """The head of a request."""
        lines = [f"POST {self.path} HTTP/1.1", *self.lines, f"Content-Length: {length}", *extra]
        return "\r\n".join([*lines, "", ""]).encode()

    def request(self, body: bytes, *extra: str) -> bytes:
        """A whole request; `extra` are more lines of its head."""
        return self.head(len(body), *extra) + body

    async def answer(self) -> Answer:
        """The next answer."""
        async with asyncio.timeout(WITHIN_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head[:-4].split("\r\n")
            told = CIMultiDict(tuple(field.split(": ", 1)) for field in fields)
            return Answer(int(line.split()[1]), told, await self._body(told))

    async def _body(self, told: CIMultiDict[str]) -> bytes:
        if "Content-Length" in told:
            return await self.reader.readexactly(int(told["Content-Length"]))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return body

    async def send(self, raw: bytes, *more: bytes) -> Answer:
        """Send pieces, each given time to arrive alone, and read one answer."""
        self.writer.write(raw)
        for piece in more:
            for _ in range(3):
                await asyncio.sleep(0)
            self.writer.write(piece)
        return await self.answer()

    # -- calls ------------------------------------------------------------------------------------------

    async def call(self, tool: str, identity: Any = 7, arguments: Any = None) -> Answer:
        """Call a tool."""
        return await self.send(self.request(self.body(tool, identity, arguments)))

    async def warm(self, tool: str) -> None:
        """Call a tool until such calls are known, wherever they come from, and when they follow each other."""
        self.setup.upstream.answers[tool] = PLAIN_RESULT
        with calls_known_again() as known:
            for _ in range(8):
                answer = await self.call(tool, next(self._ids))
                assert answer.status == 200, answer
                if known.answered == 2:
                    return
        raise AssertionError("these calls are never known again")


async def connected(
    setup: RegisteredSetup, era: str, tool: str, *lines: str, accept: str = BOTH
) -> RawConnection:
    """A client of an era. `tool` is the only one that a modern client's head names."""
    if era == "modern":
        body = modern.body_of(names.TOOLS_CALL, {"name": tool})
        own = [
            f"{name}: {value}"
            for name, value in modern.headers_of(body, None).items()
            if name != "Content-Type"
        ]
        client = RawConnection(
            setup, setup.pure_url.removeprefix(setup.manager.base), *own, *lines, accept=accept
        )
    else:
        session = await setup.legacy()
        own = [f"{headers.SESSION}: {session.session}", f"{headers.VERSION}: {session.revision}"]
        client = RawConnection(setup, names.MCP_PATH, *own, *lines, accept=accept)
    await client.open()
    return client


@contextlib.asynccontextmanager
async def warmed(setup: RegisteredSetup, era: str, tool: str, *lines: str) -> AsyncIterator[RawConnection]:
    """A client of an era, whose calls of a tool are known already."""
    client = await connected(setup, era, tool, *lines)
    try:
        await client.warm(tool)
        yield client
    finally:
        client.close()
