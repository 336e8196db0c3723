"""Says how far an answer of a language server can be trusted, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

FreshnessState = Literal[
    "fresh",  # complete, and about the files as they are now
    "indexing",  # the server still reads the project: there may be more
    "partial",  # complete for some files only
    "stale",  # about files as they were before a change that the server has not taken in
    "unknown",  # the server gives no sign by which this could be told
    "crashed",  # there is no answer: the server ended, hangs, or cannot be started
]
_WORST_FIRST: Final[tuple[FreshnessState, ...]] = (
    "crashed",
    "stale",
    "indexing",
    "partial",
    "unknown",
    "fresh",
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far one provider's part of an answer can be trusted.

    Attributes:
        provider: who answered, e.g. `clangd`, `ty`, `tree-sitter`.
        state: see `FreshnessState`.
        reason: the cause in a sentence for a model; empty for `fresh` only.
        done, total: how many of how many files are indexed, where the server says so.
    """

    provider: str
    state: FreshnessState
    reason: str = ""
    done: int | None = None
    total: int | None = None

    def structured(self) -> dict[str, Any]:
        """The members for `structuredContent`; without those that are not known."""
        members = {
            "provider": self.provider,
            "state": self.state,
            "reason": self.reason or None,
            "done": self.done,
            "total": self.total,
        }
        return {name: value for name, value in members.items() if value is not None}

    def text(self) -> str:
        """One line of a tool's text, e.g. `clangd: indexing (3 of 40): it still reads the project`."""
        counted = "" if self.done is None or self.total is None else f" ({self.done} of {self.total})"
        return f"{self.provider}: {self.state}{counted}" + (f": {self.reason}" if self.reason else "")


def worst(parts: Iterable[Freshness]) -> Freshness | None:
    """The part that limits the whole answer most; None if there is no part."""
    return min(parts, key=lambda part: _WORST_FIRST.index(part.state), default=None)
