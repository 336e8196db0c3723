"""Escapes hostile text for a terminal, so that control sequences are shown and never executed. Pure.

Nothing is removed, because a person decides by this text what may run; `results.clean_text` removes.
"""

from __future__ import annotations

from typing import Final

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
    kept = "\n\t" if lines else ""
    looked_at = text.replace("\n", "").replace("\t", "") if lines else text
    if not (looked_at.isascii() and looked_at.isprintable()):
        text = "".join(one if _shows(one) or one in kept else _escape(one) for one in text)
    return f"{text} … ({excess} more characters)" if excess > 0 else text


def printable_lines(text: object, *, most: int, width: int) -> list[str]:
    """The lines of `text`, each of them `printable`, with a note of how many were left out.

    Args:
        text: any object; converted by `str`.
        most: lines that are kept.
        width: characters that are kept of each line.
    """
    lines = str(text).split("\n")
    shown = [printable(line, width=width) for line in lines[:most]]
    return shown if len(lines) <= most else [*shown, f"… ({len(lines) - most} more lines)"]


def _shows(one: str) -> bool:
    return one.isprintable() and one not in _BLANK and not "\ufe00" <= one <= "\ufe0f"


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
