"""How a run measures: how often, how long, which cases; and how it says where it is. Decides nothing else."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".bench"
"""What was found, and the programs of others; git ignores it."""


@dataclass(frozen=True)
class Plan:
    """What was asked for. `folder` is for this run alone and vanishes with it."""

    folder: Path
    rounds: int = 5
    seconds: int = 1
    words: tuple[str, ...] = ()
    quick: bool = False
    write_docs: bool = False
    began: float = field(default_factory=time.monotonic)

    def wants(self, label: str) -> bool:
        """Was this case asked for? Every word must be in its label."""
        return all(word in label.split() for word in self.words)

    def say(self, text: str) -> None:
        """A line for whoever watches."""
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)


class Missing(Exception):
    """A tool that a measurement needs is not here; the message ends in the next step."""
