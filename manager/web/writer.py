"""Writes a reply as HTTP: JSON or an event stream, as the client accepts it and the answer came (M-28).

Events leave one by one, the moment they are known. What breaks off in the middle of a stream is ended with
a proper response, so that nobody waits for an id that never comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from aiohttp import ClientConnectionResetError, web

from manager.answers import dialect
from manager.answers.collect import is_response, response_of, unusable
from manager.answers.exchange import Ending, Events, Exchange, Plain, Relayed, Reply
from manager.upstream.forward import COLLECTED, Answer, InterruptedAnswerError
from protocol import sse
from protocol.errors import Reason, Refusal

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_LONGEST_BOUNDARY: Final = b"\r\n\r\n"
_BOUNDARIES: Final = (b"\n\n", _LONGEST_BOUNDARY, b"\r\r")


class Writer:
    """Writes the answer to one request.

    With `insists`, a client that went away is ignored and the answer is read to its end: in the legacy era a
    disconnect is no cancellation (L15).
    """

    def __init__(self, request: web.Request, exchange: Exchange, limit: int, *, insists: bool) -> None:
        self._request = request
        self._exchange = exchange
        self._limit = limit
        self._insists = insists
        self.response: web.StreamResponse | None = None

    async def write(self, reply: Reply) -> web.StreamResponse:
        """Write the whole reply and return the finished response."""
        match reply:
            case Plain():
                return await self._body(reply.body, reply.status)
            case Events():
                return await self._messages(reply.messages)
            case Relayed():
                return await self._relay(reply)

    async def end(self) -> web.StreamResponse:
        """Finish after the work was cancelled: nothing more is said (M-99)."""
        if self.response is None:
            return web.Response(status=202, headers=self._exchange.headers)
        await self._quietly(lambda response: response.write_eof())
        return self.response

    # -- one message -------------------------------------------------------------------------------

    async def _body(self, body: bytes, status: int = 200) -> web.StreamResponse:
        exchange = self._exchange
        if not body:
            return web.Response(status=status, headers=exchange.headers)
        if exchange.accepts_json or not exchange.accepts_events or status != 200:
            return web.Response(body=body, status=status, content_type=JSON, headers=exchange.headers)
        await self._start_events()
        await self._send(sse.encode(sse.single_line(body)))
        return await self._finish()

    # -- our own messages --------------------------------------------------------------------------

    async def _messages(self, messages: AsyncGenerator[bytes]) -> web.StreamResponse:
        """Plain JSON when there is only the response, or the client takes nothing else."""
        response = b""
        async with aclosing(messages):  # a client that goes away ends the work behind them at once (M-43)
            async for message in messages:
                if not _is_notification(message):
                    response = message
                elif self._exchange.accepts_events:
                    if self.response is None:
                        await self._start_events()
                    await self._send(sse.encode(message))
        if self.response is None:
            return await self._body(response)
        await self._send(sse.encode(response))
        return await self._finish()

    # -- a workspace server's answer ---------------------------------------------------------------

    async def _relay(self, reply: Relayed) -> web.StreamResponse:
        answer = reply.answer
        status = answer.status if reply.keep_status else 200
        try:
            if answer.is_events and self._exchange.accepts_events:
                return await self._relay_events(reply)
            small = answer.length is not None and answer.length <= COLLECTED
            if small or answer.is_events or not self._exchange.accepts_json or not reply.keep_status:
                body = await response_of(answer, self._limit)
                if isinstance(body, Refusal):
                    return await self._body(dialect.refusal(self._exchange, body))
                return await self._body(body, status)
            return await self._relay_body(answer, status)
        finally:
            await answer.aclose()

    async def _relay_body(self, answer: Answer, status: int) -> web.StreamResponse:
        """A large JSON body, piece by piece; breaking off closes the connection, the only honest end."""
        response = web.StreamResponse(status=status, headers=self._exchange.headers)
        response.content_type = JSON
        response.content_length = answer.length
        self.response = response
        await self._quietly(lambda one: one.prepare(self._request))
        try:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    await self._send(chunk)
        except InterruptedAnswerError:
            if self._request.transport is not None:
                self._request.transport.abort()
            return response
        return await self._finish()

    async def _relay_events(self, reply: Relayed) -> web.StreamResponse:
        """An event stream, flushed event by event; an unfinished event is never handed out.

        One that ends or breaks off without a response gets one from us.
        """
        await self._start_events()
        events = _WholeEvents()
        problem = unusable(reply.answer.status)
        try:
            async with (
                aclosing(reply.answer.chunks()) as chunks,
                aclosing(_until(chunks, reply.ending)) as pieces,
            ):
                async for chunk in pieces:
                    if whole := events.take(chunk):
                        await self._send(whole)
                    if events.waiting > self._limit:
                        raise InterruptedAnswerError(
                            Refusal(Reason.RESPONSE_TOO_LARGE, "response too large", delivered="unknown")
                        )
        except InterruptedAnswerError as interrupted:
            problem = interrupted.refusal
        if not events.end_in_response:
            await self._send(sse.encode(self._last_word(reply, problem)))
        return await self._finish()

    def _last_word(self, reply: Relayed, problem: Refusal) -> bytes:
        """The response for a stream that brought none: its regular end, or what went wrong."""
        if reply.ending is not None and reply.ending.event.is_set():
            return reply.ending.farewell
        return dialect.refusal(self._exchange, problem)

    # -- the connection ----------------------------------------------------------------------------

    async def _start_events(self) -> None:
        response = web.StreamResponse(headers={**self._exchange.headers, "X-Accel-Buffering": "no"})
        response.content_type = EVENTS
        self.response = response
        await self._quietly(lambda one: one.prepare(self._request))

    async def _send(self, data: bytes) -> None:
        await self._quietly(lambda response: response.write(data))

    async def _finish(self) -> web.StreamResponse:
        await self._quietly(lambda response: response.write_eof())
        assert self.response is not None  # noqa: S101  narrows the type: it was started above
        return self.response

    async def _quietly(self, act: Callable[[web.StreamResponse], Awaitable[object]]) -> None:
        """Write; a client that is gone is either ignored, or reported as the disconnect it is."""
        assert self.response is not None  # noqa: S101  narrows the type: it was made by the caller
        try:
            await act(self.response)
        except (ConnectionResetError, ClientConnectionResetError):
            if not self._insists:
                raise


async def _until(chunks: AsyncGenerator[bytes], ending: Ending | None) -> AsyncGenerator[bytes]:
    """The pieces of a body, until it ends or is to be ended."""
    if ending is None:
        async for chunk in chunks:
            yield chunk
        return
    over = asyncio.create_task(ending.event.wait(), name="stream ending")
    try:
        while True:
            following = asyncio.ensure_future(anext(chunks, b""))
            try:
                await asyncio.wait({following, over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.wait({following})
            if following.cancelled() or not (chunk := following.result()):
                return
            yield chunk
    finally:
        over.cancel()


def _is_notification(message: bytes) -> bool:
    return message.startswith(b'{"jsonrpc":"2.0","method"')


class _WholeEvents:
    """Cuts a stream's bytes between events, and remembers the last ones to know whether it was answered."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._last = b""

    @property
    def waiting(self) -> int:
        """Bytes of the event that is not complete yet."""
        return len(self._tail)

    @property
    def end_in_response(self) -> bool:
        """Whether a response was among the last events."""
        return any(is_response(one.data) for one in sse.Decoder(len(self._last)).feed(self._last))

    def take(self, chunk: bytes) -> bytes:
        """Take the next bytes, and return all events that are complete now."""
        searched = max(0, len(self._tail) - len(_LONGEST_BOUNDARY))
        self._tail += chunk
        end = max(
            (found + len(one) for one in _BOUNDARIES if (found := self._tail.rfind(one, searched)) >= 0),
            default=0,
        )
        whole = bytes(memoryview(self._tail)[:end])
        del self._tail[:end]
        if b"data" in whole:
            self._last = whole
        return whole
