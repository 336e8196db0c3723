"""Writes a reply as HTTP: JSON or an event stream, as the client accepts it.

Each event is written as soon as it is available. A stream that breaks off is ended with an error response, so
that the client does not wait forever. If there is nothing to write for `SILENCE_S` seconds, the stream is
opened for keep-alives, so that no intermediary closes the connection. A client that counts silence as a
failure of the call gets progress instead of comments.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names, sse
from lm_tools_bridge.protocol.errors import Refusal
from manager.answers import replies
from manager.answers.exchange import Exchange
from manager.answers.replies import AnyReply, Ending, Events, IdleStream, Plain, Relayed
from manager.forwarding.answer import COLLECTED, Answer, response_of, unusable
from manager.forwarding.forwarded_call import (
    InterruptedAnswerError,
    begins_as_answer,
    begins_as_result,
    is_response,
)
from manager.http import open_streams
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest
from manager.relay.event_relay import EventRelay, ListenStream
from manager.relay.relay_plan import RelayKind, ResponseTraits, relay_kind
from manager.routing.request_metadata import JSON
from manager.sessions.streams import Stream, Streams

_METHOD: Final = names.PROGRESS.encode()
_PROGRESS: Final = re.compile(rb'"progress"\s*:\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)')
_STEP: Final = 0.001
"""How much the manager's own progress adds to the last of the server: progress must increase (MCP 2025-11-25,
Progress), and must not run ahead of the server's next."""


class CallProgress:
    """The progress of one call, of its server and of the manager.

    Args:
        token: the client's progress token, as JSON text.
        now: a monotonic clock, in seconds.
    """

    __slots__ = ("_began", "_last", "_now", "_token")

    def __init__(self, token: msgspec.Raw, now: Callable[[], float] = time.monotonic) -> None:
        self._token = token
        self._now = now
        self._began = now()
        self._last = 0.0

    def note_written(self, data: bytes) -> bool:
        """Note what was written to the client, to continue the server's own progress.

        Returns:
            Whether it has progress: a client that counts progress gives up although it gets log messages.
        """
        if _METHOD not in data:
            return False
        self._last = max([self._last, *map(float, _PROGRESS.findall(data))])
        return True

    def event(self) -> bytes:
        """The next progress notification, as an event."""
        self._last = round(self._last + _STEP, 6)
        seconds = self._now() - self._began
        params = {
            "progressToken": self._token,
            "progress": self._last,
            "message": f"still running ({seconds:.0f} s)",
        }
        return sse.encode(jsonrpc.notification(names.PROGRESS, params))


class Writer:
    """Writes the answer to one request.

    Args:
        limit: largest event in bytes.
        streams: the streams of session clients, None for a stateless client. With them, events are numbered
            for replay and a disconnect is ignored; without, it raises ConnectionError.
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

    async def answer(self, reply: Coroutine[Any, Any, AnyReply]) -> None:
        """Await the reply, and write it until its end."""
        timer = asyncio.get_running_loop().call_later(open_streams.SILENCE_S, self._open_after_silence)
        try:
            await self._write(await reply)
        finally:
            timer.cancel()
            if self._stream is not None:
                self._stream.end()

    def end(self) -> None:
        """End the response after a cancellation, without another message: 202, or the end of the stream."""
        if self._events is None:
            self._http_request.respond(202, fields=self._exchange.headers)
        else:
            self._end_stream()

    async def _write(self, reply: AnyReply) -> None:
        match reply:
            case Plain():
                self._write_body(reply.body, reply.status)
            case Events():
                await self._write_messages(reply.messages)
            case Relayed():
                await self._relay(reply)
            case IdleStream():
                out = self._open_stream()
                out.put(sse.encode(reply.message))
                ListenStream(self._http_request, out, reply.ending, self._exchange.message.id)

    # -- one message -------------------------------------------------------------------------------

    def _write_body(self, body: bytes, status: int = 200) -> None:
        """Write one message as JSON, or as an event (without the status) if a stream is open."""
        exchange = self._exchange
        is_json = exchange.accepts_json or not exchange.accepts_events or status != 200
        if (is_json or not body) and self._choose_json():
            self._http_request.respond(status, body, exchange.headers)
            return
        self._put_last(body)

    # -- messages of the manager -------------------------------------------------------------------

    async def _write_messages(self, messages: AsyncGenerator[bytes]) -> None:
        """Write messages as events; as JSON if the response comes first or the client accepts only JSON."""
        async with aclosing(messages):  # a disconnect ends the generator at once
            async for message in messages:
                if begins_as_result(message) or is_response(message):
                    self._write_body(message)
                    return
                if self._exchange.accepts_events:
                    await self._send(message)
        raise AssertionError("a reply ends in a response")

    # -- a workspace server's response to a stateless client (session clients: `sessions/round_trips.py`)

    async def _relay(self, reply: Relayed) -> None:
        answer = reply.answer
        is_handed_over = False
        try:
            kind = await self._kind(answer)
            if kind is RelayKind.EVENT_RELAY and reply.ending is not None:
                self._listen(answer, reply.ending)
                is_handed_over = True
            elif kind is RelayKind.EVENT_RELAY:
                await self._relay_events(answer)
            elif kind is RelayKind.JSON_STREAM and self._choose_json():
                await self._relay_body(answer)
            else:
                await self._relay_collected(answer)
        finally:
            if not is_handed_over:
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
            self._write_body(replies.refusal(self._exchange, body))
        else:
            self._write_body(body, answer.status)

    async def _relay_body(self, answer: Answer) -> None:
        """Write a large JSON body piece by piece; if it breaks off, close the connection."""
        http_request = self._http_request
        http_request.start(answer.status, self._exchange.headers, JSON, answer.length)
        try:
            await answer.stream_to(http_request)
        except (InterruptedAnswerError, ConnectionError):
            http_request.abort()
        else:
            answer.answered()
            http_request.finish()

    async def _relay_events(self, answer: Answer) -> None:
        """Write an event stream event by event; if the server sends no response, add an error response."""
        out = self._open_stream()
        relay = EventRelay(out, answer.identity, self._limit, answer.answered)
        problem = unusable(answer.status)
        try:
            await answer.stream_to(relay)
        except InterruptedAnswerError as interrupted:
            problem = interrupted.refusal
        except ConnectionError:  # the client has disconnected or does not read
            out.abort()
            return
        if relay.events.is_open:
            out.abort()  # a part of the response is written and cannot be replaced
            return
        if not relay.events.is_answered:
            answer.fail(problem)
            self._put_last(replies.refusal(self._exchange, problem))
        else:
            self._end_stream()

    def _listen(self, answer: Answer, ending: Ending) -> None:
        out = self._open_stream()
        identity = self._exchange.message.id
        ListenStream(self._http_request, out, ending, identity, answer=answer, limit=self._limit)

    # -- JSON or event stream ----------------------------------------------------------------------

    def _choose_json(self) -> bool:
        """Choose JSON, so that no stream is opened; False if one is open already."""
        self._is_json = self._events is None
        return self._is_json

    def _open_after_silence(self) -> None:
        """Open the stream, which then sends keep-alives by itself."""
        has_name = (
            self._streams is None or self._exchange.session is not None
        )  # `initialize`: the head will carry its id
        if self._is_json or self._events is not None or not (self._exchange.accepts_events and has_name):
            return
        with contextlib.suppress(ConnectionError):
            self._open_stream().send_keep_alive()

    def _open_stream(self) -> EventResponse:
        if self._events is None:
            self._events = self._start_stream()
        return self._events

    def _start_stream(self) -> EventResponse:
        exchange = self._exchange
        token = exchange.progress_token if exchange.is_tool_call else None
        out = EventResponse(self._http_request, None if token is None else CallProgress(token))
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

    async def _send(self, message: bytes) -> None:
        out = self._open_stream()
        if self._stream is not None:
            await self._stream.send(message)
        else:
            await out.write(sse.encode(sse.single_line(message)))

    def _put_last(self, message: bytes) -> None:
        """Write the response and end the stream, without a wait, which would keep several copies."""
        out = self._open_stream()
        if self._stream is not None:
            self._stream.put(message, answers=True)
        else:
            out.put(sse.encode(sse.single_line(message)))
        self._end_stream()

    def _end_stream(self) -> None:
        assert self._events is not None  # noqa: S101  narrows the type: the callers have opened it
        try:
            self._events.close()
        except ConnectionError:
            if self._streams is None:
                raise


async def _names_id(answer: Answer) -> bool:
    """Whether the beginning of a large body shows that it is the response to the request."""
    try:
        return begins_as_answer(await answer.begin(), answer.identity)
    except InterruptedAnswerError:
        return False  # reading the body will raise it again
