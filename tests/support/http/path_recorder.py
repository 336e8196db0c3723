"""Records which path each forwarded call takes through the manager (docs/build/forwarding.md)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from lm_tools_bridge.protocol.call_pattern import PatternValues
from manager.answers.replies import AnyReply
from manager.answers.upstream_request import PreparedCall
from manager.endpoints.mcp import McpRoutes
from manager.forwarding.forwarded_call import ForwardedCall
from manager.http.request import HttpRequest
from manager.relay.direct_relay import DirectRelay
from manager.relay.writer import Writer
from manager.route_cache.cached_calls import CachedCalls
from manager.route_cache.cached_route import CachedRoute
from manager.route_cache.route_cache import RouteCache
from manager.supervision.instance import Instance
from manager.upstream.pool import Pool


class PathRecorder:
    """Records the steps of each call: `cached`, `written` (from the cache), `direct`, `task`.

    Attributes:
        steps: those since the last `clear`.
        in_task: set when a task has a call.
        pool: the connections to the workspace server that was called last.
    """

    pool: Pool

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.in_task = asyncio.Event()

    def clear(self) -> None:
        self.steps.clear()
        self.in_task.clear()

    @contextlib.contextmanager
    def recording(self) -> Iterator[PathRecorder]:
        """Record while the block lasts."""
        begin, take, credentials = RouteCache.begin, CachedCalls.take, Instance.credentials
        relay_directly, answer = McpRoutes.relay_directly, Writer.answer

        def cached(
            cache: RouteCache,
            route: CachedRoute,
            values: PatternValues,
            session: str | None,
            now: float,
            made_trace: int,
        ) -> ForwardedCall:
            self.steps.append("cached")
            return begin(cache, route, values, session, now, made_trace)

        def written(calls: CachedCalls, data: bytes) -> bool:
            is_written = take(calls, data)
            if is_written:
                self.steps.append("written")
            return is_written

        def direct(
            routes: McpRoutes, http_request: HttpRequest, call: PreparedCall, patience_s: float
        ) -> DirectRelay:
            self.steps.append("direct")
            return relay_directly(routes, http_request, call, patience_s)

        async def in_task(writer: Writer, making: Coroutine[Any, Any, AnyReply]) -> None:
            self.steps.append("task")
            self.in_task.set()
            await answer(writer, making)

        def credentials_of(instance: Instance) -> tuple[bytes, bytes]:
            self.pool = instance.pool
            return credentials(instance)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RouteCache, "begin", cached)
            patch.setattr(CachedCalls, "take", written)
            patch.setattr(McpRoutes, "relay_directly", direct)
            patch.setattr(Writer, "answer", in_task)
            patch.setattr(Instance, "credentials", credentials_of)
            yield self
