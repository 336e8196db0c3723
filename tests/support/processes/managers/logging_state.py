"""Undoes what `manager.log.configure` does to the whole process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from manager import log


@contextmanager
def restored_logging() -> Iterator[None]:
    """Inside the block, logging may be configured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log.recent_lines.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        log.recent_lines.clear()
