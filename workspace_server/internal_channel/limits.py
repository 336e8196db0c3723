"""Limits and deadlines of the internal channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """Limits and deadlines of one channel.

    Attributes:
        connections: number of connections; further ones are closed at once.
        unauthenticated_s: seconds after which a connection that never sent the token is closed.
        message_s: seconds from the first byte of a message to its last.
        write_s: seconds that a peer may take to read an answer.
        linger_s: seconds that calls may still take after the peer closed its sending side.
        calls: concurrent tool calls of one connection; further requests are not read meanwhile.
        failures: wrong tokens after which a connection is closed.
        poll_s: seconds between checks for changes by other processes, while a peer is connected.
    """

    connections: int = 32
    unauthenticated_s: float = 30.0
    message_s: float = 10.0
    write_s: float = 10.0
    linger_s: float = 10.0
    calls: int = 16
    failures: int = 16
    poll_s: float = 1.0


DEFAULTS: Final = ChannelLimits()
