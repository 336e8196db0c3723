"""Writes the manager's log lines to its log file, too, from a thread, wherever standard error leads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lm_tools_bridge.machine.line_queue import LineQueue
from manager.logs import log


@contextmanager
def log_file(path: Path) -> Iterator[None]:
    """Append all log lines to the file inside the block, which never waits for the disk.

    If standard error is this file already, nothing is written twice.
    """
    if _is_standard_error(path):
        yield
        return
    lines = LineQueue(lambda line: _append(path, line), log.tell_dropped)
    log.copy_to(lines.put)
    try:
        yield
    finally:
        log.copy_to(None)
        lines.close()


def _is_standard_error(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(2), path.stat())
    except OSError:
        return False


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, line.encode("utf-8", "backslashreplace") + b"\n")
    finally:
        os.close(descriptor)
