"""Relays the response to a call from connection to connection, without a task.

A small JSON response is written once it is complete; a sink from `relay_plan.py` writes a large one as it
arrives. In all other cases (other event streams, input requests, late or missing responses, a session client
that disconnects) a task continues the call. `answers/dispatch.py` decides where a call goes;
`sessions/round_trips.py` converts a response for a session client.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final, Protocol

from lm_tools_bridge.protocol.errors import Refusal
from manager.answers import replies
from manager.answers.upstream_request import PreparedCall
from manager.configuration.settings import Settings
from manager.forwarding.answer import COLLECTED, refusal_of
from manager.forwarding.body_flow import Flow
from manager.forwarding.forwarded_call import InterruptedAnswerError, answered, facts_of
from manager.http.request import HttpRequest
from manager.relay.relay_plan import LargeBody, sink_for
from manager.sessions import round_trips
from manager.upstream.failures import UpstreamFailure
from manager.upstream.response import ResponseHead, UpstreamResponse

PATIENCE_S: Final = 1.0
"""Seconds until a task takes over a call whose response has not arrived."""


class Host(Protocol):
    """The endpoint that sends the calls.

    Attributes:
        settings: size and time limits.
    """

    settings: Settings

    def continue_in_task(self, http_request: HttpRequest, call: PreparedCall) -> None:
        """Continue a call in a task, from its current state."""

    def ended(self, call: PreparedCall) -> None:
        """Note that the relay of a call has ended: answered, abandoned or about to continue in a task."""

    def offer(self, http_request: HttpRequest, call: PreparedCall) -> None:
        """Offer a call to the fast path, just before its JSON response or event stream is written."""

    def failed(self, http_request: HttpRequest, fault: BaseException) -> None:
        """Log an unexpected error; respond with 500, or close the connection if the response has begun."""


class DirectRelay:
    """Relays the response to one call that was sent.

    Args:
        host: the endpoint that sent the call.
        call: the call, in flight; its response may not have arrived.
        patience_s: seconds until the call continues in a task.
    """

    __slots__ = ("_body", "_exchange", "_flow", "_host", "_http_request", "_open_call")

    def __init__(self, host: Host, http_request: HttpRequest, call: PreparedCall, patience_s: float) -> None:
        self._host = host
        self._http_request = http_request
        self._exchange = call.exchange
        self._open_call: PreparedCall | None = call  # None once the relay has ended
        self._body: LargeBody | None = None  # of a large response, once it is being written
        self._flow: Flow | None = None
        call.in_flight.response.on_data = self._on_data
        http_request.on_disconnect = self._client_left
        http_request.set_deadline(min(patience_s, call.in_flight.timeout_s), self._continue_in_task)

    def cancel(self) -> None:
        """Abandon the call after the client's `notifications/cancelled`: respond with 202 and no body.

        If the response has begun, closing the connection is the only way to signal that the rest is missing.
        """
        if (call := self._end()) is not None:
            call.in_flight.give_up()
            if self._http_request.is_begun:
                self._http_request.abort()
            else:
                self._http_request.respond(202, fields=self._exchange.headers)

    def _client_left(self) -> None:
        """Cancel a stateless client's call; let a session client's call continue in a task.

        A session's call is abandoned too once its response has begun: the rest could not be delivered.
        """
        if self._exchange.session is not None and self._body is None:
            self._continue_in_task()
        elif (call := self._end()) is not None:
            call.in_flight.give_up()

    def _continue_in_task(self) -> None:
        if (call := self._end()) is not None:
            self._host.continue_in_task(self._http_request, call)

    def _end(self) -> PreparedCall | None:
        """End the relay: remove its callbacks and return the call; None if it has ended before."""
        call, self._open_call = self._open_call, None
        if call is not None:
            call.in_flight.response.on_data = None
            self._http_request.on_disconnect = None  # breaks the reference cycle, to spare the collector
            if self._flow is not None:
                self._flow.stop()
            self._host.ended(call)
        return call

    def _on_data(self) -> None:
        """Relay what has arrived of the response; called by the upstream connection."""
        call = self._open_call
        if call is None:
            return
        try:
            self._relay(call)
        except InterruptedAnswerError as interrupted:
            self._refuse(call, interrupted.refusal)
        except Exception as fault:  # noqa: BLE001  the caller of this is the connection of somebody else
            self._end()
            call.in_flight.give_up()
            self._host.failed(self._http_request, fault)

    def _relay(self, call: PreparedCall) -> None:
        response = call.in_flight.response
        if not response.has_ended:
            if _should_relay_now(response):
                self._relay_or_continue(call)
            return
        arrived_at = time.monotonic()
        body = self._small_body(response)
        if body is None:
            self._relay_or_continue(call)
            return
        self._end()
        self._host.offer(self._http_request, call)
        status = 200 if self._exchange.session is not None else response.head.status
        self._http_request.respond(status, body, self._exchange.headers)
        call.in_flight.end("ok", arrived_at)

    def _refuse(self, call: PreparedCall, refusal: Refusal) -> None:
        """Respond with an error, before anything was written."""
        self._end()
        call.in_flight.refuse(refusal)
        self._http_request.respond(200, replies.refusal(self._exchange, refusal), self._exchange.headers)

    def _relay_or_continue(self, call: PreparedCall) -> None:
        if call.in_flight.response.is_events:
            self._host.offer(self._http_request, call)
        if not (hasattr(call.in_flight.response, "head") and self._stream(call)):
            self._continue_in_task()

    # -- large responses ----------------------------------------------------------------------------------

    def _stream(self, call: PreparedCall) -> bool:
        """Start to write the response to the client as it arrives; False if no sink can."""
        in_flight = call.in_flight
        response, limit = in_flight.response, self._host.settings.response_limit
        body = sink_for(self._http_request, self._exchange, response, limit)
        if body is None:
            return False
        self._body = body
        self._http_request.clear_deadline()  # the flow has its own
        self._flow = Flow(response, body, partial(self._body_ended, body), in_flight)
        response.lend()
        return True

    def _body_ended(self, body: LargeBody, fault: Exception | None) -> None:
        """End the response after the last piece; after a fault, send an error or close the connection."""
        prepared = self._end()
        if prepared is None:
            return
        call, http_request = prepared.in_flight, self._http_request
        fault = fault or _finish(body)
        if fault is None:
            call.received = call.response.head.content_length
            call.end()
        elif isinstance(fault, (UpstreamFailure, TimeoutError)):
            call.refuse(refusal_of(fault, self._host.settings, call))
            http_request.abort()
        else:
            call.give_up()
            if isinstance(fault, ConnectionError):  # the client has disconnected or does not read
                http_request.abort()
            else:
                self._host.failed(http_request, fault)

    def _small_body(self, response: UpstreamResponse) -> bytes | None:
        """The body for the client; None if the response is not small JSON or has to be parsed in a task."""
        body, session = response.whole(), self._exchange.session
        if (
            body is None
            or (session is not None and session.list_due)
            or not _is_small_json(response.head)
            or (found := answered(body, self._exchange.message.id)) is None
        ):
            return None
        assert self._open_call is not None  # noqa: S101  narrows the type: the relay has not ended
        self._open_call.in_flight.answered(facts_of(body, found.members, found.result))
        return body if session is None else round_trips.final_response(self._exchange, found)


def _finish(body: LargeBody) -> Exception | None:
    """Write the end of the response, and return the error if that fails."""
    try:
        body.finish()
    except Exception as fault:  # noqa: BLE001  the caller of this is the connection of somebody else
        return fault
    return None


def _should_relay_now(response: UpstreamResponse) -> bool:
    """Whether an incomplete response is relayed now: it is not small JSON, and its body has begun."""
    if not hasattr(response, "head") or _is_small_json(response.head):
        return False
    return bool(response.first)


def _is_small_json(head: ResponseHead) -> bool:
    return head.content_type == b"application/json" and 0 < (head.content_length or 0) <= COLLECTED
