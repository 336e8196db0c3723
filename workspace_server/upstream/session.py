"""A session with somebody else's MCP server, in the era that server speaks, over any connection.

Calls pass through as bytes in both directions; only what belongs to one hop is made anew (T-84 to T-99,
T-155, T-160, T-185). Matching answers to questions is `exchange.py`, how bytes travel is the transport's
business, and who starts and restarts sessions is the source's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.errors import Reason
from protocol.versions import Era
from workspace_server.results import clean_text
from workspace_server.source import CallContext, CallOutcome, Greeting, RpcError, ToolResult
from workspace_server.upstream import handshake, messages
from workspace_server.upstream.changes import Changes
from workspace_server.upstream.exchange import BrokenAnswer, Exchange
from workspace_server.upstream.failures import SessionFailed, TransportEnded, Unavailable
from workspace_server.upstream.junk import Junk
from workspace_server.upstream.paging import Pages
from workspace_server.upstream.transport import Lost, Transport

__all__ = ["Lost", "Session", "Transport"]

REQUEST_S: Final = 30.0
"""How long the answer to anything but a call may take."""
LISTEN_AGAIN_S: Final = 5.0
FIRST_ANSWER_S: Final = 0.25
"""How long a server that does not answer a ping keeps its first caller."""
ROOTS_S: Final = 0.1
"""How long a server that asked for the roots may take until it goes by them; 20 to 50 ms were seen."""


class Session:
    """One session, ready for calls. Made by `open`; ends by itself or with `close`.

    Attributes:
        greeting: era, revision, and what the server said of itself.
        exchange: its traffic, for status.
    """

    def __init__(
        self, exchange: Exchange, greeting: Greeting, changes: Changes, source: str, version: str
    ) -> None:
        self.exchange = exchange
        self.greeting = greeting
        self._changes = changes
        self._source = source
        self._version = version
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        transport: Transport,
        *,
        source: str,
        root: str,
        timeout_s: float,
        on_change: Callable[[str], None],
        on_end: Callable[[str], None],
        version: str,
        junk: Junk | None = None,
    ) -> Session:
        """Shake hands in the era the server speaks (T-85).

        Args:
            transport: a fresh connection; it is closed if this raises.
            source: id of the source, for texts and logs.
            root: absolute path of the workspace, the answer to `roots/list`.
            timeout_s: how long all of it may take.
            on_change: called with `tools`, `prompts` or `resources` when the server says that list changed,
                at most once in 250 ms (T-107).
            on_end: called once, with the reason, when the open session ends by itself.
            version: of this product.
            junk: where to count what is no message; a new counter by default.

        Raises:
            SessionFailed: no handshake.
        """
        changes = Changes(on_change)
        exchange = Exchange(
            transport, source=source, root=root, junk=junk or Junk(), on_notification=changes.heard
        )
        try:
            greeting = await _greet(exchange, transport, version, timeout_s)
        except BaseException:
            changes.stop()
            await exchange.close()
            raise
        session = cls(exchange, greeting, changes, source, version)
        exchange.watch(on_end)
        session._listen()
        return session

    @property
    def ended(self) -> str | None:
        """Why the session is over, None while it lives."""
        return None if self.exchange.ended is None else self.exchange.ended.reason

    def described(self) -> dict[str, Any]:
        """What is spoken, and what the server said of itself, cleaned (T-17), for status."""
        info = self.greeting.server_info
        texts = {key: info[key] for key in ("name", "title", "version") if isinstance(info.get(key), str)}
        return {
            "era": self.greeting.era.value,
            "protocolVersion": self.greeting.revision,
            "serverInfo": {key: clean_text(text)[:200] for key, text in texts.items()},
            "said": [f"{level}: {text}" for level, text in self.exchange.said],
        }

    async def settle(self) -> None:
        """Let a server take its roots in before anybody calls it.

        Servers ask for them after `initialized`, and refuse what lies outside until they have the answer; no
        message says when that is. One that asked nothing by its first answer is not waited for.
        """
        if self.greeting.era is not Era.LEGACY:
            return
        with suppress(Unavailable, BrokenAnswer, TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self.exchange.ask(self.exchange.number(), names.PING, {})
        if self.exchange.roots_told:
            await asyncio.sleep(ROOTS_S)

    async def call(self, name: str, context: CallContext, timeout_s: float | None = None) -> CallOutcome:
        """One `tools/call`; `name` is the tool's name at its server.

        The caller's progress token is replaced on the way there and restored on the way back. Cancelling the
        task cancels the call at the server.

        Raises:
            Unavailable: there is no answer; with `Reason.CALL_TIMED_OUT` where `timeout_s` ran out.
        """
        number = self.exchange.number()
        meta = context.meta
        token = meta.get("progressToken")

        async def progress(params: Mapping[str, msgspec.Raw]) -> None:
            await context.notify(names.PROGRESS, {**params, "progressToken": token})

        own = self._meta(context.capabilities)
        params = messages.call_params(name, context, meta, own, None if token is None else number)
        listener = None if token is None else progress
        try:
            async with _deadline(names.TOOLS_CALL, timeout_s):
                answer = await self.exchange.ask(number, names.TOOLS_CALL, params, listener)
        except BrokenAnswer:
            return self._unreadable("something that is no valid JSON (NaN, Infinity, half a character)")
        if isinstance(answer, RpcError):
            return answer
        return messages.completed(answer) or self._unreadable("a result that is no object")

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float | None = REQUEST_S
    ) -> msgspec.Raw | RpcError:
        """Any other request; the `_meta` of this hop is added.

        Raises:
            Unavailable: as for `call`, or the answer cannot be read.
        """
        own = self._meta({})
        sent = {**(params or {}), "_meta": own} if own else params or {}
        try:
            async with _deadline(method, timeout_s):
                return await self.exchange.ask(self.exchange.number(), method, sent)
        except BrokenAnswer:
            raise Unavailable(f"answered {method} with something that is no valid JSON", "unknown") from None

    async def list_all(self, method: str, member: str, timeout_s: float = REQUEST_S) -> Pages:
        """All pages of a list within the caps of T-16; empty where the server has no such method.

        Args:
            method: e.g. `tools/list`.
            member: the list's name in the result, e.g. `tools`.
            timeout_s: for all pages together.

        Raises:
            Unavailable: no list.
        """
        pages = Pages(member)
        params: Mapping[str, Any] = {}
        async with _deadline(method, timeout_s):
            while True:
                answer = await self.request(method, params, None)
                if isinstance(answer, RpcError):
                    if answer.code == jsonrpc.METHOD_NOT_FOUND and not params:
                        return pages
                    text = f"{method}: {clean_text(answer.message[:500])} ({answer.code})"
                    raise Unavailable(text, "unknown")
                try:
                    cursor = pages.take(answer)
                except ValueError as problem:
                    raise Unavailable(f"{method}: {problem}", "unknown") from None
                if cursor is None:
                    return pages
                params = {"cursor": cursor}

    async def close(self) -> None:
        """End the session and its connection. Calls under way fail; `on_end` is not called. Idempotent."""
        self._changes.stop()
        if self._listening is not None:
            self._listening.cancel()
        try:
            await self.exchange.close()
        finally:
            if self._listening is not None:
                await asyncio.gather(self._listening, return_exceptions=True)

    def _meta(self, capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
        return messages.hop_meta(self.greeting.era, self.greeting.revision, self._version, capabilities)

    def _unreadable(self, what: str) -> ToolResult:
        """No structured part: the tool may have promised a shape for that (D-14)."""
        return ToolResult(f"Error: the source {self._source} answered with {what}", is_error=True)

    def _listen(self) -> None:
        """In the modern era a server only tells of changes whoever asks for that (row M18)."""
        offers = {
            kind: isinstance(offered := self.greeting.capabilities.get(kind), Mapping)
            and offered.get("listChanged") is True
            for kind in ("tools", "prompts", "resources")
        }
        if self.greeting.era is Era.MODERN and any(offers.values()):
            wanted = {f"{kind}ListChanged": True for kind, offered in offers.items() if offered}
            self._listening = asyncio.create_task(self._hear_changes(wanted), name=f"listen-{self._source}")

    async def _hear_changes(self, wanted: Mapping[str, bool]) -> None:
        while self.ended is None:
            try:
                answer = await self.request(names.LISTEN, {"notifications": wanted}, None)
            except Unavailable:
                answer = None
            if isinstance(answer, RpcError):
                return
            await asyncio.sleep(LISTEN_AGAIN_S)  # a stream that broke; what happened meanwhile nobody told
            for name in wanted:
                self._changes.add(name.removesuffix("ListChanged"))


@asynccontextmanager
async def _deadline(method: str, timeout_s: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError:
        text = f"no answer to {method} within {timeout_s:g} s"
        raise Unavailable(text, "unknown", Reason.CALL_TIMED_OUT) from None


async def _greet(exchange: Exchange, transport: Transport, version: str, timeout_s: float) -> Greeting:
    try:
        async with asyncio.timeout(timeout_s):
            greeting = await handshake.shake(exchange, version)
            transport.negotiated(greeting.era, greeting.revision)
            if greeting.era is Era.LEGACY:
                await exchange.tell(names.INITIALIZED)
            return greeting
    except TimeoutError:
        raise SessionFailed(f"no answer to the handshake within {timeout_s:g} s") from None
    except SessionFailed:
        raise
    except Unavailable as failure:
        raise SessionFailed(failure.text, retry_after_ms=failure.retry_after_ms) from failure
    except TransportEnded as end:
        raise SessionFailed(end.reason) from end
