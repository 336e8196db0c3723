"""The arriving answer to a forwarded request: read whole, in pieces, or streamed to a sink.

What a failure means to the caller is said in `refusal_of`. Who is asked, and how often, is `forward.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Final

from manager.forwarding.body_flow import Flow, Sink
from manager.forwarding.forwarded_call import ForwardedCall
from manager.runtime_tuning import malloc
from manager.settings import Settings
from manager.upstream.response import Blame, ResponseTooLarge, UpstreamFailure
from protocol.errors import Reason, Refusal

COLLECTED: Final = 256 * 1024
"""JSON answers up to this size are collected, so that a break in the middle can still be answered."""
BEGIN: Final = 1024
"""Bytes of a body in which a response has to name its id, unless it is to be read."""
RETRY_MS: Final = 1000


class InterruptedAnswerError(Exception):
    """The answer broke off after part of it was handed out; `refusal` says how."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Answer:
    """An answer on its way. Read it to the end or close it; closing early cancels the call upstream."""

    def __init__(self, call: ForwardedCall, settings: Settings) -> None:
        response = call.response
        self._response = response
        self._call = call
        self._settings = settings
        self._deadline = call.deadline
        self.identity = call.identity
        self.status = response.head.status
        self.length = response.head.content_length
        self.is_events = response.head.content_type == b"text/event-stream"
        self.is_json = response.head.content_type == b"application/json"
        if self.length is None or self.length > COLLECTED:
            malloc.keep_freed_memory()

    async def read(self) -> bytes | Refusal:
        """The whole body, or why there is none."""
        try:
            async with asyncio.timeout_at(self._deadline):
                body = await self._response.read(self._settings.response_limit)
            await self.aclose("ok")
        except (UpstreamFailure, ResponseTooLarge, TimeoutError) as failure:
            return self._failed(failure)
        finally:
            await self.aclose("cancelled")
        return body

    async def begin(self) -> bytes:
        """The beginning of the body, as soon as there is some; it stays to be read. Empty without a body.

        Raises:
            InterruptedAnswerError: it broke off, or took too long.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._response.body_arrival()
        except (UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        return bytes(self._response.first[:BEGIN])

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body piece by piece, as it arrives.

        Raises:
            InterruptedAnswerError: it broke off, or took too long.
        """
        iterator = self._response.chunks()
        try:
            while True:
                try:
                    async with asyncio.timeout_at(self._deadline):
                        chunk = await anext(iterator)
                except StopAsyncIteration:
                    await self.aclose("ok")
                    return
                yield chunk
        except (UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        finally:
            await self.aclose("cancelled")

    async def stream_to(self, sink: Sink) -> None:
        """Hand the body over as it arrives, piece by piece; returns when all of it is.

        Raises:
            InterruptedAnswerError: it broke off, or took too long.
            Exception: what the sink raises.
        """
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        flow = Flow(self._response, sink, partial(_settle, done))
        try:
            async with asyncio.timeout_at(self._deadline):
                if (fault := await done) is not None:
                    raise fault
            await self.aclose("ok")
        except (InterruptedAnswerError, UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        finally:
            flow.stop()
            await self.aclose("cancelled")

    def follow(self, sink: Sink, on_end: Callable[[Refusal | None], None]) -> Flow:
        """As `pour`, where there is no deadline, but nobody waits: `on_end` is told how it ended."""
        return Flow(self._response, sink, partial(self._followed, on_end))

    def _followed(self, on_end: Callable[[Refusal | None], None], fault: Exception | None) -> None:
        if fault is None:
            self._call.end("ok")
        on_end(None if fault is None else self._failed(fault))

    def leave(self, outcome: str = "cancelled") -> None:
        """Let go of it. Idempotent; the first outcome counts."""
        self._call.give_up(outcome)

    def answered(self) -> None:
        """Its response is known: the call is in flight no longer, whatever the end of the body brings."""
        self._call.end("ok")

    async def aclose(self, outcome: str = "cancelled") -> None:
        """As `leave`."""
        self.leave(outcome)

    def _failed(self, failure: Exception) -> Refusal:
        refusal = refusal_of(failure, self._settings)
        self.refuse(refusal)
        return refusal

    def refuse(self, refusal: Refusal) -> None:
        """Note the failure, and close the connection the answer came on. The first failure counts."""
        self._call.refuse(refusal)


def _settle(done: asyncio.Future[Exception | None], fault: Exception | None) -> None:
    if not done.done():
        done.set_result(fault)


def too_large(limit: int) -> Refusal:
    """The refusal for an answer, or an event, of more than so many bytes."""
    text = f"response too large: more than {limit // 1024} KiB"
    return Refusal(Reason.RESPONSE_TOO_LARGE, text, delivered="unknown")


def refusal_of(failure: Exception, settings: Settings) -> Refusal:
    """What a failure means to the caller, and whether the call may have taken effect."""
    match failure:
        case InterruptedAnswerError():
            return failure.refusal
        case TimeoutError():
            return Refusal(
                Reason.CALL_TIMED_OUT,
                f"call timed out after {settings.call_timeout_s:g} s",
                delivered="unknown",
            )
        case ResponseTooLarge():
            return too_large(settings.response_limit)
        case UpstreamFailure(blame=Blame.NOT_DELIVERED):
            return Refusal(
                Reason.WORKSPACE_SERVER_OFFLINE,
                f"resolved MCP server is offline: {failure.cause}",
                delivered="no",
                retry_after_ms=RETRY_MS,
                details={"cause": failure.cause},
            )
        case _:
            return Refusal(
                Reason.WORKSPACE_SERVER_DIED, "workspace server died during the call", delivered="unknown"
            )
