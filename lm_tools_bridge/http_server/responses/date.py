"""Renders the `Date` field of responses, once a second."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from math import inf


@lru_cache(maxsize=1)
def http_date(now: int) -> bytes:
    """A time in seconds since 1970, in the format of RFC 9110 §5.6.7."""
    return formatdate(now, usegmt=True).encode()


class DateLine:
    """The `Date` field as the last line of a head, rendered once for each second."""

    __slots__ = ("_line", "_until")

    def __init__(self) -> None:
        self._line = b""
        self._until = -inf

    def at(self, now: float) -> bytes:
        """The line at monotonic time `now`, with the line end before it and the empty line behind it."""
        if now >= self._until:
            wall = time.time()
            self._line = b"\r\nDate: %b\r\n\r\n" % http_date(int(wall))
            self._until = now + 1 - wall % 1
        return self._line
