"""Defines the views that verbs show: tables, labelled facts and notes. Pure.

Texts may come from outside: they are escaped when they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from lm_tools_bridge.terminal.tones import Tone


class Kind(Enum):
    """What the cells of a column are, which decides how they are written and what gives way if it is narrow.

    A cell that is None, or no number where one is expected, is shown as a dash.
    """

    NAME = "name"
    """An identifier, or something else to copy: never cut."""
    TEXT = "text"
    """Cut at its end."""
    DETAIL = "detail"
    """A text that matters as a whole: it goes below its row, on lines of its own, before anything is cut."""
    FOLDER = "folder"
    """A folder keeps its end, or goes below its row. A cell that is no absolute path is a name."""
    STATE = "state"
    """A word with a mark and a colour by `tones.py`; never cut."""
    NUMBER = "number"
    AGO = "ago"
    """Seconds since something happened."""
    LATENCY = "latency"
    """Milliseconds."""
    SIZE = "size"
    """Bytes."""
    SECONDS = "seconds"
    """Seconds of processor time."""


class Column(NamedTuple):
    """A column of a table. If space is short, those of the highest rank are omitted first; rank 0 stays."""

    head: str
    kind: Kind = Kind.TEXT
    rank: int = 0


class Table(NamedTuple):
    """Rows below the heads of columns.

    Attributes:
        columns: the columns.
        rows: cells, one for each column.
        groups: a label for each row; where there are several, each is shown above its first row.
        indent: spaces before each line.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    groups: Sequence[str] = ()
    indent: int = 0


class Fact(NamedTuple):
    """A text with its label. A tone adds a mark and a colour on a terminal."""

    label: str
    text: str
    tone: Tone | None = None


class FactList(NamedTuple):
    """Labelled facts, one below the other."""

    facts: Sequence[Fact]


class Note(NamedTuple):
    """One line of prose. If it is too long, it is broken between words, below its own beginning."""

    text: str
    tone: Tone | None = None


View = Table | FactList | Note | str
"""What can be shown; a string is a note without a tone."""
