"""Writes a reply as HTTP: JSON or an event stream, as the client accepts it.

Events leave one by one, the moment they are known. What breaks off in the middle of a stream is ended with
a proper response, so that nobody waits for an id that never comes. While nothing is known yet, the stream is
opened after a silence, so that nobody in between takes the connection for dead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from manager.answers import result_format
from manager.answers.exchange import AnyReply, Ending, Events, Exchange, Plain, Quiet, Relayed
from manager.forwarding.answer import COLLECTED, Answer, InterruptedAnswerError
from manager.forwarding.messages import begins_as_answer, begins_as_result, is_response, response_of, unusable
from manager.http import keep_alives
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.relay.event_relay import EventRelay
from manager.relay.listen_stream import ListenStream
from manager.relay.relay_plan import RelayKind, ResponseTraits, relay_kind
from manager.routing.request_heads.request_metadata import JSON
from manager.sessions.stream import Stream
from manager.sessions.streams import Streams
from protocol import sse
from protocol.errors import Refusal


class Writer:
    """Writes the answer to one request.

    Args:
        limit: largest event in bytes.
        streams: given in the legacy era, where an event stream is one of the session's: its events are
            numbered, and a client that goes away ends nothing. In the modern era its disconnect is
            raised as the cancellation it is.
    """

    def __init__(
        self, http_request: HttpRequest, exchange: Exchange, limit: int, streams: Streams | None = None
    ) -> None:
        self._http_request = http_request
        self._exchange = exchange
        self._limit = limit
        self._streams = streams
        self._events: EventResponse | None = None
        self._stream: Stream | None = None
        self._is_json = False

    async def answer(self, making: Coroutine[Any, Any, AnyReply]) -> None:
        """Wait for a reply, and write the whole of it."""
        timer = asyncio.get_running_loop().call_later(keep_alives.SILENCE_S, self._break_silence)
        try:
            await self._write(await making)
        finally:
            timer.cancel()
            if self._stream is not None:
                self._stream.end()

    def end(self) -> None:
        """Finish after the work was cancelled: nothing more is said."""
        if self._events is None:
            self._http_request.respond(202, fields=self._exchange.headers)
        else:
            self._finish()

    async def _write(self, reply: AnyReply) -> None:
        match reply:
            case Plain():
                await self._body(reply.body, reply.status)
            case Events():
                await self._messages(reply.messages)
            case Relayed():
                await self._relay(reply)
            case Quiet():
                out = self._opened()
                out.put(sse.encode(reply.message))
                ListenStream(self._http_request, out, reply.ending, self._exchange.message.id)

    # -- one message -------------------------------------------------------------------------------

    async def _body(self, body: bytes, status: int = 200) -> None:
        """JSON, or an event where a stream is open already; there is no status then."""
        exchange = self._exchange
        is_json = exchange.accepts_json or not exchange.accepts_events or status != 200
        if (is_json or not body) and self._chooses_json():
            self._http_request.respond(status, body, exchange.headers)
            return
        await self._send(body, answers=True)
        self._finish()

    # -- our own messages --------------------------------------------------------------------------

    async def _messages(self, messages: AsyncGenerator[bytes]) -> None:
        """Plain JSON when there is only the response, or the client takes nothing else."""
        async with aclosing(messages):  # a client that goes away ends the work behind them at once
            async for message in messages:
                if begins_as_result(message) or is_response(message):
                    await self._body(message)
                    return
                if self._exchange.accepts_events:
                    await self._send(message)
        raise AssertionError("a reply ends in a response")

    # -- a workspace server's response to a stateless client; for sessions `sessions/round_trips.py` reads it

    async def _relay(self, reply: Relayed) -> None:
        answer = reply.answer
        kind = await self._kind(answer)
        if kind is RelayKind.EVENT_RELAY and reply.ending is not None:
            self._listen(answer, reply.ending)
            return
        try:
            if kind is RelayKind.EVENT_RELAY:
                await self._relay_events(answer)
            elif kind is RelayKind.JSON_STREAM and self._chooses_json():
                await self._relay_body(answer)
            else:
                await self._relay_collected(answer)
        finally:
            await answer.aclose()

    async def _kind(self, answer: Answer) -> RelayKind:
        exchange = self._exchange
        is_large = not answer.is_events and (answer.length is None or answer.length > COLLECTED)
        return relay_kind(
            ResponseTraits(
                is_session=False,
                is_events=answer.is_events,
                is_large=is_large,
                has_trim=False,
                names_id=is_large and await _names_id(answer),
                accepts_json=exchange.accepts_json,
                accepts_events=exchange.accepts_events,
            )
        )

    async def _relay_collected(self, answer: Answer) -> None:
        body = await response_of(answer, self._limit)
        if isinstance(body, Refusal):
            await self._body(result_format.refusal(self._exchange, body))
        else:
            await self._body(body, answer.status)

    async def _relay_body(self, answer: Answer) -> None:
        """A large JSON body, piece by piece; breaking off closes the connection, the only honest end."""
        http_request = self._http_request
        http_request.start(answer.status, self._exchange.headers, JSON, answer.length)
        try:
            await answer.stream_to(http_request)
        except InterruptedAnswerError:
            http_request.abort()
        else:
            http_request.finish()

    async def _relay_events(self, answer: Answer) -> None:
        """An event stream as it is, flushed event by event. One without a response gets one from us."""
        out = self._opened()
        passing = EventRelay(out, answer.identity, self._limit)
        problem = unusable(answer.status)
        try:
            await answer.stream_to(passing)
        except InterruptedAnswerError as interrupted:
            problem = interrupted.refusal
        if passing.events.is_open:
            out.abort()  # a part of the response is out, and nothing can be put in its place
            return
        if not passing.events.is_answered:
            await self._send(result_format.refusal(self._exchange, problem), answers=True)
        self._finish()

    def _listen(self, answer: Answer, ending: Ending) -> None:
        try:
            out = self._opened()
        except ConnectionError:
            answer.leave()
            raise
        identity = self._exchange.message.id
        ListenStream(self._http_request, out, ending, identity, answer=answer, limit=self._limit)

    # -- the form, and the event stream ------------------------------------------------------------

    def _chooses_json(self) -> bool:
        """Settle for JSON; False where a stream is open already."""
        self._is_json = self._events is None
        return self._is_json

    def _break_silence(self) -> None:
        """Open the stream; from then on it keeps itself alive."""
        has_name = self._streams is None or self._exchange.session is not None  # the head carries it
        if self._is_json or self._events is not None or not (self._exchange.accepts_events and has_name):
            return
        with contextlib.suppress(ConnectionError):
            self._opened().send_keep_alive()

    def _opened(self) -> EventResponse:
        if self._events is None:
            self._events = self._open()
        return self._events

    def _open(self) -> EventResponse:
        out = EventResponse(self._http_request)
        session = self._exchange.session
        try:
            out.open(self._exchange.headers)
        except ConnectionError:
            if self._streams is None:
                raise
        if self._streams is not None and session is not None:
            self._stream = self._streams.open_request_stream(session, self._exchange.message.id)
            self._stream.attach(out)
            self._stream.begin(out)
        return out

    async def _send(self, message: bytes, *, answers: bool = False) -> None:
        out = self._opened()
        if self._stream is not None:
            await self._stream.send(message, answers=answers)
        else:
            await out.write(sse.encode(sse.single_line(message)))

    def _finish(self) -> None:
        assert self._events is not None  # noqa: S101  narrows the type: it was opened above
        try:
            self._events.close()
        except ConnectionError:
            if self._streams is None:
                raise


async def _names_id(answer: Answer) -> bool:
    """Whether the beginning of a large body shows that it is the response; any other is read."""
    try:
        return begins_as_answer(await answer.begin(), answer.identity)
    except InterruptedAnswerError:
        return False  # as whoever reads it will find
