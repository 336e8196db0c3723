"""Makes consoles of rich for the terminals of this program."""

from __future__ import annotations

import shutil
from typing import TextIO

from rich.console import Console

from lm_tools_bridge.terminal.screen import has_colour


def console(stream: TextIO) -> Console:
    """A console that takes every text as it is, without markup."""
    return Console(
        file=stream,
        force_terminal=True,
        width=shutil.get_terminal_size().columns,
        color_system="auto" if has_colour(stream) else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream can show every character."""
    return (stream.encoding or "ascii").lower().replace("-", "").startswith("utf8")
