"""Defines the screen that lines are made for, and the spans that a line consists of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from lm_tools_bridge.terminal.tones import Tone


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
