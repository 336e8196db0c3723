"""What heads have in common that differ in the length of their body and the id of their session alone.

Such heads are read alike (`reader.py`): what one of them says, all say. So those that come later are compared
with the pattern of the first.
"""

from __future__ import annotations

import re
from typing import Final

from lm_tools_bridge.http_server.parsing.head import PLAIN_LENGTH
from manager.routing.request_heads.reader import SESSION_FIELD

_LONGEST: Final = 128
"""Characters of what differs: the id of a session is the longer of the two."""
_LONGEST_LENGTH: Final = 7
_CR: Final = ord("\r")
_is_id: Final = re.compile(rb"[!-~]+").fullmatch


class HeadPattern:
    """The pattern of one admitted head."""

    __slots__ = ("_begin", "_behind", "_digits", "_longest", "_named")

    def __init__(self, head: bytes, longest: int) -> None:
        """Args:
        head: as it came. Where it has no plain length nothing matches.
        longest: the most bytes of a body.
        """
        digits, named = PLAIN_LENGTH.search(head), SESSION_FIELD.search(head)
        spans = sorted(one.span(1) for one in (digits, named) if one is not None)
        ends = [*(start for start, _ in spans), len(head)]
        self._longest = longest
        self._begin = head[: ends[0]]
        self._behind = [head[stop:end] for (_, stop), end in zip(spans, ends[1:], strict=True)]
        self._digits = -1 if digits is None else spans.index(digits.span(1))
        self._named = -1 if named is None else spans.index(named.span(1))

    def match(self, data: bytes) -> tuple[int, bytes] | None:
        """Where in a whole request the body begins, and the id of the session that it names.

        The id is empty only where heads of this pattern differ in none. None where the head is another one,
        or the request is not whole or not alone.
        """
        if self._digits < 0 or not data.startswith(self._begin):
            return None
        start, values = len(self._begin), []
        for behind in self._behind:
            stop = data.find(_CR, start, start + _LONGEST + 1)
            if stop < 0 or not data.startswith(behind, stop):
                return None
            values.append(data[start:stop])
            start = stop + len(behind)
        named = b"" if self._named < 0 else values[self._named]
        if self._named >= 0 and _is_id(named) is None:
            return None
        return (start, named) if self._is_length(values[self._digits], len(data) - start) else None

    def _is_length(self, digits: bytes, size: int) -> bool:
        is_plain = digits.isdigit() and len(digits) <= _LONGEST_LENGTH
        return is_plain and int(digits) == size <= self._longest
