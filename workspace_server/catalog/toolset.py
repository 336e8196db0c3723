"""Builds the current view for each request, and announces changes of the lists.

Files are checked for every request, so that a change takes effect with the next one. While a listener is
registered, they are also checked every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import structs

from lm_tools_bridge.protocol.issues import Issue
from workspace_server import log
from workspace_server.catalog import view as views
from workspace_server.catalog.listing import WAIT_S
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.view import Kind, View
from workspace_server.config.model import Configuration

COALESCE_S: Final = 0.25
"""Least time between two announcements; changes within it are announced together."""
SOON_S: Final = 0.02
"""Time until the first change after a quiet time is announced: others often follow at once."""
CHECK_INTERVAL_S: Final = 1.0
"""Interval of the file checks while a listener is registered."""
# Results of servers cause them, so their number is not ours. As many as a list shows (`MAX_ISSUES`).
MAX_NOTES: Final = 200

Configure = Callable[[], Awaitable[Configuration]]
ConfigureNowait = Callable[[], Configuration | None]
Listener = Callable[[frozenset[Kind]], None]
"""Is called with the lists that changed."""


async def _defaults() -> Configuration:
    return Configuration()


def _unknown() -> None:
    """No configuration is known without waiting."""


class Toolset:
    """What one workspace offers. Owns its registry.

    Args:
        registry: the sources.
        configure: gives the current configuration; it may replace the registry's sources.
        configure_nowait: the same without waiting; None if it has to wait.
        check_interval_s: see `CHECK_INTERVAL_S`.
    """

    def __init__(
        self,
        registry: Registry,
        configure: Configure = _defaults,
        configure_nowait: ConfigureNowait = _unknown,
        *,
        check_interval_s: float = CHECK_INTERVAL_S,
    ) -> None:
        self._registry = registry
        self._configure = configure
        self._configure_now = configure_nowait
        self._check_interval_s = check_interval_s
        self._view = View()
        self._requested = self._newest = 0
        self._announced: View | None = None
        self._listeners: set[Listener] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        self._checking: asyncio.Task[None] | None = None
        self._refreshing: set[asyncio.Task[View]] = set()
        self._notes: dict[tuple[str, str | None], Issue] = {}
        registry.watch(self.touch)

    @property
    def last(self) -> View:
        """The last view, without asking any source."""
        return self._view

    def issues(self, more: Iterable[Issue] = ()) -> list[Issue]:
        """The known problems within `MAX_ISSUES`, errors first; `more` are those of one client."""
        return limited((*self._view.issues, *self._notes.values(), *more))

    def note(self, issue: Issue) -> None:
        """Remember a problem found during a call; one per code and tool."""
        if len(self._notes) < MAX_NOTES:
            self._notes[issue.code, issue.tool_name] = issue

    async def current(self, first_wait_s: float | None = None, *, with_files: bool = False) -> View:
        """The view for a request that has just arrived.

        Args:
            first_wait_s: seconds from now that a source without a known list may take, 0 for none; None for
                `FIRST_WAIT_S` from when it is asked.
            with_files: whether files are checked that only requests about resources and skills depend on.
        """
        self._requested += 1
        number = self._requested
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        configuration = await self._configure()
        if with_files:
            await self._registry.check_files()
        if (
            first_wait_s
        ):  # a list of an earlier life, or of another worktree, only has to be read from the disk
            first_wait_s = max(WAIT_S, arrived + first_wait_s - loop.time())
        snapshot = await self._registry.snapshot(first_wait_s)
        if snapshot is self._view.snapshot and configuration is self._view.configuration:
            return self._view
        view = views.build_view(snapshot, configuration)
        if number > self._newest:  # a slower, older request must not replace a newer view
            self._newest, self._view = number, view
            self._schedule_announcement()
        return view

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a source reports a change or answers late, at most so many seconds."""
        await self._registry.wait_for_change(seconds)

    def current_nowait(self) -> View | None:
        """The view for a request that has just arrived; None if a source has to be asked.

        Only its tools are current. Prompts, resources and issues may be older.
        """
        configuration = self._configure_now()
        is_last = configuration is self._view.configuration and self._registry.is_unchanged
        return self._view if is_last else None

    def sources(self, *, closely: bool = False) -> list[dict[str, Any]]:
        """The sources as JSON, with their numbers of tools, prompts and resources.

        Args:
            closely: adds programs, restarts and the last lines of standard error. Health answers leave these
                out, because every user of this machine can read them.
        """
        known_counts, callable_ = views.counts(self._view.snapshot.tools), views.counts(self._view.tools)
        counts = self._view.snapshot.offerings.counts
        return [
            {
                **source,
                "toolCount": known_counts.get(source["id"], 0),
                "enabledToolCount": callable_.get(source["id"], 0),
                **counts.get(source["id"], {}),
            }
            for source in self._registry.sources(closely=closely)
        ]

    async def refresh(self, identity: str | None = None) -> bool:
        """Refresh one source, or all of them; returns whether there was one."""
        return await self._registry.refresh(identity)

    async def restart(self, identity: str | None = None) -> Mapping[str, str]:
        """Restart one source, or all of them; returns what was done to each, by id."""
        return await self._registry.restart(identity)

    def touch(self) -> None:
        """Check for changes now, and announce them."""
        task = asyncio.get_running_loop().create_task(self.current(), name="toolset-refresh")
        self._refreshing.add(task)
        task.add_done_callback(self._refreshed)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after lists changed. Returns the function that unsubscribes."""
        self._listeners.add(listener)
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(
                self._check_regularly(), name="toolset-check"
            )
        return lambda: self._remove(listener)

    async def close(self) -> None:
        """Stop checking, and close all sources, each in bounded time. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        checking = () if self._checking is None else (self._checking,)
        for task in (*self._refreshing, *checking):
            task.cancel()
        await asyncio.gather(*self._refreshing, *checking, return_exceptions=True)
        await self._registry.close()

    def _remove(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval_s)
            try:
                await self.current(with_files=True)
            except Exception as fault:  # noqa: BLE001  the next check may succeed
                log.fault("file_check_failed", fault)

    def _refreshed(self, task: asyncio.Task[View]) -> None:
        self._refreshing.discard(task)
        with suppress(asyncio.CancelledError):
            if (fault := task.exception()) is not None:
                log.fault("refresh_failed", fault)

    def _schedule_announcement(self) -> None:
        if self._announced is None:
            self._announced = self._view
        elif self._timer is None and self._view.differences(self._announced):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time() + SOON_S, self._next_at), self._announce)

    def _announce(self) -> None:
        self._timer, self._next_at = None, asyncio.get_running_loop().time() + COALESCE_S
        before, self._announced = self._announced or View(), self._view
        if changed := self._view.differences(before):
            for listener in tuple(self._listeners):
                listener(changed)


# Files of a project that nobody trusted can cause any number of issues, which every list and health answer
# repeats.

# With texts of `MAX_TEXT` characters all issues take 400 KB at most. Nobody corrects more at once.
MAX_ISSUES: Final = 200
MAX_TEXT: Final = 1_000
"""Characters of a message, and of its details."""


def limited(issues: Iterable[Issue]) -> list[Issue]:
    """The issues in their order, errors first; one in place of those beyond the limit."""
    ordered = sorted(issues, key=lambda issue: issue.order)
    shortened = [_shortened(issue) for issue in ordered[:MAX_ISSUES]]
    if len(ordered) > MAX_ISSUES:
        count = len(ordered) - MAX_ISSUES
        text = f"{count} more problems are not listed; correct those that are, and list again"
        shortened.append(Issue("warning", "issues", "ISSUES_LEFT_OUT", text))
    return shortened


def _shortened(issue: Issue) -> Issue:
    if len(issue.message) <= MAX_TEXT and len(issue.details or "") <= MAX_TEXT:
        return issue
    details = None if issue.details is None else _cut(issue.details)
    return structs.replace(issue, message=_cut(issue.message), details=details)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
