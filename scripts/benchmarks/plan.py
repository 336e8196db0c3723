"""The options of a run: rounds, seconds, cases; and its progress messages."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".bench"
"""Results, and installed proxies; ignored by git."""


@dataclass(frozen=True)
class Plan:
    """The options of a run. `folder` is a temporary folder of this run."""

    folder: Path
    rounds: int = 5
    seconds: int = 1
    words: tuple[str, ...] = ()
    quick: bool = False
    write_docs: bool = False
    began: float = field(default_factory=time.monotonic)

    def wants(self, label: str) -> bool:
        """Whether this case is requested: its label must contain every word."""
        return all(word in label.split() for word in self.words)

    def say(self, text: str) -> None:
        """Print a progress message."""
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)


class Missing(Exception):
    """A required program is not installed; the message ends with the next step."""
