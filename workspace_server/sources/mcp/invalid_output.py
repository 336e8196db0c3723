"""Counts output of a server that is no JSON-RPC message, and keeps the first lines for status. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from workspace_server.results import clean_text

# The first lines show what a server prints by mistake: the rest is more of it.
KEPT: Final = 5
MAX_CHARACTERS: Final = 200
FLOOD: Final = 1_000
"""More lines than this within a minute are reported as an issue."""
_MINUTE_S: Final = 60.0


@dataclass(slots=True)
class InvalidOutput:
    """The junk of one source, over all its sessions. Times are monotonic seconds."""

    count: int = 0
    first: list[str] = field(default_factory=list)
    flooded: bool = False
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=FLOOD + 1))

    def add(self, line: bytes, now: float) -> bool:
        """Count one line. Returns whether it is the line that exceeds the limit."""
        self.count += 1
        if len(self.first) < KEPT:
            text = line[: MAX_CHARACTERS * 4].decode(errors="replace")[:MAX_CHARACTERS]
            self.first.append(" ".join(clean_text(text).split()))
        self._recent.append(now)
        if self.flooded or len(self._recent) <= FLOOD or now - self._recent[0] > _MINUTE_S:
            return False
        self.flooded = True
        return True
