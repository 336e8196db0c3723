"""Defines the screen that lines are made for, their spans, and whether colours are wanted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from lm_tools_bridge.terminal.views import Tone


class Stream(Protocol):
    """Something that text is written to."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


def has_colour(stream: Stream) -> bool:
    """Whether what is written to a stream may have colours."""
    if os.environ.get("NO_COLOR"):
        return False
    return is_forced() or (stream.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"})


def is_forced() -> bool:
    """Whether the user wants colours even where the output is piped."""
    return bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")


class Part(Enum):
    """What a piece of a line is, besides the tones of states."""

    TEXT = "text"
    HEAD = "head"
    LABEL = "label"
    ASIDE = "aside"


class Span(NamedTuple):
    """A piece of a line in one style."""

    text: str
    style: Tone | Part = Part.TEXT


Line = list[Span]


class Screen(NamedTuple):
    """What can be shown where lines go.

    Attributes:
        width: columns; None where nothing is to be cut or broken.
        measure: the columns that a text takes.
        marks: a mark for each tone; none where the words are enough.
        ellipsis: stands for what was cut.
        home: the home folder, which is then shown as `~`.
        encode: replaces characters that cannot be shown by escapes.
    """

    width: int | None
    measure: Callable[[str], int]
    marks: Mapping[Tone, str]
    ellipsis: str = "…"
    home: str | None = None
    encode: Callable[[str], str] = str
