"""An open MCP session with another server, in the protocol revision that server speaks.

Parameters and results pass through as bytes; only the members that belong to one hop are set anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import apps_extension, jsonrpc, names
from lm_tools_bridge.protocol.names import LOG_LEVELS, Era
from workspace_server.call_context import CallContext, Client
from workspace_server.results import clean_text
from workspace_server.source import HandshakeResult
from workspace_server.sources.mcp import handshake
from workspace_server.sources.mcp.change_feed import ChangeFeed
from workspace_server.sources.mcp.failures import Unavailable, answered_within
from workspace_server.sources.mcp.invalid_output import InvalidOutput
from workspace_server.sources.mcp.paging import Pages
from workspace_server.sources.mcp.rpc import messages
from workspace_server.sources.mcp.rpc.connection import InvalidResponseError, RpcConnection
from workspace_server.sources.mcp.rpc.hang_check import HangCheck
from workspace_server.sources.mcp.rpc.transport import Transport
from workspace_server.tool import CallOutcome, RpcError, ToolResult

REQUEST_S: Final = 30.0
"""Time limit of every request but calls, in seconds."""
FIRST_ANSWER_S: Final = 0.25
"""How long the first caller waits for a server's answer to `ping`, in seconds."""
ROOTS_S: Final = 0.1
"""How long a server that requested the roots needs to apply them; 20 to 50 ms were measured."""


def _ignore_update(uri: str) -> None:
    """Drops updates of resources without a subscription."""


class Session:
    """One session, ready for calls. Made by `open`; ends by itself or with `close`.

    Attributes:
        handshake_result: era, revision, and what the server says about itself.
        rpc: its JSON-RPC connection, for status.
    """

    def __init__(
        self,
        rpc: RpcConnection,
        handshake_result: HandshakeResult,
        changes: ChangeFeed,
        source: str,
        version: str,
        *,
        offers_apps: bool = False,
    ) -> None:
        self.rpc = rpc
        self.handshake_result = handshake_result
        self._changes = changes
        self._source = source
        self._version = version
        self._offers_apps = offers_apps
        self._level = LogLevel(self._set_level)
        self._subscribed: frozenset[str] = frozenset()

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
        on_update: Callable[[str], None] = _ignore_update,
        junk: InvalidOutput | None = None,
        first: Era = Era.LEGACY,
        hang_check: HangCheck | None = None,
        limit: asyncio.Timeout | None = None,
        offers_apps: bool = False,
    ) -> Session:
        """Open a session with the newest revision the server supports.

        Args:
            transport: a fresh connection; it is closed if this raises.
            source: id of the source, for texts and logs.
            root: absolute path of the workspace, the answer to `roots/list`.
            timeout_s: limit of the handshake in seconds.
            on_change: called with `tools`, `prompts` or `resources` when the server says that list changed,
                at most once in 250 ms.
            on_end: called once, with the reason, when the open session ends by itself.
            version: of this product.
            on_update: called with the URI of a subscribed resource when the server says that it changed.
            junk: where to count what is no message; a new counter by default.
            first: the era that is tried first.
            hang_check: ends the session when the server hangs; None if it may.
            limit: the time limit of the handshake in place of `timeout_s`, which its maker may move.
            offers_apps: whether the server is told of clients that show apps (MCP Apps).

        Raises:
            SessionFailed: no handshake.
        """
        changes = ChangeFeed(on_change, on_update, source)
        rpc = RpcConnection(
            transport,
            source=source,
            root=root,
            junk=junk or InvalidOutput(),
            on_notification=changes.handle,
            hang_check=hang_check,
        )
        try:
            handshake_result = await handshake.negotiate(
                rpc,
                transport,
                version,
                limit or asyncio.timeout(timeout_s),
                first,
                offers_apps=offers_apps,
            )
        except BaseException:
            await changes.stop()
            await rpc.close()
            raise
        session = cls(rpc, handshake_result, changes, source, version, offers_apps=offers_apps)
        rpc.watch(on_end)
        if handshake_result.era is Era.MODERN:
            changes.listen_to_lists(session._open_ended, handshake_result.capabilities)
        return session

    @property
    def ended(self) -> str | None:
        """Why the session ended; None while it is open."""
        return None if self.rpc.ended is None else self.rpc.ended.reason

    def status(self) -> dict[str, Any]:
        """Revision and server info with cleaned texts, for status."""
        info = self.handshake_result.server_info
        texts = {key: info[key] for key in ("name", "title", "version") if isinstance(info.get(key), str)}
        return {
            "era": self.handshake_result.era.value,
            "protocolVersion": self.handshake_result.revision,
            "serverInfo": {key: clean_text(text)[:200] for key, text in texts.items()},
            "said": [f"{level}: {text}" for level, text in self.rpc.log_messages],
        }

    async def wait_for_roots(self) -> None:
        """Wait until a server has applied its roots.

        Servers request them after `initialized`, and refuse paths outside until they have the answer; no
        message says when that is. A server without such a request by its first answer is not waited for.
        """
        if self.handshake_result.era is not Era.LEGACY:
            return
        with suppress(Unavailable, InvalidResponseError, TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self.rpc.request(self.rpc.next_id(), names.PING, {})
        if self.rpc.roots_sent:
            await asyncio.sleep(ROOTS_S)

    async def call(self, name: str, context: CallContext, timeout_s: float | None = None) -> CallOutcome:
        """One `tools/call`, as `forward`; `name` is the tool's name at its server."""
        others = {key: raw for key, raw in context.params.items() if key not in ("name", "arguments")}
        params = {"name": name, "arguments": context.arguments, **others}
        return await self.forward(names.TOOLS_CALL, params, context, timeout_s)

    async def forward(
        self, method: str, params: Mapping[str, Any], context: CallContext, timeout_s: float | None = None
    ) -> CallOutcome:
        """One request on behalf of a client.

        What the server reports, logs and asks meanwhile reaches that client. Its progress token is replaced
        on the way there and restored on the way back. Cancelling the task cancels the request at the server.

        Args:
            method: any method that has an answer.
            params: its parameters; `_meta`, `inputResponses` and `requestState` are those of the context.
            context: the client's.
            timeout_s: how long it may take.

        Returns:
            What the modern era calls for, whatever the server speaks: results with their `resultType`.

        Raises:
            Unavailable: there is no answer; with `Reason.CALL_TIMED_OUT` where `timeout_s` ran out.
        """
        number, client, era = self.rpc.next_id(), Client(context), self.handshake_result.era
        capabilities = context.capabilities
        if not self._offers_apps:
            capabilities = apps_extension.without_apps(capabilities)
        sent = messages.forwarded_params(params, client, self._meta(capabilities), number, era)
        try:
            answer = await self._request_for(number, method, sent, client, timeout_s)
        except InvalidResponseError:
            what = "something that is no valid JSON in UTF-8 (NaN, Infinity, half a character)"
            return self._invalid_result(method, what)
        if isinstance(answer, RpcError):
            return messages.to_modern_error(answer, method, era)
        result = messages.to_modern_result(answer, method, params)
        return result or self._invalid_result(method, "a result that is no object")

    async def _request_for(
        self, number: int, method: str, sent: Mapping[str, Any], client: Client, timeout_s: float | None
    ) -> msgspec.Raw | RpcError:
        level = self._level_of(client)
        if level is None and timeout_s is None:  # as with nearly all calls
            return await self.rpc.request(number, method, sent, client)
        async with answered_within(method, timeout_s), self._level.wanted(level):
            return await self.rpc.request(number, method, sent, client)

    async def subscribe(self, uri: str) -> RpcError | None:
        """Hear of this resource from now on (`on_update`); the server's refusal, if it refuses.

        Raises:
            Unavailable: as for `request`.
        """
        if self.handshake_result.era is Era.LEGACY:
            answer = await self.request(names.SUBSCRIBE, {"uri": uri})
            return answer if isinstance(answer, RpcError) else None
        if uri in await self._listen_to(self._subscribed | {uri}):
            return None
        return RpcError(jsonrpc.INVALID_PARAMS, "the server does not tell of this resource")

    async def unsubscribe(self, uri: str) -> None:
        """Hear of it no more. Raises `Unavailable`."""
        if self.handshake_result.era is Era.LEGACY:
            await self.request(names.UNSUBSCRIBE, {"uri": uri})
        else:
            await self._listen_to(self._subscribed - {uri})

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, timeout_s: float | None = REQUEST_S
    ) -> msgspec.Raw | RpcError:
        """Any other request; the `_meta` of this hop is added.

        Raises:
            Unavailable: as for `call`, or the answer cannot be read.
        """
        own = self._meta(handshake.listing_capabilities(self._offers_apps))
        sent = {**(params or {}), "_meta": own} if own else params or {}
        try:
            async with answered_within(method, timeout_s):
                return await self.rpc.request(self.rpc.next_id(), method, sent)
        except InvalidResponseError:
            raise Unavailable(f"answered {method} with something that is no valid JSON", "unknown") from None

    async def list_all(self, method: str, member: str, timeout_s: float = REQUEST_S) -> Pages:
        """All pages of a list within the caps; empty where the server has no such method.

        Args:
            method: e.g. `tools/list`.
            member: the list's name in the result, e.g. `tools`.
            timeout_s: for all pages together.

        Raises:
            Unavailable: no list.
        """
        pages = Pages(member)
        params: Mapping[str, Any] = {}
        async with answered_within(method, timeout_s):
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
        await self._changes.stop()
        await self.rpc.close()

    def _meta(self, capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
        result = self.handshake_result
        return messages.hop_meta(result.era, result.revision, self._version, capabilities)

    def _level_of(self, client: Client) -> str | None:
        """The log level to set at the server; in the modern era each request carries it."""
        is_legacy = self.handshake_result.era is Era.LEGACY
        return client.level if is_legacy and "logging" in self.handshake_result.capabilities else None

    async def _set_level(self, level: str) -> None:
        with suppress(Unavailable):
            await self.request(names.SET_LEVEL, {"level": level}, SET_S)

    async def _open_ended(self, method: str, params: Mapping[str, Any]) -> msgspec.Raw | RpcError:
        return await self.request(method, params, None)

    async def _listen_to(self, uris: frozenset[str]) -> frozenset[str]:
        honoured = await self._changes.listen_to(self._open_ended, sorted(uris))
        if honoured is not None:
            self._subscribed = honoured
        return self._subscribed

    def _invalid_result(self, method: str, what: str) -> CallOutcome:
        """No structured part: the tool may have promised a shape for that."""
        if method == names.TOOLS_CALL:
            return ToolResult(f"Error: the source {self._source} answered with {what}", is_error=True)
        return RpcError(jsonrpc.INTERNAL_ERROR, f"the source {self._source} answered {method} with {what}")


# A server has one log level for all clients: the most verbose that a request in flight wants.
# `call_context.py` filters what each client gets. A lower level is set only with the next request that
# wants one.

SET_S: Final = 5.0
"""How long a request waits for the server to set the level, in seconds."""


class LogLevel:
    """The log level of one session. `set_level` sends it to the server."""

    def __init__(self, set_level: Callable[[str], Awaitable[object]]) -> None:
        self._set_level = set_level
        self._wanted: list[str] = []
        self._set: str | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def wanted(self, level: str | None) -> AsyncIterator[None]:
        """Make the server log at least this level during the block; None changes nothing."""
        if level is None:
            yield
            return
        self._wanted.append(level)
        try:
            await self._sync()
            yield
        finally:
            self._wanted.remove(level)

    async def _sync(self) -> None:
        async with self._lock:
            level = min(self._wanted, key=LOG_LEVELS.index)
            if level != self._set:
                self._set = level
                await self._set_level(level)
