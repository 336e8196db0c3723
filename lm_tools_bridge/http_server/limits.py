"""Deadlines of connections and the cap on their number."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Limits of the connections of one server. Sizes of heads and bodies belong to admission.

    Attributes:
        first_s: seconds from the opening of a connection to its first byte; None for `head_s`.
        head_s: seconds from the first byte of a head to its end.
        body_s: seconds from the end of a head to the end of the body.
        room_s: seconds that a large body may wait for room.
        unread_s: seconds after which a client is closed that reads nothing of its response; None: never.
        keepalive_s: seconds that a connection may be idle between two requests.
        linger_s: seconds for which the bytes of a refused client are read and dropped, because closing at
            once could destroy the response on its way.
        shutdown_s: seconds that requests under way get at the end.
        connections: how many may be open; None for no cap.
    """

    first_s: float | None = None
    head_s: float = 10.0
    body_s: float = 30.0
    room_s: float = 10.0
    unread_s: float | None = None
    keepalive_s: float = 75.0
    linger_s: float = 2.0
    shutdown_s: float = 5.0
    connections: int | None = 512
