"""Hostile text made fit for a terminal: shown, never obeyed.

Escapes rather than removes, because a person decides by it what may run. Counterpart: `results.clean_text`.
"""

from __future__ import annotations

from typing import Final

_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that print nothing."""


def printable(text: object, *, lines: bool = False, width: int = 0) -> str:
    """`text` with all control, formatting, invisible and half characters written as escapes.

    Args:
        text: anything; what is no string is shown as `str` shows it.
        lines: line feeds and tabs may stay.
        width: longer texts are cut, and say by how much; 0 for whole.
    """
    text = str(text)
    excess = len(text) - width if width else 0
    if excess > 0:
        text = text[:width]
    if not (text.isascii() and text.isprintable()):
        kept = "\n\t" if lines else ""
        text = "".join(one if _shows(one) or one in kept else _escape(one) for one in text)
    return f"{text} … ({excess} more characters)" if excess > 0 else text


def _shows(one: str) -> bool:
    return one.isprintable() and one not in _BLANK and not "\ufe00" <= one <= "\ufe0f"


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
