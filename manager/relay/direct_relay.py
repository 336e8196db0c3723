"""Relays the response to a call from connection to connection, without a task.

A small JSON response is written when it is complete, and a sink of `relay_plan.py` takes a large one as it
arrives. Anything else (an event stream, an input request, a late or missing answer, a session client that
leaves) continues in a task, from the point where it is. `answers/dispatch.py` decides where a call goes, and
how a response reads in a session is decided in `sessions/round_trips.py`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

from manager.answers import result_format
from manager.answers.dispatch import Sent
from manager.answers.exchange import Exchange
from manager.forwarding.answer import COLLECTED, InterruptedAnswerError, refusal_of
from manager.forwarding.body_flow import Flow
from manager.forwarding.forwarded_call import ForwardedCall
from manager.forwarding.messages import LINGER_S, answered
from manager.http.request import HttpRequest
from manager.relay.body_sink import BodySink
from manager.relay.relay_plan import sink_for
from manager.sessions import round_trips
from manager.settings import Settings
from manager.upstream.response import ResponseHead, UpstreamFailure, UpstreamResponse
from protocol.errors import Refusal

PATIENCE_S: Final = 1.0
"""How long an answer is waited for in this way."""


class Host(Protocol):
    """Who sends such calls.

    Attributes:
        settings: how much, and how long.
    """

    settings: Settings

    def continue_in_task(self, http_request: HttpRequest, exchange: Exchange, sent: Sent) -> None:
        """Take a call over where it is."""

    def ended(self, exchange: Exchange) -> None:
        """A call is no longer under way here: answered, given up, or about to be taken over."""

    def cache_route(self, http_request: HttpRequest, exchange: Exchange, sent: Sent) -> None:
        """A call is about to be answered, by a response in one piece or an event stream."""

    def failed(self, http_request: HttpRequest, fault: BaseException) -> None:
        """Answering went wrong."""


class DirectRelay:
    """One such call."""

    __slots__ = ("_body", "_exchange", "_host", "_http_request", "_seen", "_sent")

    def __init__(
        self, host: Host, http_request: HttpRequest, exchange: Exchange, sent: Sent, patience_s: float
    ) -> None:
        self._host = host
        self._http_request = http_request
        self._exchange = exchange
        self._sent: Sent | None = sent
        self._body: BodySink | None = None  # of an answer that nobody has to read
        self._seen = 0  # bytes of it that had come when it was looked at last
        sent.call.response.on_data = self._on_data
        http_request.on_disconnect = self._client_left
        http_request.set_deadline(min(patience_s, sent.call.timeout_s), self._continue_in_task)

    def cancel(self) -> None:
        """The client said that it does not want it any more: nothing more is said.

        Amid a body only the end of the connection tells that the rest does not come.
        """
        if (sent := self._end()) is not None:
            sent.call.give_up()
            if self._http_request.is_begun:
                self._http_request.abort()
            else:
                self._http_request.respond(202, fields=self._exchange.headers)

    def _client_left(self) -> None:
        """The client is gone: that cancels a stateless call, and means nothing in a session.

        What of an answer has come already is of no use to anybody in either case.
        """
        if self._exchange.session is not None and not self._is_streaming:
            self._continue_in_task()
        elif (sent := self._end()) is not None:
            sent.call.give_up()

    @property
    def _is_streaming(self) -> bool:
        """Whether some of the answer has gone to the client, or might have."""
        return self._body is not None and self._body.held is None

    def _continue_in_task(self) -> None:
        if (sent := self._end()) is not None:
            if self._body is not None and self._body.held is not None:
                sent.call.response.put_back(self._body.held)
            self._host.continue_in_task(self._http_request, self._exchange, sent)

    def _end(self) -> Sent | None:
        """What was sent, for the one who asks first."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.call.response.on_data = None
            self._http_request.on_disconnect = (
                None  # no cycle is left behind: that would be work for the collector
            )
            if self._body is not None:
                self._body.on_complete = None
            self._host.ended(self._exchange)
        return sent

    def _on_data(self) -> None:
        """Something came of the answer."""
        sent = self._sent
        if sent is None:
            return
        try:
            self._relay(sent)
        except InterruptedAnswerError as interrupted:
            self._refuse(sent, interrupted.refusal)
        except Exception as fault:  # noqa: BLE001  the caller of this is the connection of somebody else
            self._end()
            sent.call.give_up()
            self._host.failed(self._http_request, fault)

    def _relay(self, sent: Sent) -> None:
        response = sent.call.response
        if not response.has_ended:
            if _is_to_be_passed_on(response):
                self._relay_or_continue(sent)
            return
        came = time.monotonic()
        body = self._answer(response)
        if body is None:
            self._relay_or_continue(sent)
            return
        self._end()
        self._host.cache_route(self._http_request, self._exchange, sent)
        status = 200 if self._exchange.session is not None else response.head.status
        self._http_request.respond(status, body, self._exchange.headers)
        sent.call.end("ok", came)

    def _refuse(self, sent: Sent, refusal: Refusal) -> None:
        """Nothing is out yet, and nothing will come that is of use."""
        self._end()
        sent.call.refuse(refusal)
        self._http_request.respond(
            200, result_format.refusal(self._exchange, refusal), self._exchange.headers
        )

    def _relay_or_continue(self, sent: Sent) -> None:
        if sent.call.response.is_events:
            self._host.cache_route(self._http_request, self._exchange, sent)
        if not (hasattr(sent.call.response, "head") and self._stream(sent)):
            self._continue_in_task()

    # -- large answers ------------------------------------------------------------------------------------

    def _stream(self, sent: Sent) -> bool:
        """Let the answer flow to the client as it comes; False where that cannot be."""
        call = sent.call
        limit = self._host.settings.response_limit
        body = self._body = sink_for(self._http_request, self._exchange, call.response, limit)
        if body is None:
            return False
        left = _left(call)
        if body.held is not None:
            left = min(left, PATIENCE_S)
        self._http_request.set_deadline(max(0.0, left), self._time_is_over)
        body.on_complete = self._client_has_all
        Flow(call.response, body, self._body_ended)
        call.response.lend()
        return True

    def _time_is_over(self) -> None:
        """The time of the call is over: that of a client that reads slowly, but reads, is its own."""
        body, sent = self._body, self._sent
        if body is None or sent is None:
            return
        if body.held is not None:
            self._continue_in_task()
        elif not self._http_request.is_full:  # at this moment: what it took before is not the server's
            left = _left(sent.call) + body.waited
            if left > 0:
                self._http_request.set_deadline(left, self._time_is_over)
            else:
                self._body_ended(TimeoutError())
        elif body.at > self._seen:
            self._seen = body.at
            self._http_request.set_deadline(sent.call.timeout_s, self._time_is_over)
        else:
            self._body_ended(ConnectionAbortedError("the client does not read"))

    def _client_has_all(self) -> None:
        """The client has all of it, whatever the end of the body brings."""
        if (sent := self._end()) is not None:
            sent.call.end()
            if not sent.call.response.has_ended:
                asyncio.get_running_loop().call_later(LINGER_S, sent.call.response.abandon)

    def _body_ended(self, fault: Exception | None) -> None:
        """All of it is written, or no more can be; what broke off is ended in the only honest way."""
        if not self._is_streaming and (fault is None or isinstance(fault, UpstreamFailure)):
            self._continue_in_task()  # all that came is held; with another fault a piece of it is lost
            return
        sent = self._end()
        if sent is None:
            return
        call, http_request = sent.call, self._http_request
        fault = fault or self._finished()
        if fault is None:
            call.end()
        elif isinstance(fault, (InterruptedAnswerError, UpstreamFailure, TimeoutError)):
            refusal = refusal_of(fault, self._host.settings)
            sent.call.refuse(refusal)
            if http_request.is_begun:
                http_request.abort()
            else:
                http_request.respond(
                    200, result_format.refusal(self._exchange, refusal), self._exchange.headers
                )
        else:
            sent.call.give_up()
            if isinstance(fault, ConnectionError):  # of the client's, which is gone or as good as that
                http_request.abort()
            else:
                self._host.failed(http_request, fault)

    def _finished(self) -> Exception | None:
        """Write the end; what kept it from being written."""
        assert self._body is not None  # noqa: S101  narrows the type: it was poured
        try:
            self._body.finish()
        except Exception as fault:  # noqa: BLE001  the caller of this is the connection of somebody else
            return fault
        return None

    def _answer(self, response: UpstreamResponse) -> bytes | None:
        """The body for the client; None where there is none that can be told at once."""
        body = response.whole()
        if (
            body is None
            or not _is_small_json(response.head)
            or (found := answered(body, self._exchange.message.id)) is None
        ):
            return None
        return body if self._exchange.session is None else round_trips.final_response(self._exchange, found)


def _left(call: ForwardedCall) -> float:
    """Seconds until the deadline of a call."""
    assert call.deadline is not None  # noqa: S101  narrows the type: streams do not go this way
    return call.deadline - time.monotonic()


def _is_to_be_passed_on(response: UpstreamResponse) -> bool:
    """Whether an answer that is on its way is not to be waited for, but for its beginning."""
    if not hasattr(response, "head") or _is_small_json(response.head):
        return False
    return bool(response.first)


def _is_small_json(head: ResponseHead) -> bool:
    return head.content_type == b"application/json" and 0 < (head.content_length or 0) <= COLLECTED
