"""Shows a spinner on a terminal while something takes long, and removes it at the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lm_tools_bridge.terminal.screen import has_colour
from lm_tools_bridge.text.printable import printable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner

AFTER_S: Final = 0.5
"""What is quicker than this shows nothing."""
EVERY_S: Final = 2.0
"""Seconds between lines where no spinner may turn."""
_lock: Final = threading.RLock()
_outermost: Final = threading.Lock()
"""Held by the block that shows its text, from its beginning on: long before its spinner appears."""
_shown: list[Live] = []
"""The spinner that turns now; one at most."""


@contextmanager
def waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` while the block takes longer than `AFTER_S`; nothing if standard error is no terminal.

    Yields a function that changes the text. Within another one, a block shows nothing of its own.
    """
    if not sys.stderr.isatty() or not _outermost.acquire(blocking=False):
        yield lambda _: None
        return
    try:
        with _shown_after_a_while(text) as update:
            yield update
    finally:
        _outermost.release()


@contextmanager
def _shown_after_a_while(text: str) -> Iterator[Callable[[str], None]]:
    indicator = _Indicator(text)
    thread = threading.Thread(target=indicator.run, daemon=True)
    thread.start()
    try:
        yield indicator.update
    finally:
        indicator.ended.set()
        thread.join()


@contextmanager
def paused() -> Iterator[None]:
    """Remove the spinner while something is printed."""
    with _lock:
        displays = _shown[:]
        for live in displays:
            live.stop()
        try:
            yield
        finally:
            for live in displays:
                live.start()


class _Indicator:
    def __init__(self, text: str) -> None:
        self.ended = threading.Event()
        self._text = text
        self._live: Live | None = None

    def update(self, text: str) -> None:
        """Change the text."""
        with _lock:
            self._text = text
            if self._live is not None:
                self._live.update(_spinner(text))

    def run(self) -> None:
        """Appear after a while, and disappear at the end."""
        if self.ended.wait(AFTER_S):
            return
        if not has_colour(sys.stderr):  # whoever wants no colours gets no other control sequences, either
            self._write_lines()
        else:
            self._show_until_the_end()

    def _write_lines(self) -> None:
        is_over = False
        while not is_over:
            sys.stderr.write(f"{printable(self._text)} ...\n")
            sys.stderr.flush()
            is_over = self.ended.wait(EVERY_S)

    def _show_until_the_end(self) -> None:
        live = _live(self._text)
        with _lock:
            self._live = live
            _shown.append(live)
            live.start()
        self.ended.wait()
        with _lock:
            _shown.remove(live)
            live.stop()


def _live(text: str) -> Live:
    from rich.live import Live

    from lm_tools_bridge.terminal.console import console

    return Live(
        _spinner(text),
        console=console(sys.stderr),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _spinner(text: str) -> Spinner:
    from rich.spinner import Spinner
    from rich.text import Text

    from lm_tools_bridge.terminal.console import is_unicode

    return Spinner(
        "dots" if is_unicode(sys.stderr) else "line", Text(printable(text), overflow="ellipsis", no_wrap=True)
    )
