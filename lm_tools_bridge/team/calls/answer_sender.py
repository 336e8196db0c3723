"""Sends the answer to one call in parts, not faster than the caller takes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.parts import MAX_ANSWER_BYTES, PART_BYTES, WINDOW, Part

STALLED_S: Final = 120.0
"""Seconds that a caller may take nothing of an answer that waits for it."""
JSON: Final = "application/json"
Respond = Callable[..., Awaitable[None]]
"""`respond(payload, headers)` sends one message to the caller."""


class CallerGone(Exception):
    """The caller takes nothing any more."""


class AnswerTooLarge(Exception):
    """The answer exceeds what is sent."""


class AnswerSender:
    """The answer to one call."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._sent = self._seen = self._bytes = 0
        self._moved = asyncio.Event()

    async def send(self, part: Part, payload: bytes = b"", **headers: str) -> None:
        """Send one message; `headers` are given with `_` for `-`.

        Raises:
            CallerGone: nothing can be sent.
        """
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            await self._respond(payload, headers={parts.PART: part.value, **fields})
        except Exception as error:
            raise CallerGone from error

    async def refuse(self, reason: str) -> None:
        """Say that the call does not run."""
        with suppress(CallerGone):
            await self.send(Part.REFUSED, Lmtb_Reason=reason)

    async def fail(self, reason: str) -> None:
        """Say that there is no answer, though the call may have run."""
        with suppress(CallerGone):
            await self.send(Part.FAILED, Lmtb_Reason=reason)

    async def head(self, status: int, content_type: str) -> None:
        """Begin the answer."""
        await self.send(Part.HEAD, Lmtb_Status=str(status), Lmtb_Type=content_type)

    async def body(self, chunk: bytes) -> None:
        """Send a piece of the body, when the caller has room.

        Raises:
            CallerGone: it takes nothing any more.
            AnswerTooLarge: the answer exceeds `MAX_ANSWER_BYTES`.
        """
        self._bytes += len(chunk)
        if self._bytes > MAX_ANSWER_BYTES:
            raise AnswerTooLarge
        for start in range(0, len(chunk), PART_BYTES):
            await self._room()
            await self.send(Part.BODY, chunk[start : start + PART_BYTES], Lmtb_Seq=str(self._sent))
            self._sent += 1

    async def end(self) -> None:
        """The answer is complete."""
        await self.send(Part.END, Lmtb_Seq=str(self._sent))

    async def whole(self, answer: bytes) -> None:
        """Send a JSON answer."""
        await self.relay(200, JSON, _once(answer))

    async def relay(self, status: int, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        """Send an answer as it arrives. A small one of JSON, of no use before its end, is one part.

        Raises:
            CallerGone, AnswerTooLarge: as `body`.
        """
        begun = b""
        if content_type == JSON:
            async for chunk in chunks:
                begun += chunk
                if len(begun) > PART_BYTES:
                    break
            else:
                await self.send(Part.WHOLE, begun, Lmtb_Status=str(status), Lmtb_Type=content_type)
                return
        await self.head(status, content_type)
        await self.body(begun)
        async for chunk in chunks:
            await self.body(chunk)
        await self.end()

    def seen(self, count: str) -> None:
        """The caller has taken this many parts."""
        if count.isascii() and count.isdigit() and len(count) < 10:
            self._seen = max(self._seen, min(int(count), self._sent))
            self._moved.set()

    async def _room(self) -> None:
        while self._sent - self._seen >= WINDOW:
            self._moved.clear()
            try:
                async with asyncio.timeout(STALLED_S):
                    await self._moved.wait()
            except TimeoutError:
                raise CallerGone from None


async def _once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk
