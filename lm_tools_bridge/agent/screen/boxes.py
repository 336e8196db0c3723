"""Draws boxes with a title by display width, so that wide characters keep the right border straight. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from lm_tools_bridge.text.printable import printable

WIDEST: Final = 80
"""Columns of a box at most, also on a wider terminal."""
_NARROWEST: Final = 47
"""Columns of a box at least, where the terminal has them, so that boxes in a row look alike."""
_TAB: Final = "    "


def width(columns: int) -> int:
    """The columns of a box that is as wide as boxes become on a terminal of this size."""
    return max(min(WIDEST, columns), 8)


def box(title: str, lines: Sequence[str], columns: int) -> list[str]:
    """The lines of a rounded box on a terminal of this size; hostile characters are escaped."""
    inner = width(columns) - 4
    rows = [row for line in lines for row in wrapped(shown(line), inner)]
    needed = max([cell_len(row) for row in rows] + [cell_len(title) + 2], default=0)
    inner = min(inner, max(needed, _NARROWEST - 4))
    return [top(title, inner + 4), *(middle(row, inner + 4) for row in rows), bottom(inner + 4)]


def top(title: str, total: int) -> str:
    """The first line of a box."""
    head = f"╭─ {cut(title, total - 6)} "
    return f"{head}{'─' * (total - 1 - cell_len(head))}╮"


def middle(row: str, total: int) -> str:
    """A line in a box; `row` fits in it."""
    return f"│ {row}{' ' * (total - 4 - cell_len(row))} │"


def bottom(total: int) -> str:
    """The last line of a box."""
    return f"╰{'─' * (total - 2)}╯"


def shown(text: str) -> str:
    """A text of one or several lines as it may be printed."""
    return printable(text, lines=True).replace("\t", _TAB)


def wrapped(text: str, columns: int) -> Iterator[str]:
    """The rows that a text takes, broken at blanks where there are some, never within a wide character."""
    for line in text.split("\n"):
        remainder = line
        while cell_len(remainder) > columns:
            head = cut(remainder, columns) or remainder[:1]
            blank = head.rfind(" ")
            if remainder[len(head)] != " " and blank > len(head) // 2:
                head = head[:blank]
            yield head.rstrip(" ")
            remainder = remainder[len(head) :].lstrip(" ")
        yield remainder


def cut(text: str, columns: int) -> str:
    """The longest beginning of a text that fits into this many columns."""
    if text.isascii():
        return text[: max(columns, 0)]
    used = 0
    for at, character in enumerate(text):
        used += cell_len(character)
        if used > columns:
            return text[:at]
    return text
