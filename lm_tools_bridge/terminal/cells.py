"""Writes single cells of tables: by kind, cut to a width, and filled up to it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from lm_tools_bridge.terminal.quantities import duration, latency, size
from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.tones import tone_of
from lm_tools_bridge.terminal.views import Kind
from lm_tools_bridge.text.printable import printable

NUMERIC: Final = frozenset({Kind.NUMBER, Kind.LATENCY, Kind.SIZE, Kind.SECONDS})
"""Kinds that are aligned on the right."""
_NONE: Final = "-"
_TEXT: Final = 40
_FOLDER: Final = 26
"""Columns of a text and of a folder that are worth more than another column."""
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
        return min(width, max(_FOLDER, (screen.width or 0) - _WIDE))
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
