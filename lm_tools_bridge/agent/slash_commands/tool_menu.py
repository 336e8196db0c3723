"""Writes tables of commands and the numbered menu of tools, and finds the tool that an input means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from lm_tools_bridge.terminal.lines import lines
from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.views import Column, Table

_WIDTH: Final = 80  # columns that every terminal has


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table in at most 80 columns."""
    screen = Screen(_WIDTH, cell_len, {})
    view = Table(tuple(columns), rows)
    return ["".join(span.text for span in line).rstrip() for line in lines(view, screen)]


_COLUMNS: Final = 3  # three names, with their numbers, fit into 80 columns
_LONGEST: Final = 17
_CUT: Final = 15  # with two dots behind it, a name is as long as `_LONGEST`


def menu(names: Sequence[str]) -> list[str]:
    """The lines of the menu; long names are cut, and their number stands for them."""
    digits = len(str(len(names)))
    cells = [
        f"{number:>{digits}}. {_short(name).ljust(_LONGEST)}" for number, name in enumerate(names, start=1)
    ]
    rows = [cells[at : at + _COLUMNS] for at in range(0, len(cells), _COLUMNS)]
    return ["  ".join(row).rstrip() for row in rows]


def chosen(text: str, names: Sequence[str]) -> str | None:
    """The name that a number of the menu, a name or the end of exactly one name means; else None."""
    if text.isascii() and text.isdigit():
        number = int(text[:9])
        return names[number - 1] if 1 <= number <= len(names) else None
    if text in names:
        return text
    ends = [name for name in names if name.endswith((f"_{text}", f".{text}"))]
    return ends[0] if len(ends) == 1 else None


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_CUT]}.."
