"""Receives a server's notifications about changed lists and subscribed resources.

Servers with sessions (MCP ≤ 2025-11-25) send them unasked. For stateless servers (2026-07-28) one
`subscriptions/listen` request is kept open for the lists and one for the resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.tool import RpcError

# A server that ends each stream at once would be asked without pause.
LISTEN_AGAIN_S: Final = 5.0
# The request that subscribes waits for this; the previous subscription stays open meanwhile.
ACKNOWLEDGED_S: Final = 5.0
_KINDS: Final = ("tools", "prompts", "resources")

Request = Callable[[str, Mapping[str, Any]], Awaitable[msgspec.Raw | RpcError]]
"""Sends a request without a time limit; raises `Unavailable`."""


class ChangeFeed:
    """The change notifications of one session.

    Args:
        on_change: called with `tools`, `prompts` or `resources`, at most once in 250 ms.
        on_update: called with the URI of a resource.
        source: id of the source, for names of tasks.
    """

    def __init__(
        self, on_change: Callable[[str], None], on_update: Callable[[str], None], source: str
    ) -> None:
        self._changes = Changes(on_change)
        self._on_update = on_update
        self._source = source
        self._stopped = False
        self._lists: asyncio.Task[None] | None = None
        self._resources: asyncio.Task[None] | None = None
        self._accepted: asyncio.Future[frozenset[str]] | None = None

    def handle(self, method: str, params: msgspec.Raw) -> None:
        """Handle a notification that belongs to no single request."""
        if method == names.RESOURCE_UPDATED:
            uri = jsonrpc.text_of(jsonrpc.members_of(params).get("uri", b""))
            if uri is not None and not self._stopped:
                self._on_update(uri)
        elif method == names.ACKNOWLEDGED:
            self._acknowledged(jsonrpc.members_of(params))
        else:
            self._changes.handle(method)

    def listen_to_lists(self, request: Request, capabilities: Mapping[str, Any]) -> None:
        """Listen to list changes of a stateless server, if it declares them."""
        filters = {
            f"{kind}ListChanged": True
            for kind in _KINDS
            if isinstance(offered := capabilities.get(kind), Mapping) and offered.get("listChanged") is True
        }
        if filters:
            self._lists = self._start(request, filters)

    async def listen_to(self, request: Request, uris: Sequence[str]) -> frozenset[str] | None:
        """Listen to exactly these resources. Returns those that the server accepts.

        The previous request stays open until the new one is acknowledged, so that no change is lost. If the
        server refuses or does not acknowledge (None), the previous one goes on.
        """
        before, now = self._resources, None
        accepted = self._accepted = asyncio.get_running_loop().create_future()
        try:
            if uris:
                now = self._start(request, {"resourceSubscriptions": list(uris)})
                both = (accepted, now)
                await asyncio.wait(both, timeout=ACKNOWLEDGED_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                accepted.set_result(frozenset())
        finally:
            self._accepted = None
            self._resources, over = (now, before) if accepted.done() else (before, now)
            if over is not None:
                over.cancel()
        return accepted.result() if accepted.done() else None

    async def stop(self) -> None:
        """Stop listening and reporting. Idempotent."""
        self._stopped = True
        self._changes.stop()
        tasks = [task for task in (self._lists, self._resources) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _acknowledged(self, params: Mapping[str, msgspec.Raw]) -> None:
        honoured = jsonrpc.members_of(params.get("notifications", b""))
        if "resourceSubscriptions" in honoured and self._accepted is not None and not self._accepted.done():
            try:
                uris = msgspec.json.decode(honoured["resourceSubscriptions"], type=frozenset[str])
            except msgspec.DecodeError:
                uris = frozenset()
            self._accepted.set_result(uris)

    def _start(self, request: Request, filters: Mapping[str, Any]) -> asyncio.Task[None]:
        return asyncio.create_task(self._listen(request, filters), name=f"listen-{self._source}")

    async def _listen(self, request: Request, filters: Mapping[str, Any]) -> None:
        """Listen until the server refuses; reopen a stream that breaks."""
        while True:
            try:
                answer = await request(names.LISTEN, {"notifications": filters})
            except Unavailable:
                answer = None
            if isinstance(answer, RpcError) or self._stopped:
                return
            await asyncio.sleep(LISTEN_AGAIN_S)
            self._report_all(filters)

    def _report_all(self, filters: Mapping[str, Any]) -> None:
        """Report everything as changed, because notifications between two streams are lost."""
        for kind in _KINDS:
            if f"{kind}ListChanged" in filters:
                self._changes.add(kind)
        for uri in filters.get("resourceSubscriptions", ()):
            self._on_update(uri)


# A server that registers its tools one by one announces each: one refresh serves all of them.
COALESCE_S: Final = 0.25
SOON_S: Final = 0.02
"""Seconds until the first change after a quiet time is reported: others often follow at once."""
_KIND_OF_METHOD: Final = {
    names.TOOLS_CHANGED: "tools",
    names.PROMPTS_CHANGED: "prompts",
    names.RESOURCES_CHANGED: "resources",
}


class Changes:
    """Collects changed lists. `on_change` gets `tools`, `prompts` or `resources`."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._kinds: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    def handle(self, method: str) -> None:
        """Handle a notification that belongs to no single request."""
        if method in _KIND_OF_METHOD:
            self.add(_KIND_OF_METHOD[method])

    def add(self, kind: str) -> None:
        """Report this list soon, or within 250 ms if changes were just reported."""
        self._kinds.add(kind)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time() + SOON_S, self._next_at), self._report)

    def stop(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()
        self._on_change = _ignore

    def _report(self) -> None:
        self._timer, self._next_at = None, asyncio.get_running_loop().time() + COALESCE_S
        kinds, self._kinds = self._kinds, set()
        for kind in sorted(kinds):
            self._on_change(kind)


def _ignore(_kind: str) -> None:
    """Receives changes after the end."""
