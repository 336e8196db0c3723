"""Keeps the lists of files that searches in a workspace made, until no search has used them for a while."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from workspace_server.sources.builtin.search.query import SearchSettings

KEPT_S: Final = 900.0
"""Seconds for which lists of files are kept after the last search began."""


class KeptSearches:
    """What all searches in a workspace share. To be used on the event loop only."""

    def __init__(self) -> None:
        self._idle: asyncio.TimerHandle | None = None

    def settings(self) -> SearchSettings:
        """The settings of a search that is about to begin; its lists are kept for some time."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(KEPT_S, self._settings.listings.forget)
        return self._settings

    def close(self) -> None:
        """Forget the lists."""
        if self._idle is not None:
            self._idle.cancel()
            self._settings.listings.forget()

    @cached_property
    def _settings(self) -> SearchSettings:
        # loaded here: most servers start without a search
        from workspace_server.sources.builtin.search.query import SearchSettings  # noqa: PLC0415  see above

        return SearchSettings()
