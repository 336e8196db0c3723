"""A workspace server's response body, delivered in pieces that a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

from lm_tools_bridge.protocol.errors import Refusal
from manager.forwarding.forwarded_call import AnswerFacts, InterruptedAnswerError


class ScriptedBody:
    """An answer whose pieces a test decides; a refusal among them breaks it off."""

    def __init__(
        self,
        pieces: Iterable[bytes | Refusal],
        *,
        is_events: bool = True,
        stays_open: bool = False,
        identity: bytes = b"1",
    ) -> None:
        self.identity = identity
        self.pieces = list(pieces)
        self.stays_open = stays_open
        self.is_events = is_events
        self.status = 418
        self.outcomes: list[str] = []
        self.read_to = 0
        self._is_answered = asyncio.Event()

    async def read(self) -> bytes | Refusal:
        return self.pieces[0]

    async def chunks(self) -> AsyncGenerator[bytes]:
        for piece in self.pieces:
            self.read_to += 1
            if isinstance(piece, Refusal):
                raise InterruptedAnswerError(piece)
            yield piece
        if self.stays_open:
            await self._is_answered.wait()

    async def make_room(self, size: int) -> None:
        """There is room."""

    def keep_room(self, size: int) -> None:
        """Nothing is counted."""

    def answered(self, facts: AnswerFacts | None = None) -> None:
        self._is_answered.set()
        self.outcomes.append("ok")

    def fail(self, refusal: Refusal) -> None:
        self.outcomes.append(refusal.reason.word)

    def refuse(self, refusal: Refusal) -> None:
        self.outcomes.append(refusal.reason.word)

    async def aclose(self, outcome: str = "cancelled") -> None:
        self.outcomes.append(outcome)
