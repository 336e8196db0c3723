"""Writes and reads the field in which a workspace server says where the time of a call went.

The field is the last one of the response's head, or of its trailer if the head was sent before the call had
ended. The times come last in the field and have a fixed width, so that the heads of a tool's responses differ
in these bytes only. A word follows them if the answer is not the end of the call but a task.
The manager passes the value on unparsed; its recorder parses it later.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from lm_tools_bridge.protocol import headers

_WIDTH: Final = 10
"""Digits of a time, which is then at most some hours; a longer one gets more digits."""
LONGEST: Final = 1061
"""Longest value in bytes; a source's id may have 1,024 of them."""
TASK: Final = b" task"
"""Ends the value if the call goes on as a task (SEP-2663)."""
_NAME: Final = f"{headers.TOOK}: ".encode()
_MOST_DIGITS: Final = 15
"""Of a time: more would be many years."""
_SOURCE: Final = re.compile(rb"[ -~]{1,1024}")


@lru_cache(maxsize=256)
def _decoded(source: bytes) -> str | None:
    return headers.decode_value(source.decode()) if _SOURCE.fullmatch(source) else None


def _is_time(word: bytes) -> bool:
    return word.isdigit() and len(word) <= _MOST_DIGITS


class CallTiming(NamedTuple):
    """What a workspace server says of one call.

    Attributes:
        source: id of the source, such as `stdio:git`.
        source_us: microseconds that the source of the tool took.
        approval_us: microseconds that the call waited for a person to approve it.
        is_task: whether the call goes on as a task.
    """

    source: str
    source_us: int
    approval_us: int
    is_task: bool = False

    @classmethod
    def from_value(cls, value: bytes) -> CallTiming | None:
        """Parse the value of the field; None if it is empty or invalid."""
        words = value.removesuffix(TASK).rsplit(b" ", 2)
        if len(words) < 3 or not _is_time(words[1]) or not _is_time(words[2]):
            return None
        source = _decoded(words[0])
        if source is None:
            return None
        return cls(source, int(words[1]), int(words[2]), value.endswith(TASK))

    @property
    def value(self) -> bytes:
        """The value of the field."""
        times = f"{self.source_us:0{_WIDTH}} {self.approval_us:0{_WIDTH}}"
        return f"{headers.encode_value(self.source)} {times}".encode() + (TASK if self.is_task else b"")

    @property
    def line(self) -> bytes:
        """The line of a head or a trailer, without a line end."""
        return _NAME + self.value
