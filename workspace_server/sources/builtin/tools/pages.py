"""Divides long results into pages that fit a model, and says how to get the next one. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from workspace_server.tool import ToolResult

PAGE_CHARACTERS: Final = 36_000
"""Size of a page in characters, about 10,000 tokens, unless the caller asks for a number of results."""

OFFSET_SCHEMA: Final = {
    "type": "integer",
    "minimum": 0,
    "maximum": 100_000,
    "default": 0,
    "description": "The `nextOffset` of the page before.",
}
MEMBER_SCHEMAS: Final = {
    "total": {
        "type": "integer",
        "minimum": 0,
        "description": "Results on all pages; only if these are not all.",
    },
    "totalIsMinimum": {"const": True, "description": "There may be more than `total`."},
    "nextOffset": {
        "type": "integer",
        "minimum": 1,
        "description": "`offset` of the next page, if there is one.",
    },
}
NOTE_SCHEMA: Final = {"note": {"type": "string", "description": "What to know about the result."}}


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the results.

    Attributes:
        offset: number of results before it.
        shown: number of results on it.
        total: number of all results; if not `exact`, at least.
        exact: whether `total` is certain.
        late: whether the search was stopped at its deadline.
    """

    offset: int
    shown: int
    total: int
    exact: bool
    late: bool = False

    @property
    def next_offset(self) -> int | None:
        """Where the next page begins; None if this is the last."""
        end = self.offset + self.shown
        return end if self.shown and (end < self.total or not (self.exact or self.late)) else None

    def members(self) -> dict[str, Any]:
        """What the structured result says about other pages; empty if it is complete."""
        if not self.total or (self.exact and self.shown == self.total):
            return {}
        members: dict[str, Any] = {"total": self.total}
        if not self.exact:
            members["totalIsMinimum"] = True
        if self.next_offset is not None:
            members["nextOffset"] = self.next_offset
        return members

    def line(self) -> str:
        """The same in a sentence for the end of the text; empty if the result is complete."""
        if not self.members():
            return ""
        total = f"{self.total}" if self.exact else f"{self.total} or more"
        place = (
            f"{self.offset + 1}-{self.offset + self.shown} of {total}" if self.shown else f"none of {total}"
        )
        if self.next_offset is None:
            return place
        return f"{place}; next page: the same call with offset {self.next_offset}"


def fitting(sizes: Iterable[int]) -> int:
    """How many results of these sizes in characters fit on a page; at least one."""
    count, used = 0, 0
    for size in sizes:
        used += size
        if used > PAGE_CHARACTERS and count:
            break
        count += 1
    return count


def shown_path(text: str) -> str:
    """A path for a line of text: as JSON if it has line ends or other characters that cannot be seen."""
    return text if text.isprintable() and text[:1] != '"' else json.dumps(text, ensure_ascii=False)


def empty(text: str, structured: dict[str, Any], note: str, page: Page) -> ToolResult:
    """The result without a result on this page: `text`, and why that may not be all."""
    if page.offset and page.total:
        note = f"there are {page.total} results; offset {page.offset} is behind the last one"
    if not note:
        return ToolResult(text, structured)
    return ToolResult(f"{text}\nnote: {note}", {**structured, "note": note})


def ending(page: Page, *, is_fitted: bool) -> list[str]:
    """The last lines of a text that is one of several pages; none if the caller chose its size."""
    line = page.line() if is_fitted else ""
    return ["---", f"({line})"] if line else []
