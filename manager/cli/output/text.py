"""Formats tables, durations and sizes for a terminal.

External text (names, paths, log lines) is escaped. Imports little, so that `lmtb status` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from host.printable import printable

_NARROWEST: Final = 8
_GAP: Final = "  "


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    flexible: Sequence[str] = (),
    optional: str | None = None,
) -> str:
    """Aligned columns, cut to the terminal's width; not cut if the output is no terminal.

    Args:
        heads: the columns' names.
        rows: cells; None is shown as a dash; numeric columns are right-aligned.
        flexible: columns that may be cut, the last one first.
        optional: a column that is omitted if even the cut table is too wide.
    """
    raw = [list(row) for row in rows]
    texts = [["-" if cell is None else printable(cell) for cell in row] for row in raw]
    widths = [max(_width(cell) for cell in column) for column in zip(heads, *texts, strict=True)]
    if sys.stdout.isatty():
        excess = _shrink(widths, [heads.index(name) for name in reversed(flexible)])
        if excess > 0 and optional is not None:
            at = heads.index(optional)
            kept = [[*row[:at], *row[at + 1 :]] for row in (heads, *raw)]
            left = [name for name in flexible if name != optional]
            return table([str(name) for name in kept[0]], kept[1:], flexible=left)
    right = [_is_numeric([row[at] for row in raw]) for at in range(len(heads))]
    lines = [
        _GAP.join(_pad(cell, width, right=side) for cell, width, side in zip(row, widths, right, strict=True))
        for row in [list(heads), *texts]
    ]
    return "\n".join(line.rstrip() for line in lines)


def _is_numeric(cells: Sequence[object]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, int | float) for cell in known)


def _shrink(widths: list[int], order: Iterable[int]) -> int:
    """Cut columns, in this order, until the table fits. Returns the remaining excess width."""
    import shutil  # noqa: PLC0415  6 ms that only terminals need

    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - shutil.get_terminal_size().columns
    for at in order:
        given = max(min(excess, widths[at] - _NARROWEST), 0)
        widths[at] -= given
        excess -= given
    return excess


def _pad(cell: str, width: int, *, right: bool) -> str:
    if _width(cell) > width:
        while cell and _width(cell) > width - 1:
            cell = cell[1:] if cell.startswith("/") and len(cell) > 1 else cell[:-1]
        cell += "…"
    space = " " * (width - _width(cell))
    return space + cell if right else cell + space


def _width(text: str) -> int:
    """Columns on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - most texts are ASCII

    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def duration(seconds: object) -> str | None:
    """`42 s`, `3 min`, `2 h 5 min`, `4 d 1 h`; None if the value is no number."""
    if not isinstance(seconds, int | float):
        return None
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def latency(milliseconds: object) -> str | None:
    """`0.04 ms`, `12 ms`, `2.5 s`; None if the value is no number."""
    if not isinstance(milliseconds, int | float):
        return None
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.{2 if milliseconds < 1 else 1 if milliseconds < 10 else 0}f} ms"


def size(count: object) -> str | None:
    """Bytes as `12 MB`; None if the value is no number."""
    if not isinstance(count, int | float):
        return None
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
