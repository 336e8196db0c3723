"""Makes glibc keep a bounded amount of freed memory, for large responses.

By default glibc returns the memory of each piece of a large response to the system and takes it again, page
by page; that costs more than reading and writing the piece.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Final

KEPT: Final = 8 * 1024 * 1024
"""Bytes of freed memory that glibc keeps."""
LARGEST: Final = 4 * 1024 * 1024
"""Largest piece, in bytes, that is taken from that memory."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)


@cache
def keep_freed_memory() -> bool:
    """Keep freed memory from now on; done once. False where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # noqa: PLC0415  takes milliseconds, and only large responses need it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_TRIM_THRESHOLD, KEPT) and mallopt(_MMAP_THRESHOLD, LARGEST))
