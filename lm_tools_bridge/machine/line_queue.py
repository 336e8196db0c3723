"""Writes lines from a thread, so that a disk that hangs or a reader that stopped never delays the writer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

MOST_WAITING: Final = 10_000
"""Lines that wait for the thread; further ones are dropped and counted."""
# The end of the program waits no longer than this for a disk that hangs; lines that are left are lost.
END_S: Final = 1.0


class LineQueue:
    """A thread that writes lines in their order.

    Attributes:
        dropped: how many lines were dropped since the start.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        on_dropped: Callable[[int], object],
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Start the thread.

        Args:
            write: writes one line; may block; OSError and ValueError (a closed stream) drop the line.
            on_dropped: called in the thread with the number of dropped lines, as soon as lines go out again.
        """
        self.dropped = 0
        self._write = write
        self._on_dropped = on_dropped
        self._most_waiting = most_waiting
        self._is_closed = False
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log lines", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Add a line. Never waits; after `close`, writes it at once."""
        if self._is_closed:
            self._write_line(line)
        elif self._lines.qsize() < self._most_waiting:
            self._lines.put(line)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Write the lines that wait, for at most `END_S`."""
        self._is_closed = True
        self._lines.put(None)
        self._thread.join(END_S)

    def _run(self) -> None:
        reported = 0
        while (line := self._lines.get()) is not None:
            self._write_line(line)
            if self.dropped > reported:
                lost, reported = self.dropped - reported, self.dropped
                self._on_dropped(lost)

    def _write_line(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._write(line)
