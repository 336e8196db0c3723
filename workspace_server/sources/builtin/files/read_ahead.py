"""Reads directories of a large tree in two processes: one of them applies the rules, too.

Threads would not help: `scandir` gives Python's lock back for each entry. Blocks.
"""

from __future__ import annotations

import marshal
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from workspace_server.sources.builtin.files.directory import Place
from workspace_server.sources.builtin.files.entries import LENGTH_BYTES, Entries, read_entries

AFTER: Final = 300
"""Directories that are read before a second process is started, which takes as long as to read so many."""
MOST: Final = 200
"""Directories of one request."""
MAX_REQUEST_BYTES: Final = 16 * 1024
"""Two requests fit into a pipe. So to write one never waits for the other process, which may wait for us."""
_POLL_EVERY: Final = 16
"""Directories between two looks for answers of the other process: a look costs as much as a small
directory."""
_PROGRAM: Final = Path(__file__).with_name("entries.py")


class ReadAhead:
    """What a walk finds in directories. Close it at the end.

    Args:
        is_useful: whether a second process may be used.
    """

    def __init__(self, *, is_useful: bool) -> None:
        self._may_start = is_useful and sys.platform != "win32" and _processors() > 1
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: deque[str] = deque()
        self._known: dict[str, Entries] = {}
        self._offered = 0
        self._count = 0

    def entries(self, place: Place, waiting: Sequence[Place]) -> Entries:
        """What is in a directory now, or was a moment ago.

        Those that wait come next, the last one first. The other process reads from the other end.
        """
        self._count += 1
        if self._may_start and self._count >= AFTER:
            self._start()
        if self._process is not None:
            while place.path in self._asked:
                self._take_answer()
            if self._count % _POLL_EVERY == 0 or not self._asked:
                self._ask(waiting)
            if place.path in self._known:
                return self._known.pop(place.path)
        return read_entries(place.path)

    def close(self) -> None:
        """End the other process. Idempotent."""
        process, self._process = self._process, None
        self._asked.clear()
        if process is not None:
            process.kill()
            with suppress(OSError, ValueError):
                process.communicate()

    def _start(self) -> None:
        self._may_start = False
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=_PROGRAM.parent,
            )

    def _ask(self, waiting: Sequence[Place]) -> None:
        """Take answers that are there, and give the other process enough to do."""
        while self._asked and self._is_answered():
            self._take_answer()
        at = min(self._offered, len(waiting))
        while self._process is not None and len(self._asked) < 2 and at < len(waiting) - 1:
            place = waiting[at]
            at += 1
            if place.path not in self._known:
                self._request(place)
        self._offered = at

    def _request(self, place: Place) -> None:
        unsure = None if place.suspects.everything else [each.pattern for each in place.suspects.texts]
        request = marshal.dumps((place.path, unsure, MOST))
        if self._process is None or self._process.stdin is None or len(request) > MAX_REQUEST_BYTES:
            return
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            self._asked.append(place.path)
        except OSError:
            self.close()

    def _is_answered(self) -> bool:
        if self._process is None or self._process.stdout is None:
            return False
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        return bool(poll.poll(0))

    def _take_answer(self) -> None:
        """Wait for the answer to the oldest request."""
        self._asked.popleft()
        if self._process is None or self._process.stdout is None:
            return
        try:
            length = int.from_bytes(self._process.stdout.read(LENGTH_BYTES), "big")
            # `marshal.load` would read small pieces, and take five times as long
            self._known.update(marshal.loads(self._process.stdout.read(length)))  # noqa: S302  it is our process
        except (EOFError, OSError, ValueError, TypeError):
            self.close()


def _processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
