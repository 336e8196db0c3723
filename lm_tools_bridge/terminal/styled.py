"""Renders views with rich: for a terminal of some width, with its colours and its characters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TextIO

from rich.cells import cell_len
from rich.text import Text

from lm_tools_bridge.terminal.console import console, is_unicode
from lm_tools_bridge.terminal.lines import lines
from lm_tools_bridge.terminal.screen import Part, Screen
from lm_tools_bridge.terminal.views import ASCII_MARKS, MARKS, Tone, View
from lm_tools_bridge.terminal.waiting import paused

_STYLES: Final[Mapping[Tone | Part, str]] = {
    Tone.GOOD: "green",
    Tone.BUSY: "yellow",
    Tone.WARN: "yellow",
    Tone.BAD: "red",
    Tone.OFF: "dim",
    Part.TEXT: "",
    Part.HEAD: "bold",
    Part.LABEL: "dim",
    Part.ASIDE: "dim",
}


def show(views: Iterable[View], stream: TextIO) -> None:
    """Print views."""
    with paused():
        console(stream).print(text_of(views, stream))


def text_of(views: Iterable[View], stream: TextIO) -> Text:
    """The text of views for a stream: for its width now, and with characters that it can show."""
    return Text("\n").join(_texts(views, _screen(stream)))


def _texts(views: Iterable[View], screen: Screen) -> Iterator[Text]:
    for view in views:
        for line in lines(view, screen):
            yield Text.assemble(*((span.text, _STYLES[span.style]) for span in line))


def _screen(stream: TextIO) -> Screen:
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    home = os.environ.get("HOME")
    if is_unicode(stream):
        return Screen(width, cell_len, MARKS, home=home)

    def encode(text: str) -> str:
        encoding = stream.encoding or "ascii"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    return Screen(width, cell_len, ASCII_MARKS, "...", home, encode)
