"""Receives the calls that wait for a person on another host, as the manager there reports them over the line.

It tells each change by itself, so a host that is slow or asleep delays nobody here. What it says is bounded
in number, size and frequency, and counts for projects on that host only.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.remote_hosts.address import RemoteAddress
from lm_tools_bridge.remote_hosts.link import Link
from lm_tools_bridge.text.printable import printable
from manager.supervision.workspace import Workspace
from manager.upstream.failures import UpstreamFailure
from manager.waiting_calls import ReportedApproval, ReportedCall, WaitingCalls

if TYPE_CHECKING:
    from lm_tools_bridge.remote_hosts.tunnel.near_end import NearEnd

TARGET: Final = "/approvals/changes"
MAX_EVENT: Final = 1024 * 1024
"""A report has a line for each waiting call; a host that sends more would only fill memory."""
MOST_CALLS: Final = 32
"""Calls of one host that are known."""
LONGEST_S: Final = 24 * 3600.0
"""The age and the rest of a call are within this, whatever the host says."""
PAUSE_S: Final = 0.2
"""Shortest time between two reports of a host that count; the last one wins."""
MOST_CPU: Final = 0.05
"""Largest share of a processor that reports of one host may take; they become rarer instead."""
RETRY_S: Final = 2.0
"""A manager that restarts is back by then, and one that answers with errors costs next to nothing."""
_ID: Final = re.compile(r"[a-z0-9]{8,64}")


class _Call(ReportedApproval, frozen=True, kw_only=True):
    """A call as the manager there reports it, with its project's folder there."""

    root: str


class _Report(msgspec.Struct):
    """An event; `now` is the time there, in seconds since 1970."""

    now: float
    approvals: list[_Call]


_reports: Final = msgspec.json.Decoder(_Report)


class KnownProjects(Protocol):
    """Finds a project on another host that is used from here."""

    def __call__(self, address: RemoteAddress, /) -> Workspace | None:
        """The workspace of this root; None if there is none."""


class FarApprovals:
    """What the managers on other hosts say of calls that wait there.

    Args:
        known: finds a project that is used from here; calls of others are not shown.
        waiting_calls: gets the calls.
        wall: seconds since 1970.
        cpu: processor time of this thread, in seconds.
    """

    def __init__(
        self,
        find_project: KnownProjects,
        waiting_calls: WaitingCalls,
        *,
        wall: Callable[[], float] = time.time,
        cpu: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._find_project = find_project
        self._waiting_calls = waiting_calls
        self._wall = wall
        self._cpu = cpu
        self._sleep = sleep

    async def hear(self, link: Link, line: NearEnd) -> None:
        """Report what waits on a host, until the line ends (then this is cancelled)."""
        key = f"line {link.name} {id(line)}"  # the next line may be there before this one has ended
        while link.line is line:
            try:
                if not await self._hear(link, key):
                    return
            except (UpstreamFailure, sse.EventTooLarge):
                pass  # the manager there restarts, or says what none does
            finally:
                if link.line in {line, None}:
                    link.tells_approvals = False
                self._waiting_calls.forget(key)
            await self._sleep(RETRY_S)

    async def _hear(self, link: Link, key: str) -> bool:
        """Hear one stream to its end; False if the manager there does not tell us."""
        response = await link.control.open(TARGET)
        try:
            if response.head.status != 200:
                return response.head.status >= 500
            events, report = sse.Decoder(MAX_EVENT), None
            async for chunk in response.chunks():
                link.tells_approvals = True
                began = self._cpu()
                # each event has all calls: the last one counts
                arrived = b"".join((chunk, *response.take()))
                reports = [event.data for event in events.feed(arrived)]
                report = read_report(reports[-1]) if reports else report
                if report is not None:  # again after a quiet while: projects may have become known
                    calls = projected(report, link, self._find_project, self._wall())
                    self._waiting_calls.report_calls(key, link.name, calls)
                await self._sleep(max(PAUSE_S, (self._cpu() - began) / MOST_CPU))
            return True
        finally:
            response.abandon()


def read_report(event: bytes) -> _Report | None:
    """What an event says; None if it is no report."""
    try:
        return _reports.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def projected(report: _Report, link: Link, find_project: KnownProjects, now: float) -> Sequence[ReportedCall]:
    """The calls of projects that are used from here, with times of the clock here.

    Args:
        now: seconds since 1970.
    """
    calls: dict[str, ReportedCall] = {}
    for entry in report.approvals:
        workspace = find_project(RemoteAddress(link.host, entry.root)) if entry.root.startswith("/") else None
        if workspace is None or len(calls) >= MOST_CALLS or not _ID.fullmatch(entry.id):
            continue
        call = ReportedApproval(
            entry.id,
            printable(entry.tool),
            printable(entry.client),
            entry.question,
            now - min(max(report.now - entry.since, 0.0), LONGEST_S),
            now + min(max(entry.until - report.now, 0.0), LONGEST_S),
            entry.waits,
            entry.approved,
        )
        calls.setdefault(entry.id, ReportedCall(workspace.id, workspace.root, call))
    return list(calls.values())
