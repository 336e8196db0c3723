"""Asks language servers, all at once, and says of each how far its answer can be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from lm_tools_bridge.code_intelligence.freshness import Freshness, FreshnessState
from lm_tools_bridge.code_intelligence.server import (
    LanguageServer,
    ReportProgress,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
    Unavailable,
)
from workspace_server.call_context import CallContext
from workspace_server.results import clean_text
from workspace_server.tool import ToolError

LEAST_ANSWER_S: Final = 2.0
"""What a server that still reads the project gets to answer after the waiting time is over."""
SETTLE_S: Final = 0.3
"""Pause between two answers of a server that gives no sign when it is ready."""
MAX_REASON: Final = 500
"""Characters of a server's own words in a reason: some send a whole stack trace."""
_LATER: Final[Mapping[str, FreshnessState]] = {"starting": "indexing", "failed": "unknown"}
"""By the state of a kind that does not run: the freshness of its answer, if it may run later by itself."""
_UNTIL_TRUSTED: Final = ". Until the user decides, find names as text with lm_findTextInFiles"

T = TypeVar("T")
Work = Callable[[LanguageServer], Awaitable[T]]
Request = Callable[[str, Any], Awaitable[Any]]
"""Sends one request to a server, and returns its result."""


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """One server's part of an answer; `value` is None if it gave none."""

    server: LanguageServer
    freshness: Freshness
    value: T | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long to wait for servers, and who is told meanwhile."""

    seconds: float
    context: CallContext
    begun: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    @property
    def left_s(self) -> float:
        """The seconds that are left of the time to wait."""
        return max(0.0, self.begun + self.seconds - asyncio.get_running_loop().time())

    def reports(self, name: str) -> ReportProgress:
        """Progress of one server, as notifications to the caller; their number always rises."""
        started = asyncio.get_running_loop().time()

        async def report(progress: float, total: float | None, message: str) -> None:
            passed = asyncio.get_running_loop().time() - started
            counted = "" if total is None else f" ({progress:g} of {total:g})"
            await self.context.progress(
                round(passed, 3), self.seconds or None, clean_text(f"{name}: {message}{counted}")
            )

        return report


def split(
    servers: Sequence[LanguageServer | Unavailable],
) -> tuple[list[LanguageServer], list[Unavailable]]:
    """The servers that run, and the kinds that do not."""
    running = [server for server in servers if not isinstance(server, Unavailable)]
    return running, [server for server in servers if isinstance(server, Unavailable)]


def told_apart(
    unavailable: Sequence[Unavailable],
) -> tuple[list[Unavailable], list[Freshness]]:
    """The kinds that do not run, without those that are starting, and what the latter can say so far."""
    starting = [
        Freshness(server.specification.name, "indexing", server.reason)
        for server in unavailable
        if server.state == "starting"
    ]
    return [server for server in unavailable if server.state != "starting"], starting


def unavailable_members(unavailable: Sequence[Unavailable]) -> list[dict[str, str]]:
    """What `structuredContent` says of the kinds that do not run."""
    return [
        {"provider": server.specification.name, "state": server.state, "reason": clean_text(server.reason)}
        for server in unavailable
    ]


def freshness_lines(parts: Sequence[Freshness], unavailable: Sequence[Unavailable]) -> list[str]:
    """The same for a tool's text: one line for all of which nothing is missing, and one for each other."""
    complete = [each.provider for each in parts if each.state == "fresh" and not each.reason]
    lines = [f"freshness: {', '.join(complete)}: fresh"] if complete else []
    lines += [f"freshness: {each.text()}" for each in parts if each.state != "fresh" or each.reason]
    return lines + [
        f"unavailable: {each.specification.name}: {each.state}: {clean_text(each.reason)}"
        for each in unavailable
    ]


class NoAnswer(ToolError):
    """No server could say anything yet.

    Attributes:
        doubts: why, as far as servers may answer later; empty if a person has to do something first.
    """

    def __init__(self, message: str, structured: Mapping[str, Any], doubts: Sequence[Freshness]) -> None:
        super().__init__(message, structured)
        self.doubts = doubts


def no_server(unavailable: Sequence[Unavailable], about: str) -> ToolError:
    """The failure of a tool for which no server runs; it says what would help."""
    if not unavailable:
        return ToolError(f"no language server is known for {about}")
    doubts = [
        Freshness(server.specification.name, _LATER[server.state], clean_text(server.reason))
        for server in unavailable
        if server.state in _LATER
    ]
    return NoAnswer(
        f"no language server runs for {about}. {reasons(unavailable)}",
        {"unavailable": unavailable_members(unavailable)},
        doubts,
    )


def reasons(unavailable: Sequence[Unavailable]) -> str:
    """Why these kinds do not run, with what would help, for an error's text."""
    sentences = "; ".join(
        f"{server.specification.name}: {clean_text(server.reason)}" for server in unavailable
    )
    return sentences + (_UNTIL_TRUSTED if any(server.state == "untrusted" for server in unavailable) else "")


async def ask_all(
    servers: Sequence[LanguageServer], work: Work[T], waiting: Waiting, *, settles: bool = True
) -> list[Part[T]]:
    """Ask these servers at once; see `ask`."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(server, work, waiting, settles=settles)) for server in servers]
    return [task.result() for task in tasks]


async def ask(server: LanguageServer, work: Work[T], waiting: Waiting, *, settles: bool = True) -> Part[T]:
    """Ask one server when it is ready, or when the waiting time is over.

    Failures are parts without a value.

    Args:
        server: whom to ask.
        work: asks it.
        waiting: how long to wait.
        settles: whether to ask a server that gives no sign until two answers in a row are equal.
    """
    name = server.specification.name
    until = asyncio.get_running_loop().time() + waiting.left_s
    try:
        freshness = await server.ready(waiting.left_s, waiting.reports(name))
        value = await _bounded(server, work, freshness, waiting)
        if settles and server.specification.ready == "settled" and freshness.state != "fresh":
            return await _settled(server, work, Part(server, freshness, value), until)
        return Part(server, freshness, value)
    except RequestFailed as error:
        reason = f"it refused the request: {clean_text(error.message)[:MAX_REASON]}"
        return Part(server, Freshness(name, "unknown", reason), None)
    except RequestTimedOut as error:
        return Part(server, Freshness(name, "unknown", str(error) or "it did not answer in time"), None)
    except OSError as error:
        reason = f"a file cannot be read: {(error.strerror or str(error)).lower()}"
        return Part(server, Freshness(name, "unknown", reason), None)
    except ServerGone as error:
        return Part(server, Freshness(name, "crashed", clean_text(str(error))[:MAX_REASON]), None)


async def _bounded(server: LanguageServer, work: Work[T], freshness: Freshness, waiting: Waiting) -> T:
    """What a server answers; while it reads the project, it may hold the answer back until it has.

    Raises:
        RequestTimedOut: it does so for longer than the call waits.
    """
    if freshness.state == "fresh":
        return await work(server)
    limit_s = waiting.left_s + LEAST_ANSWER_S
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await work(server)
    except TimeoutError:
        if not limit.expired():
            raise
        reason = f"{freshness.reason}; " if freshness.reason else ""
        raise RequestTimedOut(f"{reason}it did not answer meanwhile; ask again") from None


async def _settled(server: LanguageServer, work: Work[T], first: Part[T], until: float) -> Part[T]:
    loop, last = asyncio.get_running_loop(), first
    while loop.time() + SETTLE_S < until:
        await asyncio.sleep(SETTLE_S)
        value = await work(server)
        if value == last.value:
            reason = "it gives no sign when it is ready; two answers in a row were equal"
            return replace(last, freshness=Freshness(server.specification.name, "unknown", reason))
        last = replace(last, value=value)
    return last


def list_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a result that is a list, an object or null; anything else of a server is left out."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, Mapping)]
