"""Defines what the head of a response of a workspace server says."""

from __future__ import annotations

import msgspec

from lm_tools_bridge.protocol.internal.result_trim import ResultTrim


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """Status and header fields of a response.

    Attributes:
        headers: Names in lower case.
        content_length: Bytes of the body; None if only its end tells.
        content_type: The media type without parameters, in lower case; empty if there is none.
        trim: The part of the result that a session does not get, as the server states it.
    """

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    content_length: int | None
    content_type: bytes = b""
    trim: ResultTrim | None = None

    def header(self, name: bytes) -> bytes | None:
        """The value of the first field of that name (in any case), or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)
