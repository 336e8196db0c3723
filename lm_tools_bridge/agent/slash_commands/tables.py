"""Writes tables of commands as lines for the width of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from lm_tools_bridge.terminal.lines import lines
from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.views import Column, Table

_WIDTH: Final = 80


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table in at most 80 columns."""
    screen = Screen(_WIDTH, cell_len, {})
    view = Table(tuple(columns), rows)
    return ["".join(span.text for span in line).rstrip() for line in lines(view, screen)]
