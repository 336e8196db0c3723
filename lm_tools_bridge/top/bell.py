"""Rings the terminal's bell when something begins to wait for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

_BELL: Final = "\a"


class Bell:
    """Rings once for each thing, not for those that waited at the start.

    Args:
        write: writes to the terminal at once.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._known: set[str] | None = None

    def note(self, waiting: Iterable[Mapping[str, Any]]) -> None:
        """Take what a frame shows under `needsYou`."""
        keys = {str(row["key"]) for row in waiting}
        if self._known is not None and not keys <= self._known:
            self._write(_BELL)
        self._known = keys | (self._known or set())
