"""What the workspace offers right now: sources under a configuration, and who hears of changes.

Every request asks anew, so that a changed file counts from the next request on. While somebody
listens, it looks by itself, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from protocol.issues import Issue
from workspace_server import log
from workspace_server.catalog import view as views
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.view import Kind, View
from workspace_server.config.model import Configuration

COALESCE_S: Final = 0.25
"""Changes within this time are announced once."""
LOOK_S: Final = 1.0
"""How often files are looked at while somebody listens (within 2 s)."""
MAX_NOTES: Final = 200

Configure = Callable[[], Awaitable[Configuration]]
ConfigureNowait = Callable[[], Configuration | None]
Listener = Callable[[frozenset[Kind]], None]
"""Hears which lists changed."""


async def _defaults() -> Configuration:
    return Configuration()


def _unknown() -> None:
    """Nobody knows without waiting."""


class Toolset:
    """What one workspace offers. Owns its registry.

    Args:
        registry: the sources.
        configure: the configuration in force; it may replace the registry's sources.
        configure_nowait: the same, or None where it has to be waited for.
        look_s: seconds between two looks while somebody listens.
    """

    def __init__(
        self,
        registry: Registry,
        configure: Configure = _defaults,
        configure_nowait: ConfigureNowait = _unknown,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._registry = registry
        self._configure = configure
        self._configure_now = configure_nowait
        self._look_s = look_s
        self._view = View()
        self._asked = self._seen = 0
        self._announced: View | None = None
        self._listeners: set[Listener] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._refreshing: set[asyncio.Task[View]] = set()
        self._notes: dict[tuple[str, str | None], Issue] = {}
        registry.watch(self.touch)

    @property
    def last(self) -> View:
        """The view as it was last seen, without asking anybody."""
        return self._view

    def issues(self) -> list[Issue]:
        """What is wrong, as far as it was seen; errors first."""
        return sorted((*self._view.issues, *self._notes.values()), key=lambda issue: issue.order)

    def note(self, issue: Issue) -> None:
        """Remember something that only calls can show; one per code and tool."""
        if len(self._notes) < MAX_NOTES:
            self._notes[issue.code, issue.tool_name] = issue

    async def current(self) -> View:
        """The view of a request that has just come in."""
        self._asked += 1
        ticket = self._asked
        configuration = await self._configure()
        snapshot = await self._registry.snapshot()
        if snapshot is self._view.snapshot and configuration is self._view.configuration:
            return self._view
        view = views.build_view(snapshot, configuration)
        if ticket > self._seen:  # an older request that took longer does not bring back what was
            self._seen, self._view = ticket, view
            self._compare()
        return view

    def current_nowait(self) -> View | None:
        """The tools of a request that has just come in, where nobody has to be asked; else None.

        What else the sources offer, and issues, may be older.
        """
        configuration = self._configure_now()
        is_last = configuration is self._view.configuration and self._registry.is_unchanged
        return self._view if is_last else None

    def sources(self, *, closely: bool = False) -> list[dict[str, Any]]:
        """The sources, with how many of their tools can be called, and what else they offer.

        Args:
            closely: with processes, restarts and the last lines of standard error, which anybody on this
                machine could read in a health answer.
        """
        known, callable_ = views.counts(self._view.snapshot.tools), views.counts(self._view.tools)
        extras = self._view.snapshot.offerings.counts
        return [
            {
                **source,
                "toolCount": known.get(source["id"], 0),
                "enabledToolCount": callable_.get(source["id"], 0),
                **extras.get(source["id"], {}),
            }
            for source in self._registry.sources(closely=closely)
        ]

    async def refresh(self, identity: str | None = None) -> bool:
        """Ask one source, or all, to look again at once; whether there was one to ask."""
        return await self._registry.refresh(identity)

    def touch(self) -> None:
        """Something may have changed: look, and announce it if so."""
        task = asyncio.get_running_loop().create_task(self.current(), name="toolset-refresh")
        self._refreshing.add(task)
        task.add_done_callback(self._refreshed)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after lists changed. Returns what ends it."""
        self._listeners.add(listener)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="toolset-look")
        return lambda: self._leave(listener)

    async def close(self) -> None:
        """Stop looking, and close all sources, each in bounded time. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        looking = () if self._looking is None else (self._looking,)
        for task in (*self._refreshing, *looking):
            task.cancel()
        await asyncio.gather(*self._refreshing, *looking, return_exceptions=True)
        await self._registry.close()

    def _leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            try:
                await self.current()
            except Exception as fault:  # noqa: BLE001  the next look may succeed
                log.fault("look_failed", fault)

    def _refreshed(self, task: asyncio.Task[View]) -> None:
        self._refreshing.discard(task)
        with suppress(asyncio.CancelledError):
            if (fault := task.exception()) is not None:
                log.fault("refresh_failed", fault)

    def _compare(self) -> None:
        if self._announced is None:
            self._announced = self._view
        elif self._timer is None and self._view.differences(self._announced):
            self._timer = asyncio.get_running_loop().call_later(COALESCE_S, self._announce)

    def _announce(self) -> None:
        self._timer = None
        before, self._announced = self._announced or View(), self._view
        if changed := self._view.differences(before):
            for listener in tuple(self._listeners):
                listener(changed)
