"""One stream of a legacy session: what is sent is numbered, kept for a while, and written to its connection.

A stream outlives its connections: one that breaks ends no call (L15), and a client that comes back goes on
where it was (L16). What a connection is in HTTP is `web/event_response.py`; all streams are `streams.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from manager.legacy.event_ids import EventId
from manager.legacy.replay import MAX_BYTES, Replay
from protocol import sse
from protocol.errors import Reason, Refusal
from protocol.versions import numbers_events, primes_streams

RETRY_MS: Final = 3000
"""When a client whose connection broke shall come back. Mostly the manager has ended, and the next one has to
start first; the official SDKs try once or twice, and then never again."""


class Outlet(Protocol):
    """A connection that a stream is written to."""

    async def write(self, data: bytes) -> None:
        """Write whole events; returns when the client keeps up.

        Raises:
            ConnectionError: the client is gone.
        """

    def abort(self) -> None:
        """Cut it off: the stream goes on elsewhere."""


class Stream:
    """One stream. Sending is in order and takes turns with those who come back.

    Attributes:
        name: begins the ids of its events.
        sent: the number of its last event.
        outlet: who listens now. One that broke may stay until the next takes its place.
        kept, lost: see `replay.Origin`.
    """

    def __init__(
        self, session: str, name: str, revision: str, replay: Replay, request: bytes | None = None
    ) -> None:
        self.name = name
        self.sent = self.kept = self.lost = 0
        self.outlet: Outlet | None = None
        self._session = session
        self._is_numbered = numbers_events(revision)
        self._is_primed = primes_streams(revision)
        self._replay = replay
        self._request = request
        self._turn = asyncio.Lock()
        self._over = asyncio.Event()

    @property
    def is_ended(self) -> bool:
        """Whether nothing will follow."""
        return self._over.is_set()

    # -- connections --------------------------------------------------------------------------------------

    def claim(self, outlet: Outlet) -> None:
        """Have this connection from now on; the former one is cut off. `begin` or `resume` follows."""
        former, self.outlet = self.outlet, outlet
        if former is not None:
            former.abort()

    def leave(self, outlet: Outlet) -> bool:
        """This connection has ended; False where another one had taken its place before."""
        if self.outlet is not outlet:
            return False
        self.outlet = None
        return True

    async def begin(self, outlet: Outlet) -> None:
        """Write what a new stream begins with: where the revision knows it, an id to come back with."""
        async with self._turn:
            if self._is_primed and self.outlet is outlet:
                self.sent += 1
                await self._write(sse.prime(str(EventId(self.name, self.sent)), RETRY_MS))

    async def resume(self, outlet: Outlet, after: int) -> None:
        """Write what followed the event with this number, as far as it is still here, even if it ends now."""
        async with self._turn:
            for event in self._replay.after(self._session, self, after):
                if not await _is_written(outlet, event):  # also where another one has taken its place
                    return

    # -- what is said -------------------------------------------------------------------------------------

    async def send(self, data: bytes, *, answers: bool = False) -> bool:
        """Send one message; it is out when this returns.

        Args:
            data: the message's JSON text.
            answers: whether it is the response that the stream exists for.

        Returns:
            Whether there was a connection that took it. It is kept in either case.
        """
        async with self._turn:
            self.sent += 1
            event = self._event(data)
            if self._is_numbered:
                kept = event if len(event) <= MAX_BYTES or not answers else self._event(self._too_large())
                self._replay.keep(self._session, self, self.sent, kept)
            return await self._write(event)

    def end(self) -> None:
        """Nothing follows. Its connection is let go: it may serve other requests from now on. Idempotent."""
        self._over.set()
        self.outlet = None

    async def over(self) -> None:
        """Wait until nothing follows."""
        await self._over.wait()

    def _event(self, data: bytes) -> bytes:
        identity = str(EventId(self.name, self.sent)) if self._is_numbered else None
        return sse.encode(sse.single_line(data), identity=identity)

    def _too_large(self) -> bytes:
        return lost_answer(self._request or b"null", "the answer was too large to be kept for later")

    async def _write(self, data: bytes) -> bool:
        return self.outlet is not None and await _is_written(self.outlet, data)


async def _is_written(outlet: Outlet, data: bytes) -> bool:
    try:
        await outlet.write(data)
    except ConnectionError:
        return False
    return True


def lost_answer(request: bytes, why: str) -> bytes:
    """The error that stands for a response which is no longer here (47112)."""
    return Refusal(Reason.ANSWER_LOST, why, delivered="unknown").as_error(request)
