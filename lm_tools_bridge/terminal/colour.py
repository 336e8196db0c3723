"""Decides whether colours are wanted: by NO_COLOR, FORCE_COLOR and TERM, as most programs do."""

from __future__ import annotations

import os
from typing import Protocol


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
