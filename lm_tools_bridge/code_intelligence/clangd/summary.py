"""Writes the texts of the clangd tools: counts, sections, and entries of a path and a summary. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workspace_server.results import clean_text

SEPARATOR: Final = "\n---\n"
NONE: Final = "(none)"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entries there are, and how many are shown."""

    total: int
    shown: int

    @property
    def truncated(self) -> bool:
        """Whether entries were left out."""
        return self.shown < self.total

    def structured(self) -> dict[str, int | bool]:
        """As in `structuredContent`."""
        return {"total": self.total, "shown": self.shown, "truncated": self.truncated}


@dataclass(frozen=True, slots=True)
class Entry:
    """One place, as `<path>#<line or range>`, and what is there."""

    place: str
    summary: str


@dataclass(frozen=True, slots=True)
class Section:
    """A titled block of lines. Without lines it says that there is nothing."""

    title: str
    lines: Sequence[str]


def write(
    kind: str,
    counts: Counts,
    *,
    sections: Sequence[Section] = (),
    entries: Sequence[Entry] = (),
    extras: Mapping[str, object] | None = None,
) -> str:
    """The text of a result.

    Args:
        kind: which tool's result it is.
        counts: for the first line.
        sections, entries: what follows, in this order.
        extras: more members of the first line.
    """
    more = "".join(f" {name}={_word(value)}" for name, value in (extras or {}).items())
    head = (
        f"counts total={counts.total} shown={counts.shown} truncated={_word(counts.truncated)} "
        f"kind={kind}{more}"
    )
    blocks = ["\n".join([f"[{one.title}]", *_told_apart(one.lines or [NONE])]) for one in sections]
    listed = [f"{one.place}\n{one.summary}" for one in entries]
    return clean_text(SEPARATOR.join([head, *blocks, *listed]))


def _told_apart(lines: Sequence[str]) -> Sequence[str]:
    """The lines, none of which looks like a separator."""
    return [f" {line}" if line == "---" else line for line in lines]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
