"""Escapes hostile text for a terminal, and names for a shell command. Pure.

Nothing is removed, because a person decides by this text what may run; `results.clean_text` removes.
"""

from __future__ import annotations

import shlex
from typing import Final


def operand(name: str) -> str:
    """`name` for a shell, which no command takes for an option."""
    quoted = shlex.quote(name)
    return f"-- {quoted}" if name.startswith("-") else quoted


_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that print nothing."""


def printable(text: object, *, lines: bool = False, width: int = 0) -> str:
    """`text` with all control, formatting and invisible characters and lone surrogates as escapes.

    Args:
        text: any object; converted by `str`.
        lines: whether line feeds and tabs are kept.
        width: longer texts are cut, with a note of how much was cut; 0 for no limit.
    """
    text = str(text)
    excess = len(text) - width if width else 0
    if excess > 0:
        text = text[:width]
    kept_characters = "\n\t" if lines else ""
    looked_at = text.replace("\n", "").replace("\t", "") if lines else text
    if not (looked_at.isascii() and looked_at.isprintable()):
        text = "".join(
            character if _shows(character) or character in kept_characters else _escape(character)
            for character in text
        )
    return f"{text} … ({excess} more characters)" if excess > 0 else text


def printable_lines(text: object, *, most: int, width: int) -> list[str]:
    """The lines of `text`, each of them `printable`, with a note of how many were left out.

    Args:
        text: any object; converted by `str`.
        most: lines that are kept.
        width: characters that are kept of each line.
    """
    lines = str(text).split("\n")
    visible = [printable(line, width=width) for line in lines[:most]]
    return visible if len(lines) <= most else [*visible, f"… ({len(lines) - most} more lines)"]


def _shows(character: str) -> bool:
    return character.isprintable() and character not in _BLANK and not "\ufe00" <= character <= "\ufe0f"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
