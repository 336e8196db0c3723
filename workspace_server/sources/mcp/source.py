"""The base of all sources that are MCP servers: lists, calls, subscriptions and status over a session.

A kind of source derives from `McpSource` and implements `with_session`, which runs something with a session
or raises `Unavailable`. It reports to the base: `became(state, error)` when the state of its session
changes (a change to `ready` refreshes stale lists), and `list_changed` and `resource_changed` as
`on_change` and `on_update` of `Session.open`. Its `close` calls `stop_asking` first; after that,
`with_session` is not called.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import msgspec

from lm_tools_bridge.protocol import apps_extension, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal.source_states import STARTING
from lm_tools_bridge.protocol.issues import Issue
from workspace_server.call_context import CallContext
from workspace_server.results import clean_text
from workspace_server.source import HandshakeResult, Source, SourceKind, SourceState
from workspace_server.sources.feature_part import DefinitionGuard
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.invalid_output import FLOOD, InvalidOutput
from workspace_server.sources.mcp.lists import definitions
from workspace_server.sources.mcp.lists.definitions import OTHER_KINDS, TOOLS
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.lists.server_list import ServerList
from workspace_server.sources.mcp.lists.server_lists import LIST_AGAIN_S, ServerLists
from workspace_server.sources.mcp.lists.subscriptions import Subscriptions
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.tool import CallOutcome, SourceOfferings, Tool

_ALIVE: Final = frozenset({"ready", "idle", *STARTING})
T = TypeVar("T")


class McpSource(Source):
    """A source that is another MCP server.

    Attributes:
        stale: whether the tools may be out of date: from the disk cache, or the server is down.
        junk: output of the server that was no message.
        lists: its lists.
        offers_apps: whether the server is told of clients that show apps.
    """

    def __init__(
        self,
        kind: SourceKind,
        offer: SourceSettings,
        *,
        state: SourceState,
        cache: ListCache | None = None,
        cache_key: str = "",
        max_age_s: float | None = None,
        guard: DefinitionGuard | None = None,
    ) -> None:
        """Nothing is started or read yet.

        Args:
            kind: `stdio` or `remote`; the id is `<kind>:<namespace>`.
            offer: what the configuration says of its tools.
            state: the state to begin in.
            cache: where the last good lists are kept; None for nowhere.
            cache_key: `list_cache.key_of` everything that decides which server it is.
            max_age_s: an older list is refreshed when somebody asks for it, while they get the old one; None
                for lists that are only refreshed when their server says so.
            guard: decides which definitions of its tools are offered; None for those that it lists.
        """
        self.id = f"{kind}:{offer.namespace}"
        self.kind = kind
        self.namespace = None if offer.bare else offer.namespace
        self.separator = offer.separator
        self.default = offer.default
        self.include = offer.include
        self.exclude = offer.exclude
        self.keywords = offer.keywords
        self.timeout_s = offer.timeout_s
        self.offers_apps = offer.apps
        self.state = state
        self.stale = True
        self.junk = InvalidOutput()
        self.lists = ServerLists(
            self.id,
            offer,
            with_session=self._with_session,
            on_refresh=self._notify_if_changed,
            cache=cache,
            # a server that is not told of apps may list other tools
            cache_key=cache_key if offer.apps else f"{cache_key}-no-apps",
            guard=guard,
        )
        self._subscriptions = Subscriptions(self.id, self._with_session)
        self._max_age_s = max_age_s
        self._session_error: str | None = None
        self._handshake_result: HandshakeResult | None = None
        self._closed = False
        self._last_call: dict[str, Any] | None = None
        self._last_observed = self._observable_state()

    @abstractmethod
    async def with_session(self, ask: Callable[[Session], Awaitable[T]], caller: str | None) -> T:
        """Run something with a session.

        Args:
            ask: what to run.
            caller: the caller (`CallContext.caller`); None for the source itself, which can wait longer.

        Raises:
            Unavailable: there is no session, or no answer.
        """

    @property
    def sessions(self) -> Sequence[Session]:
        """The open sessions, for status."""
        return ()

    @property
    def is_shared(self) -> bool:
        """Whether all callers share one session, so that it can report changed resources."""
        return True

    async def list_tools(self) -> Sequence[Tool]:
        """The known list at once if there is one, else the server's. Never raises.

        The other lists are requested at the same time; the first time, the caller waits a moment for them.
        """
        lists = self.lists
        await lists.load_cached()
        self.instructions = lists.instructions.text
        lists.request(server_list.kind for server_list in lists.all if self._is_due(server_list))
        if lists.tools.items is None:
            lists.request([TOOLS])
            await lists.tools.settled.wait()
        await lists.wait_for_others()
        return lists.tools.items or ()

    def cached_tools(self) -> Sequence[Tool] | None:
        """The known list, unless a list has to be loaded or refreshed first."""
        if any(not server_list.is_loaded or self._is_due(server_list) for server_list in self.lists.all):
            return None
        return self.lists.tools.items

    def offerings(self) -> SourceOfferings:
        """The last known prompts, resources and templates."""
        return self.lists.known_offerings()

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """As `Source.call_tool`; the server gets the bytes of `context.arguments`."""
        await self.lists.tools.load_cached()
        began = time.monotonic()
        outcome: CallOutcome | None = None
        try:
            outcome = await self.forward_call(self.lists.tools.original(name), context)
        except Unavailable as failure:
            outcome = failure.answer or self.refusal(failure)
        finally:
            took = round((time.monotonic() - began) * 1000, 1)
            self._last_call = {"tool": name, "at": time.time(), "ms": took, "outcome": _outcome_word(outcome)}
        return outcome

    async def forward_call(self, name: str, context: CallContext) -> CallOutcome:
        """Call the tool by the server's own name. Raises `Unavailable`."""
        return await self._run_for(lambda session: session.call(name, context), context)

    async def forward(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        """As `Source.forward`; starts or connects the server if necessary."""
        try:
            return await self._run_for(lambda session: session.forward(method, params, context), context)
        except Unavailable as failure:
            return failure.answer or self.refusal(failure)

    async def handshake_result(self) -> HandshakeResult | None:
        """As `Source.handshake_result`, from the last session, or from one opened for this."""
        if self._handshake_result is None:
            try:
                await self._with_session(_only_open)
            except Unavailable:
                return None
        return self._handshake_result

    async def subscribe(self, uri: str, listener: Callable[[str], None]) -> Callable[[], None] | None:
        """As `Source.subscribe`, also over new sessions. Only a shared session supports it."""
        handshake_result = await self.handshake_result() if self.is_shared else None
        offered = {} if handshake_result is None else handshake_result.capabilities.get("resources")
        if not isinstance(offered, Mapping) or offered.get("subscribe") is not True:
            return None
        return await self._subscriptions.add(uri, listener)

    def refusal(self, failure: Unavailable) -> Refusal:
        """The refusal for the caller of a failed call."""
        return failure.refusal(self.id, self.state)

    def set_state(self, state: SourceState, error: str | None) -> None:
        """Set the state of the session; `error` says why there is none."""
        self.state = state
        self._session_error = error
        if state not in _ALIVE:
            for server_list in self.lists.all:
                server_list.stale = True
        elif state == "ready":
            self.lists.request(server_list.kind for server_list in self.lists.all if server_list.stale)
            self._subscriptions.renew()
        self._notify_if_changed()

    def list_changed(self, capability: str) -> None:
        """Handle a change of the server's `tools`, `prompts` or `resources`."""
        self.lists.request(definitions.kinds_of_capability(capability), again=True)

    def resource_changed(self, uri: str) -> None:
        """Handle a changed resource."""
        self._subscriptions.resource_changed(uri)

    async def refresh(self) -> None:
        """Request all lists again, in the background."""
        self.lists.request((TOOLS, *OTHER_KINDS), again=True)
        self.notify_changed()

    async def restart(self) -> str:
        """As `Source.restart`."""
        done = await self.reopen()
        await self.refresh()
        return done

    @abstractmethod
    async def reopen(self) -> str:
        """End every session, and open those anew that nobody has to ask for; returns what was done."""

    def issues(self) -> Sequence[Issue]:
        """Issues of the lists, and too much invalid output."""
        is_alive = self.state in _ALIVE  # other states are issues themselves
        issues = [issue for server_list in self.lists.all for issue in server_list.issues(is_alive=is_alive)]
        if self.junk.flooded:
            text = f"{self.id} wrote more than {FLOOD:,} lines within a minute that are no messages"
            issues.append(Issue("warning", "source", "SOURCE_JUNK_OUTPUT", text, details=f"source {self.id}"))
        return issues

    def status(self) -> Mapping[str, Any]:
        """Server info, invalid output, and the last call."""
        members: dict[str, Any] = {
            "stale": self.stale,
            "junk": self.junk.count,
            "firstJunk": list(self.junk.first),
            "lastCall": self._last_call,
        }
        if sessions := self.sessions:
            members |= sessions[-1].status()
            members["strays"] = sum(session.rpc.unmatched for session in sessions)
            members["inFlight"] = sum(session.rpc.in_flight for session in sessions)
        return members

    async def stop_asking(self) -> None:
        """Stop listing and subscribing, and start no new requests; call this first in `close`."""
        self._closed = True
        await self.lists.stop()
        await self._subscriptions.stop()

    async def _run_for(self, ask: Callable[[Session], Awaitable[T]], context: CallContext) -> T:
        """As `_run`; a caller that has to wait for a start gets progress meanwhile."""
        if self.state == "ready":
            return await self._run(ask, context.caller)
        async with told_of_start(context, self.id) as telling:

            async def begun(session: Session) -> T:
                if telling is not None:
                    telling.cancel()
                return await ask(session)

            return await self._run(begun, context.caller)

    async def _run(self, ask: Callable[[Session], Awaitable[T]], caller: str | None) -> T:
        async def noted(session: Session) -> T:
            self._handshake_result = session.handshake_result
            self.has_apps = self.offers_apps and apps_extension.is_declared(
                session.handshake_result.capabilities
            )
            return await ask(session)

        if self._closed:
            raise Unavailable("it was stopped")
        return await self.with_session(noted, caller)

    async def _with_session(self, ask: Callable[[Session], Awaitable[None]]) -> None:
        await self._run(ask, None)

    def _is_due(self, server_list: ServerList[Any]) -> bool:
        """Whether a list is requested again when a client lists."""
        if self.state not in _ALIVE or time.monotonic() - server_list.tried_at < LIST_AGAIN_S:
            return False
        old = self._max_age_s is not None and server_list.age_s() > self._max_age_s
        return server_list.items is None or old or (server_list.stale and self.state == "ready")

    def _observable_state(self) -> tuple[object, ...]:
        errors = tuple(server_list.error for server_list in self.lists.all)
        return (
            self.state,
            self.error,
            self.stale,
            errors,
            self.lists.tools.items,
            self.lists.known_offerings(),
        )

    def _notify_if_changed(self) -> None:
        """Notify the registry if anything visible changed; it will list again."""
        tools = self.lists.tools
        self.instructions = self.lists.instructions.text
        error = self._session_error or tools.error
        self.error = None if error is None else clean_text(error)
        self.stale = tools.stale
        before, self._last_observed = self._last_observed, self._observable_state()
        if self._last_observed != before:
            self.notify_changed()


async def _only_open(session: Session) -> None:
    """Open a session and do nothing with it."""


def _outcome_word(outcome: CallOutcome | None) -> str:
    if outcome is None:
        return "cancelled"
    return outcome.reason.word if isinstance(outcome, Refusal) else "answered"


PROGRESS_S: Final = 2.0
"""Seconds between two notifications."""
PROGRESS_STEP: Final = 0.001
"""So little that the progress of the tool itself, which follows, is more."""


@asynccontextmanager
async def told_of_start(context: CallContext, source: str) -> AsyncIterator[asyncio.Task[None] | None]:
    """Tell a caller that the source is starting, until the task is cancelled or the block is left."""
    if "progressToken" not in context.meta:
        yield None
        return
    telling = asyncio.create_task(_tell(context, source), name=f"progress-{source}")
    try:
        yield telling
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(context: CallContext, source: str) -> None:
    began, count = time.monotonic(), 0
    while True:
        await asyncio.sleep(PROGRESS_S)
        count += 1
        message = f"waiting for {source} to start ({time.monotonic() - began:.0f} s)"
        params = {
            "progressToken": context.meta["progressToken"],
            "progress": count * PROGRESS_STEP,
            "message": message,
        }
        await context.notify(names.PROGRESS, params)
