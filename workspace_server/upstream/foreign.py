"""What all sources share whose tools are another server's: when it is asked for its list, and refusals.

Deliberately not how a server is reached: `stdio/source.py` starts processes, `remote/source.py` connects.

A kind of source derives from `ForeignSource` and gives it two things: `fetch`, which lists the server's tools
over a session, and `forward`, which makes one call. Both may raise `Unavailable`. It tells the base what
happens: `became(state, error)` when the connection's state changes (a change to `ready` refreshes a stale
list), and `list_changed(kind)`, which is what `Session.open` wants as `on_change`. Its `close` first calls
`stop_listing`; after that neither is called any more.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.errors import Reason, Refusal
from protocol.issues import Issue
from workspace_server import log
from workspace_server.results import clean_text
from workspace_server.source import (
    CallContext,
    CallOutcome,
    Default,
    Source,
    SourceKind,
    SourceState,
    Tool,
    Visibility,
)
from workspace_server.upstream.failures import Unavailable
from workspace_server.upstream.junk import FLOOD, Junk
from workspace_server.upstream.known_list import KnownList
from workspace_server.upstream.list_cache import ListCache
from workspace_server.upstream.paging import Pages
from workspace_server.upstream.session import Session

LIST_AGAIN_S: Final = 5.0
"""A list that could not be had is asked for again at most that often."""
_ALIVE: Final = frozenset({"ready", "starting", "connecting"})


@dataclass(frozen=True, slots=True)
class Offer:
    """What the configuration says of a foreign source's tools (T-81, T-108).

    `timeout_s` is the longest one call may take. `visibilities` are those of single tools (T-32).
    """

    namespace: str
    separator: str = "__"
    default: Default = "enabled"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    visibility: Visibility = "native"
    timeout_s: float = 120.0
    visibilities: Mapping[str, Visibility] = field(default_factory=dict)


class ForeignSource(Source):
    """A source whose tools are another server's.

    Attributes:
        stale: whether the list may be out of date: of an earlier life, or its server is down (T-4, T-7).
        junk: what the server wrote that was no message.
    """

    def __init__(
        self,
        kind: SourceKind,
        offer: Offer,
        *,
        state: SourceState,
        cache: ListCache | None = None,
        cache_key: str = "",
        max_age_s: float | None = None,
    ) -> None:
        """Nothing is started or read yet.

        Args:
            kind: `stdio` or `remote`; the id is `<kind>:<namespace>`.
            offer: what the configuration says of its tools.
            state: the state to begin in.
            cache: where the last good list is kept; None for nowhere.
            cache_key: `list_cache.key_of` everything that decides which server it is.
            max_age_s: an older list is refreshed when somebody asks for it, while they get the old one; None
                for a list that is only refreshed when its server says so.
        """
        self.id = f"{kind}:{offer.namespace}"
        self.kind = kind
        self.namespace = offer.namespace
        self.separator = offer.separator
        self.default = offer.default
        self.include = offer.include
        self.exclude = offer.exclude
        self.keywords = offer.keywords
        self.state = state
        self.stale = True
        self.junk = Junk()
        self._known = KnownList(
            self.id,
            visibility=offer.visibility,
            visibilities=offer.visibilities,
            timeout_s=offer.timeout_s,
            cache=cache,
            cache_key=cache_key,
        )
        self._max_age_s = max_age_s
        self._link_error: str | None = None
        self._list_error: str | None = None
        self._listing: asyncio.Task[None] | None = None
        self._again = False
        self._tried_at = -math.inf
        self._closed = False
        self._last_call: dict[str, Any] | None = None

    @abstractmethod
    async def fetch(self) -> Pages:
        """All tools the server lists now (`Session.list_all`). Raises `Unavailable`."""

    @abstractmethod
    async def forward(self, name: str, context: CallContext) -> CallOutcome:
        """One call of the tool with the server's own name (`Session.call`). Raises `Unavailable`."""

    @property
    def sessions(self) -> Sequence[Session]:
        """The open sessions, for status."""
        return ()

    async def list_tools(self) -> Sequence[Tool]:
        """The known list at once, if there is one; else the server is asked. Never raises."""
        known = self._known
        await known.recall()
        if known.tools is None:
            await asyncio.wait([self._list_now()])
        elif self._is_due():
            self._list_now()
        return known.tools or ()

    def known(self) -> Sequence[Tool] | None:
        """The known list, unless it has to be read from the cache or refreshed first."""
        known = self._known
        return known.tools if known.is_recalled and not self._is_due() else None

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """As `Source.call_tool`; the server gets the bytes of `context.arguments`."""
        await self._known.recall()
        began = time.monotonic()
        outcome: CallOutcome | None = None
        try:
            self._check_open()
            outcome = await self.forward(self._known.original(name), context)
        except Unavailable as failure:
            outcome = self.refusal(failure)
        finally:
            took = round((time.monotonic() - began) * 1000, 1)
            self._last_call = {"tool": name, "at": time.time(), "ms": took, "outcome": _word(outcome)}
        return outcome

    def refusal(self, failure: Unavailable) -> Refusal:
        """What the caller of a failed call reads (T-182)."""
        error = clean_text(failure.text)
        details = {"source": self.id, "state": self.state, "error": error}
        next_step = None
        if failure.delivered == "unknown" and failure.reason is Reason.SOURCE_UNAVAILABLE:
            next_step = "check whether the call took effect before you repeat it"
        elif failure.retry_after_ms is not None:
            next_step = "retry after the given time; lmtb servers says more"
        return Refusal(
            failure.reason,
            f'Source "{self.id}" gave no answer: {error}',
            next_step,
            failure.delivered,
            failure.retry_after_ms,
            details,
        )

    def became(self, state: SourceState, error: str | None) -> None:
        """The connection's state is now this; `error` says why it is not what it should be."""
        before = self._look()
        self.state = state
        self._link_error = error
        if state not in _ALIVE:
            self.stale = True
        elif state == "ready" and self.stale:
            self._list_now()
        self._settle(before)

    def list_changed(self, kind: str) -> None:
        """The server says that its list of `kind` changed; one refresh is in flight at a time (T-107)."""
        if kind != "tools":
            return
        if self._listing is None:
            self._list_now()
        else:
            self._again = True

    async def refresh(self) -> None:
        """Ask the server for its list again, in the background."""
        self.list_changed("tools")
        self.touched()

    def issues(self) -> Sequence[Issue]:
        """What is wrong with the list (T-4, T-11, T-16, T-19), and junk (T-93)."""
        details = f"source {self.id}"
        found = list(self._known.issues)
        if self._list_error is not None and self.state in _ALIVE:  # other states say it by themselves
            text = f"Failed to fetch tools: {clean_text(self._list_error)}"
            level: Any = "error" if self._known.tools is None else "warning"
            found.append(Issue(level, "source", "SOURCE_UNAVAILABLE", text, details=details))
        if self.junk.flooded:
            text = f"{self.id} wrote more than {FLOOD:,} lines within a minute that are no messages"
            found.append(Issue("warning", "source", "SOURCE_JUNK_OUTPUT", text, details=details))
        return found

    def status(self) -> Mapping[str, Any]:
        """What the server said of itself, junk, and the last call."""
        members: dict[str, Any] = {
            "stale": self.stale,
            "junk": self.junk.count,
            "firstJunk": list(self.junk.first),
            "lastCall": self._last_call,
        }
        if sessions := self.sessions:
            members |= sessions[-1].described()
            members["strays"] = sum(one.exchange.strays for one in sessions)
            members["inFlight"] = sum(one.exchange.busy for one in sessions)
        return members

    async def stop_listing(self) -> None:
        """End the refresh under way, and begin nothing more; call this first in `close`."""
        self._closed = True
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("it was stopped")

    def _list_now(self) -> asyncio.Task[None]:
        if self._listing is None:
            self._listing = asyncio.create_task(self._list(), name=f"list-{self.id}")
        return self._listing

    async def _list(self) -> None:
        try:
            self._again = True
            while self._again:
                self._again = False
                await self._list_once()
        finally:
            self._listing = None

    async def _list_once(self) -> None:
        before = self._look()
        self._tried_at = time.monotonic()
        try:
            self._check_open()
            await self._known.take(await self.fetch())
        except Unavailable as failure:
            self._list_error = failure.text
            self.stale = True
        except Exception as fault:  # noqa: BLE001  a list that cannot be had is a state
            log.fault("source_list_failed", fault, source=self.id)
            self._list_error = f"{type(fault).__name__} while listing"
            self.stale = True
        else:
            self._list_error = None
            self.stale = False
        self._settle(before)

    def _is_due(self) -> bool:
        """Whether the known list is asked for again because somebody wants to see it."""
        if self.state not in _ALIVE or time.monotonic() - self._tried_at < LIST_AGAIN_S:
            return False
        old = self._max_age_s is not None and self._known.age_s() > self._max_age_s
        return old or (self.stale and self.state == "ready")

    def _look(self) -> tuple[object, ...]:
        return self.state, self.error, self.stale, self._list_error, self._known.tools

    def _settle(self, before: tuple[object, ...]) -> None:
        """Tell whoever watches, but only of what is new: they will list again."""
        error = self._link_error or self._list_error
        self.error = None if error is None else clean_text(error)
        if self._look() != before:
            self.touched()


def _word(outcome: CallOutcome | None) -> str:
    if outcome is None:
        return "cancelled"
    return outcome.reason.word if isinstance(outcome, Refusal) else "answered"
