"""Reads the answer to a forwarded request: whole, in pieces, message by message, or streamed to a sink.

`refusal_of` turns a failure into the refusal for the caller. `forward.py` sends the request,
`forwarded_call.py` decides what counts as its response. `relay/writer.py` relays answers that need not be
read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable
from functools import partial
from typing import Final, TypeVar

from lm_tools_bridge.http_server.byte_budget import SMALL, Room
from lm_tools_bridge.protocol import jsonrpc, sse
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.jsonrpc import Notification
from manager import runtime_tuning as malloc
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings
from manager.forwarding.body_flow import ContentTap, Flow, Sink, keep, kept_of
from manager.forwarding.forwarded_call import (
    Answered,
    AnswerFacts,
    ForwardedCall,
    InterruptedAnswerError,
    answered,
    facts_of,
)
from manager.http.request import log_fault
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure

COLLECTED: Final = 256 * 1024
"""Bytes up to which a JSON answer is collected, so that one that breaks off can still be refused."""
BEGIN: Final = 1024
"""Bytes of a body in which a response must name its id to be relayed without being read."""
LINGER_S: Final = 0.1
"""Seconds to wait for the end of a stream after its response, so that its connection can be reused."""
RETRY_MS: Final = 1000
"""When a call that was not delivered may be sent again: a workspace server usually starts within a second."""
T = TypeVar("T")


class Answer:
    """An answer whose head has arrived.

    Attributes:
        client: Whose share of the buffers it takes when it is collected.

    Its reader calls `answered` once the response is known, or `fail`, and closes the answer in any case:
    closing it before that cancels the call upstream.
    """

    def __init__(self, call: ForwardedCall, settings: Settings) -> None:
        response = call.response
        self._response = response
        self._call = call
        self._settings = settings
        self._deadline = call.deadline
        self._refusal: Refusal | None = None  # of the first failure; later ones follow from it
        self._room: Room | None = None  # once it is collected
        self.client: Hashable = call  # not the answer itself: a cycle would wait for the garbage collector
        self.identity = call.identity
        self.status = response.head.status
        self.length = response.head.content_length
        self.is_events = response.head.content_type == b"text/event-stream"
        self.is_json = response.head.content_type == b"application/json"
        if self.length is None or self.length > COLLECTED:
            malloc.keep_freed_memory()

    async def read(self) -> bytes | Refusal:
        """Read the whole body; return a refusal if it fails."""
        try:
            async with asyncio.timeout_at(self._deadline):
                if self.length is None:
                    return await self._read_unmeasured()
                if self.length <= self._settings.response_limit:
                    await self._wait_for_room(self.length)
                body = await self._response.read(self._settings.response_limit)
                self._keep(body)
                return body
        except (UpstreamFailure, ResponseTooLarge, TimeoutError) as failure:
            return self._failed(failure)

    async def _read_unmeasured(self) -> bytes:
        """Read a body whose length is not known; it may become as large as is allowed."""
        pieces: list[bytes] = []
        size, limit = 0, self._settings.response_limit
        async for chunk in self._response.chunks():
            pieces.append(chunk)
            self._keep(chunk)
            size += len(chunk)
            if size > limit:
                raise ResponseTooLarge(limit)
            if size > SMALL:
                await self._wait_for_room(limit)
        self.keep_room(size)
        return b"".join(pieces)

    async def make_room(self, size: int) -> None:
        """Wait until so many bytes may be collected, until the answer is closed; small ones always may.

        Raises:
            InterruptedAnswerError: The call timed out.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._wait_for_room(size)
        except TimeoutError as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure

    async def _wait_for_room(self, size: int) -> None:
        if size <= SMALL or self._room is not None:
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room = self._call.buffers.reserve(self.client, size, partial(_set_result, granted, None))
        if not self._room.is_granted:
            self._response.keep_reading(is_wanted=False)
            await granted
            self._response.keep_reading(is_wanted=True)

    def keep_room(self, size: int) -> None:
        """Keep room for what was collected, whose size is known now."""
        if self._room is not None:
            self._room.resize(size)

    async def begin(self) -> bytes:
        """Wait for the first bytes of the body and return them without consuming them.

        Returns:
            At most `BEGIN` bytes; empty if there is no body.

        Raises:
            InterruptedAnswerError: The body broke off or the call timed out.
        """
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._response.body_arrival()
        except (UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        return bytes(self._response.first[:BEGIN])

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body piece by piece, as it arrives.

        Raises:
            InterruptedAnswerError: The body broke off or the call timed out.
        """
        iterator = self._response.chunks()
        try:
            while True:
                try:
                    async with asyncio.timeout_at(self._deadline):
                        chunk = await anext(iterator)
                except StopAsyncIteration:
                    return
                self._keep(chunk)
                yield chunk
        except (UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure

    async def stream_to(self, sink: Sink) -> None:
        """Write the body to a sink as it arrives; return when all of it is written.

        Raises:
            InterruptedAnswerError: The body broke off or the call timed out.
            Exception: Anything that the sink raises.
        """
        done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        if (details := kept_of(self._call)) is not None:
            sink = ContentTap(sink, details)
        flow = Flow(self._response, sink, partial(_set_result, done), self._call)
        try:
            if (fault := await done) is not None:
                raise fault
        except (InterruptedAnswerError, UpstreamFailure, TimeoutError) as failure:
            raise InterruptedAnswerError(self._failed(failure)) from failure
        finally:
            flow.stop()

    def follow(self, sink: Sink, on_end: Callable[[Refusal | None], None]) -> Flow:
        """Like `stream_to`, but without a deadline or a waiting task.

        Args:
            on_end: Called once at the end, with the refusal if the body failed.
        """
        return Flow(self._response, sink, partial(self._followed, on_end))

    def _followed(self, on_end: Callable[[Refusal | None], None], fault: Exception | None) -> None:
        if fault is not None and not isinstance(
            fault, (InterruptedAnswerError, UpstreamFailure, ConnectionError)
        ):
            log_fault(fault)
        on_end(None if fault is None else self._failed(fault))

    def _keep(self, piece: bytes) -> None:
        """Copy a piece for the observer of calls, if it wants the contents of this call."""
        if (details := kept_of(self._call)) is not None:
            keep(details, piece)

    def leave(self, outcome: str = "cancelled") -> None:
        """End the call, and cancel it upstream if it is unfinished. Idempotent; the first outcome counts."""
        if self._room is not None:
            self._room.release()
        self._call.give_up(outcome)

    def answered(self, facts: AnswerFacts | None = None) -> None:
        """End the call because its response is known; the rest of the body may take `LINGER_S` seconds.

        Args:
            facts: what the response says; None if it was not read.
        """
        if facts is not None:
            self._call.answered(facts)
        elif self.length is not None:
            self._call.received = self.length
        self._call.end("ok")
        if not self._response.has_ended:
            asyncio.get_running_loop().call_later(LINGER_S, self._response.abandon)

    async def aclose(self, outcome: str = "cancelled") -> None:
        """Like `leave`."""
        self.leave(outcome)

    def _failed(self, failure: Exception) -> Refusal:
        self._refusal = self._refusal or refusal_of(failure, self._settings, self._call)
        self.refuse(self._refusal)
        return self._refusal

    def fail(self, refusal: Refusal) -> None:
        """Record the failure. Only the first failure counts."""
        self._call.fail(refusal)

    def refuse(self, refusal: Refusal) -> None:
        """Record the failure and drop the rest of the answer. Only the first failure counts."""
        self._call.refuse(refusal)


def _set_result(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def too_large(limit: int) -> Refusal:
    """The refusal for an answer or event of more than `limit` bytes."""
    text = f"response too large: more than {limit // 1024} KiB (response_limit in config.toml)"
    return Refusal(Reason.RESPONSE_TOO_LARGE, text, delivered="unknown")


def timed_out(timeout_s: float, settings: Settings) -> Refusal:
    """The refusal for a call that took too long; names the setting and its file."""
    setting = "call_timeout_s" if timeout_s == settings.call_timeout_s else "call_limit_s"
    file = Paths.of_user().config_file
    return Refusal(
        Reason.CALL_TIMED_OUT,
        f"call timed out after {timeout_s:g} s",
        f"ask for less in one call, or raise {setting} in {file} and restart the manager",
        delivered="unknown",
    )


def refusal_of(failure: Exception, settings: Settings, call: ForwardedCall) -> Refusal:
    """The refusal for a failure; its `delivered` says whether the call may have taken effect."""
    match failure:
        case InterruptedAnswerError():
            return failure.refusal
        case TimeoutError():
            return timed_out(call.timeout_s, settings)
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
        case UpstreamFailure(cause="line_cut"):
            text = "the line to the project's host was cut during the call"
            return Refusal(
                Reason.WORKSPACE_SERVER_DIED, text, delivered="unknown", details={"cause": "line_cut"}
            )
        case _:
            return Refusal(
                Reason.WORKSPACE_SERVER_DIED, "workspace server died during the call", delivered="unknown"
            )


def unusable(status: int) -> Refusal:
    """The refusal for an answer that contains no response."""
    return Refusal(
        Reason.INVALID_UPSTREAM_ANSWER,
        "the workspace server's answer holds no response",
        delivered="unknown",
        details={"httpStatus": status},
    )


async def messages_of(answer: Answer, limit: int) -> AsyncGenerator[bytes | Answered | Refusal]:
    """Yield the notifications of an answer as they arrive, each on one line, and finally its response.

    The last item is a refusal if the answer contains no response or breaks off. Other messages are dropped,
    because a server must not send requests in an answer.

    Args:
        answer: Read to its end, or closed, in any case.
        limit: Largest event in bytes.
    """
    try:
        if answer.is_events:
            async with contextlib.aclosing(_events_of(answer, limit)) as messages:
                async for message in messages:
                    yield message
        else:
            yield await _whole_response(answer)
    except InterruptedAnswerError as interrupted:
        answer.refuse(interrupted.refusal)
        yield interrupted.refusal
    except sse.EventTooLarge:
        yield too_large(limit)
    finally:
        await answer.aclose()


async def _whole_response(answer: Answer) -> Answered | Refusal:
    body = await answer.read()
    if isinstance(body, Refusal):
        return body
    response = answered(body, answer.identity)
    if response is None:
        return _no_response(answer)
    answer.answered(facts_of(response.body, response.members, response.result))
    return response


async def _events_of(answer: Answer, limit: int) -> AsyncGenerator[bytes | Answered | Refusal]:
    decoder = sse.Decoder(limit)
    async with contextlib.aclosing(answer.chunks()) as chunks:
        try:
            async for chunk in chunks:
                events = decoder.feed(chunk)
                if decoder.pending > SMALL:
                    await answer.make_room(limit)
                for event in events:
                    if (response := answered(event.data, answer.identity)) is not None:
                        answer.answered(facts_of(response.body, response.members, response.result))
                        answer.keep_room(len(event.data))
                        await _drain(chunks)
                        yield response
                        return
                    if isinstance(jsonrpc.parse(event.data), Notification):
                        yield sse.single_line(event.data)
        except sse.EventTooLarge:
            answer.fail(too_large(limit))  # before the end of this block ends the call as cancelled
            raise
    yield _no_response(answer)


def _no_response(answer: Answer) -> Refusal:
    refusal = unusable(answer.status)
    answer.fail(refusal)
    return refusal


async def _drain(chunks: AsyncGenerator[bytes]) -> None:
    with contextlib.suppress(InterruptedAnswerError):
        async for _ in chunks:
            pass


async def response_of(answer: Answer, limit: int) -> bytes | Refusal:
    """The response message of an answer, which is JSON or an event stream.

    Notifications before it are dropped, so use this only for clients that cannot receive them. Otherwise it
    works like `messages_of`.
    """
    last: bytes | Answered | Refusal = unusable(answer.status)
    async with contextlib.aclosing(messages_of(answer, limit)) as messages:
        async for message in messages:
            last = message
    assert not isinstance(last, bytes)  # noqa: S101  narrows the type: the last item is never a notification
    return last.body if isinstance(last, Answered) else last
