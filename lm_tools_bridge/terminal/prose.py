"""Breaks prose between words; commands of ours stay whole, so that they can be copied. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lm_tools_bridge.terminal.screen import Screen

_WORDS: Final = re.compile(r"(?:\blmtb (?:[^\s;,]+ )*[^\s]+|\S+)")
"""A word; or `lmtb` with what follows up to punctuation or the end."""
_DEEPEST: Final = 24
"""Columns by which later lines are indented at most."""


def broken(text: str, screen: Screen) -> Iterator[str]:
    """The lines of a text; later ones are indented like the first.

    A word or command that is longer than a line stays whole: a terminal breaks it so that it can be copied.
    """
    if not _is_long(text, screen):
        yield text
        return
    start = text[: len(text) - len(text.lstrip())]
    current, end = "", 0
    for word in _WORDS.finditer(text):
        longer = current + text[end : word.end()]
        if current.strip() and _is_long(longer, screen):
            yield current
            longer = start[:_DEEPEST] + word.group()
        current, end = longer, word.end()
    yield current


def _is_long(line: str, screen: Screen) -> bool:
    return screen.width is not None and screen.measure(line) > screen.width
