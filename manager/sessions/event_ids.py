"""The ids of events: which stream of a session, which event of it, and which request the stream answers.

    <epoch>.<stream>[.<request id, base64url>]-<event>      e.g. `k3vQ.4.Nw-2`

The request is named in them so that even a manager that knows nothing of the stream can tell its client that
the answer is lost. What a client sends back is its own word; whether the stream exists is asked
elsewhere (`streams.py`).
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from protocol import jsonrpc

MAX_REQUEST: Final = 64
"""Longest request id, in bytes of JSON text, that is written into event ids."""
SERVER_STREAM: Final = 0
"""The number of a session's standing stream."""
_ID: Final = re.compile(r"[\w-]{1,32}\.\d{1,15}(?:\.[\w-]{1,88})?-(?P<event>\d{1,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventId:
    """One event of one stream; `str()` gives what goes on the wire."""

    stream: str
    event: int

    def __str__(self) -> str:
        return f"{self.stream}-{self.event}"

    @property
    def is_server_stream(self) -> bool:
        """Whether it belongs to a session's standing stream, of whatever manager."""
        return self.stream.split(".")[1:] == [str(SERVER_STREAM)]

    @property
    def request(self) -> bytes | None:
        """The id of the request that the stream answers, as JSON text; None where none is named."""
        parts = self.stream.split(".")
        return _request(parts[2]) if len(parts) == 3 else None


def stream_name(epoch: str, number: int, request: bytes | None = None) -> str:
    """The name of a stream, which begins the ids of its events.

    Args:
        epoch: what tells this manager from its predecessors.
        number: unique in the session while this manager runs; `SERVER_STREAM` for the standing stream.
        request: the id of the request it answers, as JSON text.
    """
    name = f"{epoch}.{number}"
    if request is None or len(request) > MAX_REQUEST:
        return name
    return f"{name}.{base64.urlsafe_b64encode(request).decode().rstrip('=')}"


def parse(text: str) -> EventId | None:
    """The event a `Last-Event-ID` means; None for what is no id of ours."""
    found = _ID.fullmatch(text)
    return None if found is None else EventId(text[: found.start("event") - 1], int(found["event"]))


def _request(text: str) -> bytes | None:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        jsonrpc.id_key(raw)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return raw if jsonrpc.is_valid_id(raw) else None
