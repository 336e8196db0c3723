"""What one internal channel bears: numbers and deadlines, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """What one channel bears.

    Attributes:
        connections: how many at once; more are closed at once.
        unproved_s: seconds of silence after which a connection that never showed the token is closed.
        message_s: seconds from the first byte of a message to its last.
        write_s: seconds a peer may take to read what it is sent.
        linger_s: seconds that calls of a peer which sends no more may still take.
        calls: user tools of one connection that run at once; more are not read.
        failures: wrong tokens after which a connection is closed.
        look_s: how often to look for changes made elsewhere, while somebody listens.
    """

    connections: int = 32
    unproved_s: float = 30.0
    message_s: float = 10.0
    write_s: float = 10.0
    linger_s: float = 10.0
    calls: int = 16
    failures: int = 16
    look_s: float = 1.0


DEFAULTS: Final = ChannelLimits()
