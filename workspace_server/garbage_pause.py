"""Pauses the garbage collector while many objects are made that all stay: it would look at them in vain."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_lock: Final = threading.Lock()
_paused = 0
_was_on = False


@contextmanager
def garbage_pause() -> Iterator[None]:
    """No collection in this process until the block ends; blocks of several threads may overlap."""
    global _paused, _was_on  # noqa: PLW0603  the collector is the process's, too
    with _lock:
        if not _paused:
            _was_on = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= 1
            if not _paused and _was_on:
                gc.enable()
