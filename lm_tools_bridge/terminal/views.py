"""Defines the views that verbs show (tables, labelled facts, notes) and the tones of states. Pure.

Texts may come from outside: they are escaped when they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple


class Tone(Enum):
    """How good or bad something is."""

    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


MARKS: Final = {Tone.GOOD: "✓", Tone.BUSY: "…", Tone.WARN: "!", Tone.BAD: "✗", Tone.OFF: "–"}
ASCII_MARKS: Final = {Tone.GOOD: "+", Tone.BUSY: "~", Tone.WARN: "!", Tone.BAD: "x", Tone.OFF: "-"}

_WORDS: Final = {
    Tone.GOOD: "ready connected trusted ok yes current active listed always callable enabled installed",
    Tone.BUSY: "starting connecting stopping draining restarting running",
    Tone.WARN: "backoff retrying pending_trust auth_required needs suspect degraded new changed outdated warn"
    " other",
    Tone.BAD: "failed crash_looping crashing unhealthy fail unusable not error",
    Tone.OFF: "stopped offline gone idle disabled no missing unknown removed cancelled unlisted",
}
_TONES: Final = {word: tone for tone, words in _WORDS.items() for word in words.split()}


def tone_of(state: str) -> Tone | None:
    """The tone of a state by its first word; None for a state that is not known."""
    word = state.split(maxsplit=1)[0].rstrip(",:;") if state else ""
    tone = _TONES.get(word)
    return Tone.WARN if tone is Tone.GOOD and state.endswith("(stale)") else tone


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
    """A word with the mark and the colour of its tone; never cut."""
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
