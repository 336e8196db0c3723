"""Decides which columns of a table fit into a width, how wide each is, and what goes below the rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lm_tools_bridge.terminal.cells import least_width
from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.views import Column, Kind

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
