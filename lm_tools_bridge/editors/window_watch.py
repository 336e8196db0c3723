"""Knows which window has the project open, as of the last look.

Windows are looked for when lists or calls need them, never in between. Of several, the first that fits is
used; when it closes, the next one takes its place.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Final

from lm_tools_bridge.editors.finder import WindowFinder
from lm_tools_bridge.editors.window import Window

AGAIN_S: Final = 1.0
"""Age in seconds after which it is checked that the window in use is still there."""
SEARCH_AGAIN_S: Final = 5.0
"""The same for a search that found no window."""


class WindowWatch:
    """The window of one project.

    Attributes:
        window: the window in use.
        others: further windows that have the project open, as of the last search.
        left: the window that was in use before.
    """

    def __init__(
        self,
        finder: WindowFinder,
        clock: Callable[[], float],
        on_replaced: Callable[[Window | None, Window | None], None],
        on_tools: Callable[[], None],
    ) -> None:
        """Look for nothing yet.

        Args:
            finder: looks for windows; it blocks.
            clock: monotonic seconds.
            on_replaced: called with the window that was in use, and the one that is.
            on_tools: called when the window in use offers other tools.
        """
        self.window: Window | None = None
        self.others: tuple[Window, ...] = ()
        self.left: Window | None = None
        self._finder = finder
        self._clock = clock
        self._on_replaced = on_replaced
        self._on_tools = on_tools
        self._looking: asyncio.Task[None] | None = None
        self._everywhere = False
        self._look_at: float | None = None
        self._closed = False

    @property
    def is_overdue(self) -> bool:
        """Whether what is known is too old."""
        return not self._closed and (self._look_at is None or self._clock() >= self._look_at)

    @property
    def rest_s(self) -> float:
        """Seconds until what is known is too old."""
        return math.inf if self._look_at is None or self._closed else self._look_at - self._clock()

    async def look(self, *, anew: bool = False, everywhere: bool = False) -> None:
        """Find out which window is there, unless that was found out a moment ago.

        Args:
            anew: look after this call in any case, because what a look saw before may be outdated.
            everywhere: search for other windows, too, while the one in use is there.
        """
        self._everywhere = self._everywhere or everywhere
        if self._closed or not (anew or self.is_overdue or self._looking is not None):
            return
        if anew and self._looking is not None:
            await asyncio.shield(self._looking)
            if self._closed:
                return
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look-for-windows")
        await asyncio.shield(self._looking)

    async def close(self) -> None:
        """Wait for the look that is under way, and look no more."""
        self._closed = True
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)
        self.window = None

    async def _look(self) -> None:
        """Ask the window in use; search if it is gone."""
        try:
            window, everywhere = self.window, self._everywhere
            self._everywhere = False
            same = None if window is None else await asyncio.to_thread(self._finder.ask, window.port)
            if same is None or same != window or everywhere:
                self._take(await asyncio.to_thread(self._finder.find))
            else:
                self._stays(same)
        finally:
            self._looking = None
            self._look_at = self._clock() + (SEARCH_AGAIN_S if self.window is None else AGAIN_S)

    def _stays(self, window: Window) -> None:
        """The window is there; its user may have switched tools on or off."""
        before, self.window = self.window, window
        if before is not None and before.tools != window.tools:
            self._on_tools()

    def _take(self, windows: Sequence[Window]) -> None:
        """Use the first of these windows, or the one in use if it is among them."""
        before = self.window
        same = next((candidate for candidate in windows if candidate == before), None)
        window = same or next(iter(windows), None)
        self.others = tuple(candidate for candidate in windows if candidate is not window)
        if same is not None:
            self._stays(same)
        elif window is not None or before is not None:
            self.window, self.left = window, before or self.left
            self._on_replaced(before, window)
