"""A remote MCP server as a source.

Adds to `McpSource`: retries of calls that the server certainly did not execute, and servers that hide tools
behind a `tool_search` of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH
from lm_tools_bridge.protocol.issues import Issue
from workspace_server.call_context import CallContext
from workspace_server.config.model import RemoteServer
from workspace_server.sources.feature_part import DefinitionGuard
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists.definitions import TOOLS
from workspace_server.sources.mcp.lists.list_cache import ListCache, key_of
from workspace_server.sources.mcp.remote.addresses import Origin
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.retry_policy import RemoteRetryPolicy
from workspace_server.sources.mcp.remote.session_opener import RemoteDependencies, SessionOpener
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.sources.mcp.source import McpSource, T
from workspace_server.tool import CallOutcome, RpcError

MAX_AGE_S: Final = 60.0
"""Age in seconds after which a list is read again."""
CALL_WAIT_S: Final = 4.5
"""How long a call waits for a session that is being opened."""
_RECONNECT_S: Final[Mapping[str, float]] = {"session_lost": 0.0, "unreachable": 0.5}
"""Kinds of failures after which an open session is replaced, and the pause in seconds before that."""
SEARCH, EXECUTE = "tool_search", "execute_tool"


class RemoteSource(McpSource):
    """One entry of `[[mcp.remote_servers]]`. Connects when it is listed or called for the first time."""

    def __init__(
        self,
        server: RemoteServer,
        dependencies: RemoteDependencies,
        cache: ListCache | None = None,
        guard: DefinitionGuard | None = None,
    ) -> None:
        """Nothing is connected or read yet.

        Args:
            server: the entry.
            dependencies: what it works with.
            cache: where the last good list is kept.
            guard: decides which definitions of its tools are offered.
        """
        words = (server.namespace, "remote", *server.keywords)
        settings = SourceSettings.of(server, tuple(dict.fromkeys(words)))
        key = key_of(_identity(server, dependencies.environ))
        super().__init__(
            "remote",
            settings,
            state="connecting",
            cache=cache,
            cache_key=key,
            max_age_s=MAX_AGE_S,
            guard=guard,
        )
        self._server = server
        self._dependencies = dependencies
        self._slow_search = False
        self._opener = SessionOpener(
            server,
            dependencies,
            source=self.id,
            schema=self._schema,
            on_change=self.list_changed,
            on_update=self.resource_changed,
            junk=self.junk,
        )
        self._policy = RemoteRetryPolicy()
        self._supervisor = SessionSupervisor(
            self._open,
            self._policy,
            self.set_state,
            source=self.id,
            wait_s=CALL_WAIT_S,
            clock=dependencies.clock,
        )

    @property
    def sessions(self) -> Sequence[Session]:
        """The open session."""
        session = self._supervisor.session
        return () if session is None else (session,)

    @property
    def accepts_unlisted(self) -> bool:
        """Whether `call_tool` takes names that are not listed: the server runs hidden tools for us
        ."""
        return self._offers(EXECUTE)

    async def forward_call(self, name: str, context: CallContext) -> CallOutcome:
        """One call; one that its server refuses over its headers is made again with fresh ones."""
        if not self._offers(name) and self.accepts_unlisted:
            wrapped = {"name": name, "arguments": context.arguments}
            name, context = EXECUTE, msgspec.structs.replace(context, arguments=jsonrpc.raw(wrapped))
        outcome = await super().forward_call(name, context)
        if isinstance(outcome, RpcError) and outcome.code == HEADER_MISMATCH:
            self.lists.request([TOOLS])
            await self.lists.tools.settled.wait()
            outcome = await super().forward_call(name, context)
        return outcome

    async def nested_search(self, query: str, max_results: int, timeout_s: float) -> Mapping[str, Any] | None:
        """What the server's own `tool_search` finds, as its decoded result; None for nothing.

        One that is slower than `timeout_s` is left out, with an issue until it is quicker. Never raises.
        """
        if self.state != "ready" or not self._offers(SEARCH):
            return None
        arguments = jsonrpc.raw({"query": query, "max_results": max_results})
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await super().forward_call(SEARCH, CallContext(arguments=arguments))
        except TimeoutError:
            self._note_search(slow=True)
            return None
        except Unavailable:
            return None
        self._note_search(slow=False)
        result = msgspec.json.decode(outcome) if isinstance(outcome, msgspec.Raw) else None
        return result if isinstance(result, Mapping) else None

    async def reopen(self) -> str:
        """As `McpSource.reopen`."""
        return await self._supervisor.restart()

    async def refresh(self) -> None:
        """Try at once, and read the list again."""
        self._supervisor.try_now()
        await super().refresh()

    @property
    def signs_in(self) -> bool:
        """Whether its entry says OAuth."""
        return self._server.auth == "oauth"

    def refusal(self, failure: Unavailable) -> Refusal:
        """As `McpSource.refusal`; without credentials, with the user's next step."""
        refusal = super().refusal(failure)
        if isinstance(failure, HttpFailure) and failure.kind == "unauthorized" and self._opener.authorization:
            return structs.replace(refusal, next_step=self._opener.authorization.next_step)
        return refusal

    def issues(self) -> Sequence[Issue]:
        """Also whether its own search was too slow."""
        issues = list(super().issues())
        if self._slow_search:
            text = f"The search of {self.id} took too long; its hidden tools were left out"
            issues.append(
                Issue("warning", "source", "NESTED_SEARCH_TIMEOUT", text, details=f"source {self.id}")
            )
        return issues

    def status(self) -> Mapping[str, Any]:
        """Adds origin, connections and failures. Path and query may be secret and are left out."""
        breaker = self._policy.breaker
        return {
            **super().status(),
            "origin": self._opener.origin.origin if isinstance(self._opener.origin, Origin) else None,
            "connections": self._supervisor.opened,
            "failures": breaker.failures,
            "retryInMs": round(breaker.wait(self._dependencies.clock()) * 1000) or None,
        }

    async def close(self) -> None:
        """End the connection and everything under way."""
        await self.stop_asking()
        await self._supervisor.close()

    def _offers(self, original: str) -> bool:
        return self._schema(original) is not None

    async def with_session(self, ask: Callable[[Session], Awaitable[T]], caller: str | None) -> T:
        """As `McpSource.with_session`; tries again what the server certainly did not execute.

        That is once, over a new session, if it refused the request before it ran (it may not know the
        session or the revision any more), or no longer accepts connections. If it is too busy for a call or
        a new session (HTTP 429 or 503), a call waits as long as it says, up to `CALL_WAIT_S` in all.
        """
        clock = self._dependencies.clock
        deadline = clock() + (0.0 if caller is None else CALL_WAIT_S)
        may_reconnect = True
        while True:
            was_open = self._supervisor.session is not None
            try:
                return await self._ask(ask, caller is None)
            except HttpFailure as failure:
                pause_s = _busy_s(failure)
                if may_reconnect and was_open and failure.kind in _RECONNECT_S:
                    may_reconnect, pause_s = False, _RECONNECT_S[failure.kind]
                elif pause_s is None or clock() + pause_s > deadline:
                    raise
            await asyncio.sleep(pause_s)

    async def _open(self, on_end: Callable[[str], None]) -> Session:
        """A new session; after a refused request, one in which the server answers."""
        session = await self._opener.open(on_end)
        if self._policy.is_doubtful:
            try:
                await session.request(names.TOOLS_LIST)
            except BaseException:
                await session.close()
                raise
        return session

    async def _ask(self, ask: Callable[[Session], Awaitable[T]], patiently: bool) -> T:
        async with self._supervisor.use(patiently=patiently) as session:
            return await ask(session)

    def _schema(self, original: str) -> Mapping[str, Any] | None:
        """The input schema of the tool with this name at the server; None where it lists no such tool."""
        tools = self.lists.tools
        for tool in tools.items or ():
            if tools.original(tool.name) == original:
                schema = tool.definition.get("inputSchema")
                return schema if isinstance(schema, Mapping) else {}
        return None

    def _note_search(self, *, slow: bool) -> None:
        if slow != self._slow_search:
            self._slow_search = slow
            self.notify_changed()


def _busy_s(failure: HttpFailure) -> float | None:
    """Seconds until a request that was not executed may be sent again; None for never."""
    is_busy = failure.kind == "throttled" or failure.status in (429, 503)
    if not is_busy or failure.delivered != "no" or failure.retry_after_ms is None:
        return None
    return failure.retry_after_ms / 1000


def _identity(server: RemoteServer, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Everything that decides whose list it is; only its digest is kept."""
    credentials = (server.token, server.token_env, environ.get(server.token_env, ""), server.token_secret)
    headers = dict(server.headers)
    return {
        "namespace": server.namespace,
        "url": server.url,
        "headers": headers,
        "shown": credentials,
        "client": (server.auth, server.client_id, server.scope),
    }
