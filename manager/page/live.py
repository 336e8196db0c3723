"""Takes samples for open pages: one a second for all of them together, none while no page is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from manager.admin.services import Services
from manager.page.fragments import parts
from manager.page.view import PageView, page_view
from manager.status_reading.responses import objects
from protocol.errors import Refusal

EVERY_S: Final = 1.0
QUIET_S: Final = 20.0
"""Longest time without an item, so that a connection that broke off is noticed."""
MOST_PAGES: Final = 32
"""Most pages that are kept up to date at a time."""

Parts = Mapping[str, str]


class LivePages:
    """The samples that open pages share.

    Args:
        status: the status as `/mcp/status` shows it.
        pause: waits between two samples.
    """

    def __init__(
        self,
        services: Services,
        status: Callable[[], dict[str, Any]],
        pause: Callable[[], Any] = lambda: asyncio.sleep(EVERY_S),
    ) -> None:
        self._services = services
        self._status = status
        self._pause = pause
        self._open = 0
        self._is_closed = False
        self._latest: Parts = {}
        self._changed = asyncio.Condition()
        self._sampler: asyncio.Task[None] | None = None
        self._known: dict[str, tuple[object, Mapping[str, Any]]] = {}
        """What each server said of its calls, beside the figures that it had then."""

    @property
    def is_full(self) -> bool:
        """Whether no further page can be kept up to date."""
        return self._open >= MOST_PAGES

    async def view(self) -> PageView:
        """What the page shows now. Asks the servers whose calls have changed, and starts none."""
        status = self._status()
        known: dict[str, tuple[object, Mapping[str, Any]]] = {}
        for one in objects(status, "instanceDetails"):
            workspace, figures = str(one.get("workspace")), (one.get("pid"), one.get("calls"))
            said = self._known.get(workspace)
            if said is None or said[0] != figures or one.get("inFlight"):
                said = figures, await self._calls(str(one.get("root")))
            known[workspace] = said
        self._known = known
        return page_view(status, {workspace: answer for workspace, (_, answer) in known.items()})

    async def changes(self) -> AsyncGenerator[Parts]:
        """Yield the parts that changed since the last item: first all of them, none after a quiet while.

        Ends when the pages are closed.
        """
        self._open += 1
        shown: Parts = {}
        try:
            self._sampler = self._sampler or asyncio.create_task(self._sample(), name="page.sampler")
            while not self._is_closed:
                latest = await self._after(shown)
                yield {name: html for name, html in latest.items() if shown.get(name) != html}
                shown = latest
        finally:
            self._open -= 1
            if self._open == 0:
                await self._end_sampler()

    async def close(self) -> None:
        """End all streams of changes; none begins again."""
        self._is_closed = True
        await self._end_sampler()
        async with self._changed:
            self._changed.notify_all()

    async def _end_sampler(self) -> None:
        sampler, self._sampler, self._latest = self._sampler, None, {}
        if sampler is not None:
            sampler.cancel()
            await asyncio.gather(sampler, return_exceptions=True)

    async def _after(self, shown: Parts) -> Parts:
        """The first sample that differs from `shown`; `shown` itself after a quiet while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S), self._changed:
                await self._changed.wait_for(
                    lambda: self._is_closed or (self._latest and self._latest != shown)
                )
                return self._latest or shown
        return shown

    async def _sample(self) -> None:
        while True:
            latest = parts(await self.view())
            async with self._changed:
                self._latest = latest
                self._changed.notify_all()
            await self._pause()

    async def _calls(self, root: str) -> Mapping[str, Any]:
        answer = await self._services.ask_server(root, "calls", None)
        if isinstance(answer, Refusal):
            return {}
        found = msgspec.json.decode(answer)
        return found if isinstance(found, dict) else {}
