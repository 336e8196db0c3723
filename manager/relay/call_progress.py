"""Sends progress for a silent call, so that clients which count silence do not give up on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names, sse

_METHOD: Final = names.PROGRESS.encode()
_PROGRESS: Final = re.compile(rb'"progress"\s*:\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)')
_STEP: Final = 0.001
"""How much the manager's own progress adds to the last of the server: progress must increase (MCP 2025-11-25,
Progress), and must not run ahead of the server's next."""


class CallProgress:
    """The progress of one call, of its server and of the manager.

    Args:
        token: the client's progress token, as JSON text.
        now: a monotonic clock, in seconds.
    """

    __slots__ = ("_began", "_last", "_now", "_token")

    def __init__(self, token: msgspec.Raw, now: Callable[[], float] = time.monotonic) -> None:
        self._token = token
        self._now = now
        self._began = now()
        self._last = 0.0

    def note_written(self, data: bytes) -> bool:
        """Note what was written to the client, to continue the server's own progress.

        Returns:
            Whether it has progress: a client that counts progress gives up although it gets log messages.
        """
        if _METHOD not in data:
            return False
        self._last = max([self._last, *map(float, _PROGRESS.findall(data))])
        return True

    def event(self) -> bytes:
        """The next progress notification, as an event."""
        self._last = round(self._last + _STEP, 6)
        seconds = self._now() - self._began
        params = {
            "progressToken": self._token,
            "progress": self._last,
            "message": f"still running ({seconds:.0f} s)",
        }
        return sse.encode(jsonrpc.notification(names.PROGRESS, params))
