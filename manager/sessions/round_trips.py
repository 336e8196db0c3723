"""Relays a workspace server's response to a session client, asking the client for input in between.

If the response is an `input_required` result, `input_requests.py` asks the client and the request is repeated
with the answers, at most `MAX_ROUND_TRIPS` times. The final response is rewritten by
`routing/json/legacy_result.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from itertools import count
from typing import Final

import msgspec

from lm_tools_bridge.protocol import input_requests, jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal import request_state
from manager.answers import result_format
from manager.answers.exchange import Exchange, Relayed
from manager.forwarding.answer import Answer
from manager.forwarding.messages import Answered, messages_of, unusable
from manager.routing.json import legacy_result
from manager.sessions.input_requests import INPUT_TIMEOUT_S, InputRequests, Members, unanswered
from manager.sessions.pending_requests import PendingRequests
from manager.waiting_calls import NOBODY, WaitingCalls

MAX_ROUND_TRIPS: Final = 10
GIVE_UP_S: Final = 2.0


class RoundTrips:
    """The round trips of one request of a session client.

    Args:
        exchange: the client's request; notifications and input requests go out on its own stream.
        pending_requests: those of its session.
        limit: bytes of the largest event.
        timeout_s: seconds to wait for the client's input, for each round trip.
        waiting_calls: where a question whether a call may run can be answered as well.
    """

    def __init__(
        self,
        exchange: Exchange,
        pending_requests: PendingRequests,
        limit: int,
        timeout_s: float = INPUT_TIMEOUT_S,
        waiting_calls: WaitingCalls = NOBODY,
    ) -> None:
        self._waiting_calls = waiting_calls
        self._exchange = exchange
        self._pending_requests = pending_requests
        self._limit = limit
        self._timeout_s = timeout_s
        self._answer: Answer | Refusal = unusable(0)
        self._response: Answered | Refusal = unusable(0)

    async def messages(self, relayed: Relayed) -> AsyncGenerator[bytes]:
        """The messages for the client: notifications and input requests as they come, the response last."""
        self._answer = relayed.answer
        for rounds in count():
            async with aclosing(self._receive()) as notifications:
                async for message in notifications:
                    yield message
            required = _input_required(self._response)
            if required is None:
                break
            async with aclosing(self._repeat(relayed, required, rounds)) as requests:
                async for message in requests:
                    yield message
        if rounds and _is_lost(self._response):
            self._response = unanswered("the call ended while its client was being asked")
        yield self._translated(self._response)

    async def _receive(self) -> AsyncGenerator[bytes]:
        """Yield the notifications of one answer; set `_response` to its end."""
        if isinstance(self._answer, Refusal):
            self._response = self._answer
            return
        if self._exchange.session is not None:
            self._answer.client = self._exchange.session.id
        async with aclosing(messages_of(self._answer, self._limit)) as messages:
            async for message in messages:
                if isinstance(message, bytes):
                    yield message
                else:
                    self._response = message

    async def _repeat(self, relayed: Relayed, required: Members, rounds: int) -> AsyncGenerator[bytes]:
        """Yield the input requests of one round trip; set `_answer` to the repeated request's answer."""
        outcome: Members | Refusal = unanswered(
            f"the server asked again after {MAX_ROUND_TRIPS} rounds of answers"
        )
        try:
            if rounds < MAX_ROUND_TRIPS:
                began = time.monotonic()
                requests = InputRequests(
                    self._exchange, self._pending_requests, required, self._timeout_s, self._waiting_calls
                )
                async with aclosing(requests.messages()) as messages:
                    async for message in messages:
                        yield message
                outcome = requests.outcome
                self._exchange.asked_s = time.monotonic() - began
        finally:
            if isinstance(outcome, Refusal):
                await _give_up(relayed, required)
        self._answer = outcome if isinstance(outcome, Refusal) else await relayed.again(outcome)

    def _translated(self, response: Answered | Refusal) -> bytes:
        if isinstance(response, Refusal):
            return result_format.refusal(self._exchange, response)
        return _in_session_form(self._exchange, response)


def final_response(exchange: Exchange, response: Answered) -> bytes | None:
    """The response as a session client gets it, None if it requires input first."""
    return _in_session_form(exchange, response) if _input_required(response) is None else None


def _in_session_form(exchange: Exchange, response: Answered) -> bytes:
    return legacy_result.convert_response(
        exchange.message.method, response.body, response.members, response.result
    )


def _input_required(response: Answered | Refusal) -> Members | None:
    """The members of an `input_required` result, None for any other response."""
    if isinstance(response, Refusal):
        return None
    if response.result is not None:
        return response.result if input_requests.is_input_required(response.result) else None
    if b'"input_required"' not in response.body:
        return None
    return input_requests.input_required_members(response.members.get("result"))


def _is_lost(response: Answered | Refusal) -> bool:
    """Whether the workspace server no longer has the suspended call of this `requestState`."""
    if isinstance(response, Refusal):
        return False
    error = jsonrpc.members_of(response.members.get("error", b"{}"))
    data = jsonrpc.members_of(error.get("data", b"{}"))
    return jsonrpc.text_of(data.get("reason", b"")) == request_state.INVALID_STATE


async def _give_up(relayed: Relayed, required: Members) -> None:
    """Tell a workspace server that a call that waits will not be repeated. Waits at most `GIVE_UP_S`."""
    state = required.get("requestState", msgspec.Raw(b'""'))
    text = jsonrpc.text_of(state) or ""
    if request_state.is_suspended(text) or request_state.is_not_started(text):
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_S):
                await relayed.give_up(state)
