"""Lets standard output lead to nowhere, once its reader or its terminal is gone."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_GONE: Final = (errno.EPIPE, errno.EIO)


def is_gone(error: OSError) -> bool:
    """Whether an error says that nobody reads what is written: a pipe without a reader, a closed terminal."""
    return error.errno in _GONE


def write_nowhere() -> None:
    """Throw away what is written to standard output from now on, and what waits to be flushed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
