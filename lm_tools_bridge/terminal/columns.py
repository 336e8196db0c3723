"""Writes the cells of tables, and decides which columns fit into a width and how wide each is. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.views import Column, Kind, tone_of
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.text.quantities import duration, latency, size

NUMERIC: Final = frozenset({Kind.NUMBER, Kind.LATENCY, Kind.SIZE, Kind.SECONDS})
"""Kinds that are aligned on the right."""
_NONE: Final = "-"
# Terminal columns of a text and of a folder that are worth more than another column of the table: with fewer,
# sentences and paths are cut before they say anything.
_TEXT: Final = 40
_FOLDER: Final = 26
_WIDE: Final = 100
"""On a wider terminal a folder gets this much less than its width, before it goes below its row."""


def _number(value: object) -> str | None:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _seconds(value: object) -> str | None:
    return f"{value:.1f} s" if isinstance(value, int | float) else None


def _ago(value: object) -> str | None:
    text = duration(value)
    return text and f"{text} ago"


_QUANTITIES: Final[Mapping[Kind, Callable[[object], str | None]]] = {
    Kind.NUMBER: _number, Kind.AGO: _ago, Kind.LATENCY: latency, Kind.SIZE: size, Kind.SECONDS: _seconds,
}  # fmt: skip


def written(kind: Kind, value: object, screen: Screen) -> str:
    """A cell's text, whole."""
    if kind in _QUANTITIES:
        return _QUANTITIES[kind](value) or _NONE
    if value is None:
        return _NONE
    text = screen.encode(printable(value))
    if kind in {Kind.FOLDER, Kind.DETAIL}:
        return with_home(text, screen.home)
    return marked(text, screen) if kind is Kind.STATE else text


def with_home(text: str, home: str | None) -> str:
    """A text with `~` for the home folder, where a shell would understand it: at the start of a word."""
    if not home or len(home) < 2 or home not in text:
        return text
    return re.sub(rf"(?<![^\s(]){re.escape(home)}(?=[/\s]|$)", "~", text)


def marked(state: str, screen: Screen) -> str:
    """A state after its mark, or the space of one."""
    if not screen.marks:
        return state
    tone = tone_of(state)
    return f"{screen.marks[tone] if tone else ' '} {state}"


def least_width(kind: Kind, text: str, screen: Screen) -> int:
    """Columns that a cell needs to be told from others."""
    width = screen.measure(text)
    if kind is Kind.TEXT:
        return min(width, _TEXT)
    if kind is Kind.FOLDER and text.startswith(("/", "~")):
        name = screen.measure(f"…/{text.rpartition('/')[2]}")  # whole, as it is what people look for
        return min(width, max(_FOLDER, name, (screen.width or 0) - _WIDE))
    return width


def cut(kind: Kind, text: str, width: int, screen: Screen) -> str:
    """A cell's text in at most `width` columns."""
    if screen.measure(text) <= width:
        return text
    return _cut_front(text, width, screen) if kind is Kind.FOLDER else _cut_end(text, width, screen)


def _cut_end(text: str, width: int, screen: Screen) -> str:
    while text and screen.measure(text) + screen.measure(screen.ellipsis) > width:
        text = text[:-1]
    return f"{text.rstrip()}{screen.ellipsis}"


def _cut_front(folder: str, width: int, screen: Screen) -> str:
    """The last parts of a path that fit, or the end of the last part."""
    parts = folder.split("/")
    for first in range(1, len(parts)):
        tail = "/".join([screen.ellipsis, *parts[first:]])
        if screen.measure(tail) <= width:
            return tail
    last = parts[-1]
    while last and screen.measure(last) + screen.measure(screen.ellipsis) > width:
        last = last[1:]
    return f"{screen.ellipsis}{last}"


GAP: Final = 2
"""Columns between two columns of a table."""


class Arrangement(NamedTuple):
    """The columns beside each other with their widths, and those below each row; by their numbers."""

    widths: dict[int, int]
    below: tuple[int, ...] = ()


def arranged(columns: Sequence[Column], cells: Sequence[Sequence[str]], screen: Screen) -> Arrangement | None:
    """The arrangement that shows the most; None if not even the columns of rank 0 fit.

    First, details move below their rows; then columns give way by rank, as others are cut; then folders move
    below, too.
    """
    whole = {
        at: max(map(screen.measure, (column.head, *(row[at] for row in cells))))
        for at, column in enumerate(columns)
    }
    if screen.width is None or _total(whole.values()) <= screen.width:
        return Arrangement(whole)
    least = {
        at: max(screen.measure(column.head), *(least_width(column.kind, row[at], screen) for row in cells))
        for at, column in enumerate(columns)
    }
    for lowered in ({Kind.DETAIL}, {Kind.DETAIL, Kind.FOLDER}):
        below = tuple(at for at, column in enumerate(columns) if column.kind in lowered)
        for columns_left in _by_rank(columns, below):
            if _total(least[at] for at in columns_left) <= screen.width:
                widths = {at: whole[at] for at in columns_left}
                _shrink(widths, least, screen.width)
                return Arrangement(widths, below)
    return None


def _by_rank(columns: Sequence[Column], below: Sequence[int]) -> Iterator[list[int]]:
    """All columns that are not below; then fewer and fewer."""
    for highest in sorted({column.rank for column in columns}, reverse=True):
        yield [at for at, column in enumerate(columns) if column.rank <= highest and at not in below]


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + GAP * (len(each) - 1)


def _shrink(widths: dict[int, int], least: dict[int, int], width: int) -> None:
    """Cut the widest columns that may be cut until all fit."""
    while _total(widths.values()) > width:
        widest = max((at for at in widths if widths[at] > least[at]), key=lambda at: widths[at])
        widths[widest] -= 1
