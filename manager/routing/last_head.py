"""The head of the last request on a connection, to which the next one's is compared.

Two heads that differ in the length of their body alone, and tell it rightly, are the same. What a head says
is `heads.py`.
"""

from __future__ import annotations

from typing import Final

from http_front.head import PLAIN_LENGTH

_LONGEST_LENGTH: Final = 7
_CR: Final = ord("\r")


class LastHead:
    """One head that the door let in."""

    __slots__ = ("_begin", "_head", "_head_size", "_longest", "_rest", "_size")

    def __init__(self, head: bytes, longest: int) -> None:
        """Args:
        longest: bytes of a body that the door lets in.
        """
        digits = PLAIN_LENGTH.search(head)
        self._begin = b"" if digits is None else head[: digits.start(1)]
        self._rest = b"" if digits is None else head[digits.end(1) :]
        self._longest = longest
        self._head = b""
        self._head_size, self._size = 0, -1

    def body_at(self, data: bytes) -> int:
        """Where in a whole request the body begins; -1 where the head is another, or it is not whole."""
        if len(data) == self._size and data.startswith(self._head):
            return self._head_size
        begin = self._begin
        if not begin or not data.startswith(begin):
            return -1
        stop = data.find(_CR, len(begin), len(begin) + _LONGEST_LENGTH + 1)
        if stop < 0 or not data.startswith(self._rest, stop):
            return -1
        digits, start = data[len(begin) : stop], stop + len(self._rest)
        if not digits.isdigit() or start + int(digits) != len(data) or int(digits) > self._longest:
            return -1
        self._head, self._head_size, self._size = data[:start], start, len(data)
        return start
