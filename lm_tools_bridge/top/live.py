"""Shows frames on a terminal's alternate screen until the user quits, and restores the terminal."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from rich.console import ConsoleDimensions
from rich.live import Live
from rich.text import Text

from lm_tools_bridge.terminal.console import console
from lm_tools_bridge.terminal.styled import text_of
from lm_tools_bridge.terminal.views import Note, View

_LOOK_S: Final = 0.1
"""How often keys and the size of the terminal are looked at."""
_QUIT: Final = b"qQ\x03"
_LAST_LINE: Final = "q quits"

Draw = Callable[[int], list[View]]
"""Makes the views for a screen with so many lines."""


def watch(take: Callable[[], Draw], interval_s: float) -> None:
    """Show what `take` finds, anew every `interval_s` seconds, until q, Ctrl-C or the end of the terminal."""
    live = Live(
        console=console(sys.stdout),
        screen=True,
        auto_refresh=False,
        vertical_overflow="crop",
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with suppress(KeyboardInterrupt), _ends_orderly(), _single_keys(), live:
        while not _shown_until_quit(take(), live, time.monotonic() + interval_s):
            pass


def _shown_until_quit(draw: Draw, live: Live, until: float) -> bool:
    """Show one frame until its time is over, again if the terminal changes; True if the user quits."""
    drawn: os.terminal_size | None = None
    while drawn is None or time.monotonic() < until:
        if (size := shutil.get_terminal_size()) != drawn:
            drawn = size
            live.console.size = ConsoleDimensions(size.columns, size.lines)
            live.update(_screenful(draw, size.lines), refresh=True)
        if _wants_to_quit(max(0.0, min(until - time.monotonic(), _LOOK_S))):
            return True
    return False


def _screenful(draw: Draw, lines: int) -> Text:
    text = text_of(draw(lines), sys.stdout)
    rows = text.split("\n", allow_blank=True)
    visible_rows = rows[: lines - 2]
    last = text_of([Note(_LAST_LINE)], sys.stdout)
    last.stylize("dim")
    return Text("\n").join([*visible_rows, *[Text()] * (lines - 1 - len(visible_rows)), last])


def _wants_to_quit(seconds: float) -> bool:
    """Wait for a key; True for one that quits, and if there will be no more keys."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    descriptor = sys.stdin.fileno()
    if not select.select([descriptor], [], [], seconds)[0]:
        return False
    try:
        keys = os.read(descriptor, 64)
    except OSError:
        return True
    return not keys or any(key in _QUIT for key in keys)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Keys arrive at once and are not shown; afterwards the terminal is as it was."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)


@contextmanager
def _ends_orderly() -> Iterator[None]:
    """SIGTERM and SIGHUP end the view as Ctrl-C does, so that the terminal is restored."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
