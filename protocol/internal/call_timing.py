"""Where the time of a call went in a workspace server, as it tells the manager, which records it.

It is a field of the response's head, or of its trailer where the head was sent before the call had ended.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from protocol import headers

_VALUE: Final = re.compile(rb"([0-9]{1,15}) ([0-9]{1,15}) ([ -~]{1,1024})")


class CallTiming(NamedTuple):
    """What a workspace server says of one call.

    Attributes:
        source_us: microseconds that the source of the tool took.
        approval_us: microseconds that the call waited for a person to approve it.
        source: id of the source, such as `stdio:git`.
    """

    source_us: int
    approval_us: int
    source: str

    @classmethod
    def from_header(cls, value: bytes | None) -> CallTiming | None:
        """Parse the value of the field; None if it is absent or invalid."""
        found = None if value is None else _VALUE.fullmatch(value)
        if found is None:
            return None
        source = headers.decode_value(found[3].decode("ascii"))
        return None if source is None else cls(int(found[1]), int(found[2]), source)

    @property
    def line(self) -> bytes:
        """The line of a head or a trailer, without a line end."""
        told = f"{self.source_us} {self.approval_us} {headers.encode_value(self.source)}"
        return f"{headers.TOOK}: {told}".encode()
