"""Writes and parses event ids (MCP 2025-11-25, Transports: Resumability and Redelivery).

    <epoch>.<stream>[.<request id, base64url>]-<event>      e.g. `k3vQ.4.Nw-2`

An event id names its session's stream, the event's number and the request that the stream answers. With the
request id in it, even a restarted manager can tell the client that this request's response is lost. Clients
can send any id; `streams.py` looks up whether the stream exists.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc

MAX_REQUEST: Final = 64
"""Bytes of JSON text of the longest request id that is written into event ids."""
SERVER_STREAM: Final = 0
"""Stream number of a session's server stream."""
_ID: Final = re.compile(r"[\w-]{1,32}\.\d{1,15}(?:\.[\w-]{1,88})?-(?P<event>\d{1,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventId:
    """One event of one stream. `str()` gives the id that is sent."""

    stream: str
    event: int

    def __str__(self) -> str:
        return f"{self.stream}-{self.event}"

    @property
    def is_server_stream(self) -> bool:
        """Whether the event belongs to a server stream, of this manager or an earlier one."""
        return self.stream.split(".")[1:] == [str(SERVER_STREAM)]

    @property
    def request(self) -> bytes | None:
        """Id of the request that the stream answers, as JSON text; None for a server stream or a long id."""
        parts = self.stream.split(".")
        return _request(parts[2]) if len(parts) == 3 else None


def stream_name(epoch: str, number: int, request: bytes | None = None) -> str:
    """Build a stream's name, the prefix of its event ids.

    Args:
        epoch: distinguishes this manager process from earlier ones.
        number: unique in the session while this manager runs; `SERVER_STREAM` for the server stream.
        request: id of the request that the stream answers, as JSON text.
    """
    name = f"{epoch}.{number}"
    if request is None or len(request) > MAX_REQUEST:
        return name
    return f"{name}.{base64.urlsafe_b64encode(request).decode().rstrip('=')}"


def parse(text: str) -> EventId | None:
    """Parse a `Last-Event-ID`; None if this program did not write it."""
    found = _ID.fullmatch(text)
    return None if found is None else EventId(text[: found.start("event") - 1], int(found["event"]))


def _request(text: str) -> bytes | None:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        jsonrpc.id_key(raw)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return raw if jsonrpc.is_valid_id(raw) else None
