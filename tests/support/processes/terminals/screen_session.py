"""A program at a pseudo terminal, and what a person sees there: pyte draws the screen."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyte

from support.processes.timeouts import within

ALTERNATE_ON, ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
SHOWN_S = 10.0
_IN_A_SESSION = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
os.execvp(sys.argv[1], sys.argv[1:])
"""


class ScreenSession:
    """The person's end of the terminal.

    Attributes:
        printed: every byte that came.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], ours: int, theirs: int, columns: int, rows: int
    ) -> None:
        self.process = process
        self.printed = b""
        self._ours, self._theirs = ours, theirs
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def screen(self) -> pyte.Screen:
        """The screen with its colours."""
        return self._screen

    @property
    def lines(self) -> list[str]:
        """The screen, without blanks at the ends of lines."""
        return [line.rstrip() for line in self._screen.display]

    def see(self, what: Callable[[str], bool], hint: str = "") -> str:
        """Wait until the screen shows it; the screen."""
        deadline = time.monotonic() + within(SHOWN_S)
        while not what(shown := "\n".join(self.lines)):
            assert time.monotonic() < deadline, f"{hint}\n{shown}"
            self._read(0.1)
        return shown

    def sees(self, text: str) -> str:
        """Wait until the screen shows a text; the screen."""
        return self.see(lambda shown: text in shown, text)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def paste(self, text: str) -> None:
        """Paste a text as terminals do that mark pastes; what the program prints meanwhile is read."""
        rest = f"\x1b[200~{text}\x1b[201~".encode()
        while rest:
            ready, writable, _ = select.select([self._ours], [self._ours], [], within(SHOWN_S))
            if ready:
                self._read(0)
            if writable:
                rest = rest[os.write(self._ours, rest[:1024]) :]

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        self._screen.resize(rows, columns)
        set_size(self._theirs, columns, rows)

    def hang_up(self) -> None:
        """Close the terminal, as its window or its connection does."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self._ours)
        os.close(nowhere)

    def modes(self) -> list[object]:
        """The terminal's settings."""
        return list(termios.tcgetattr(self._theirs))

    def ended(self, seconds: float = SHOWN_S) -> int:
        """The exit code, once it has ended and all was read."""
        deadline = time.monotonic() + within(seconds)
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.lines
            self._read(0.05)
        self._read(0)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            chunk = os.read(self._ours, 65536)
            self.printed += chunk
            self._stream.feed(chunk)
            seconds = 0


def set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def screen_session(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: Path | None = None,
    columns: int = 80,
    rows: int = 24,
) -> Iterator[ScreenSession]:
    """Run a program at a terminal of this size; it does not outlive the block."""
    ours, theirs = os.openpty()
    set_size(theirs, columns, rows)
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_A_SESSION, *command], env={"TERM": "xterm-256color", **env}, cwd=cwd,
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    try:
        yield ScreenSession(process, ours, theirs, columns, rows)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
