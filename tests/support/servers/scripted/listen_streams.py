"""The listen streams of a scripted workspace server: who subscribed to what, and events sent to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from lm_tools_bridge.protocol import names
from support.processes.timeouts import within
from support.servers.scripted.scripted_workspace_server import Received, ScriptedWorkspaceServer, event


class ListenStreams:
    """Serves `subscriptions/listen` of an upstream.

    Attributes:
        filters: what each request asked for, oldest first.
        open: the streams that are open now, each with what it asked for.
        refused: resources that are not honoured.
        attentive: set while requests are acknowledged.
    """

    def __init__(self, upstream: ScriptedWorkspaceServer) -> None:
        self.filters: list[dict[str, Any]] = []
        self.open: list[tuple[dict[str, Any], web.StreamResponse]] = []
        self.refused: set[str] = set()
        self.attentive = asyncio.Event()
        self.attentive.set()
        self._transports: list[asyncio.Transport] = []
        self._stirred = asyncio.Event()
        upstream.answers[names.LISTEN] = self._answer

    @property
    def resources(self) -> list[set[str]]:
        """The resources that the open streams are asked for."""
        return [set(wanted.get("resourceSubscriptions", ())) for wanted, _ in self.open]

    async def say(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Say something on every open stream; one that was just closed at its other end does not count."""
        for _, response in list(self.open):
            with contextlib.suppress(ConnectionError):
                await response.write(event({"jsonrpc": "2.0", "method": method, "params": params or {}}))

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that streams coming and going bring about."""
        async with asyncio.timeout(within(2.5)):
            while not condition():
                self._stirred.clear()
                await self._stirred.wait()

    def break_off(self) -> None:
        """Cut the connection of every open stream."""
        for transport in list(self._transports):
            transport.abort()

    async def _answer(self, request: web.Request, received: Received) -> web.StreamResponse:
        wanted = received.params["notifications"]
        self.filters.append(wanted)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        honoured = dict(wanted)
        if "resourceSubscriptions" in wanted:
            honoured["resourceSubscriptions"] = sorted(set(wanted["resourceSubscriptions"]) - self.refused)
        meta = {names.META_SUBSCRIPTION: json.loads(received.id)}
        acknowledged = {"notifications": honoured, "_meta": meta}
        self.open.append((wanted, response))
        assert request.transport is not None
        transport = request.transport
        self._transports.append(transport)
        self._stirred.set()
        try:
            await self.attentive.wait()
            await response.write(
                event({"jsonrpc": "2.0", "method": names.ACKNOWLEDGED, "params": acknowledged})
            )
            await asyncio.Event().wait()
        finally:
            self.open.remove((wanted, response))
            self._transports.remove(transport)
            self._stirred.set()
        return response
