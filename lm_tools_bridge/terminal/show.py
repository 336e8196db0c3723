"""Prints views: with rich on a terminal, else as plain text."""

from __future__ import annotations

import sys

from lm_tools_bridge.terminal.lines import plain
from lm_tools_bridge.terminal.screen import is_forced
from lm_tools_bridge.terminal.views import View


def show(*views: View, err: bool = False) -> None:
    """Print views, one below the other.

    Args:
        err: to standard error instead of standard output.
    """
    stream = sys.stderr if err else sys.stdout
    if stream.isatty() or is_forced():
        from lm_tools_bridge.terminal import styled  # noqa: PLC0415  30 ms that only terminals need

        styled.show(views, stream)
    else:
        stream.write(f"{plain(*views)}\n")
    stream.flush()
