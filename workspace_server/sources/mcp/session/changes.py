"""Coalesces `list_changed` notifications: reports a changed list soon, and at most once in 250 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.protocol import names

COALESCE_S: Final = 0.25
SOON_S: Final = 0.02
"""Seconds until the first change after a quiet time is reported: others often follow at once."""
_KINDS: Final = {
    names.TOOLS_CHANGED: "tools",
    names.PROMPTS_CHANGED: "prompts",
    names.RESOURCES_CHANGED: "resources",
}


class Changes:
    """Collects changed lists. `on_change` gets `tools`, `prompts` or `resources`."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._kinds: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    def handle(self, method: str) -> None:
        """Handle a notification that belongs to no single request."""
        if method in _KINDS:
            self.add(_KINDS[method])

    def add(self, kind: str) -> None:
        """Report this list soon, or within 250 ms if changes were just reported."""
        self._kinds.add(kind)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time() + SOON_S, self._next_at), self._report)

    def stop(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()
        self._on_change = _ignore

    def _report(self) -> None:
        self._timer, self._next_at = None, asyncio.get_running_loop().time() + COALESCE_S
        kinds, self._kinds = self._kinds, set()
        for kind in sorted(kinds):
            self._on_change(kind)


def _ignore(_kind: str) -> None:
    """Receives changes after the end."""
