"""Renders views as plain text for pipes and files: nothing is cut, no marks, no colours."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.terminal.lines import lines
from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.views import View


def columns_of(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415  most texts are ASCII

    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


_SCREEN: Final = Screen(None, columns_of, {})


def plain(*views: View) -> str:
    """Views as one text, without a line feed at its end."""
    return "\n".join(
        "".join(span.text for span in line).rstrip() for view in views for line in lines(view, _SCREEN)
    )
