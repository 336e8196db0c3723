"""What a legacy client gets of a workspace server's answer: questions become requests on the same stream.

A modern server that needs something from the client ends its answer with `input_required`, and wants the
request once more with the answers. A legacy client is asked in the middle instead: each question goes out as
a request, its answer comes as a POST, and the original request is repeated here. Several rounds may follow;
one of them is `input_request.py`. How a response reads in this era is `routing/json/legacy_result.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from itertools import count
from typing import Final

import msgspec

from manager.answers import result_format
from manager.answers.exchange import Exchange, Relayed
from manager.forwarding.answer import Answer
from manager.forwarding.messages import Answered, messages_of, unusable
from manager.routing.json import legacy_result
from manager.sessions.input_requests import PATIENCE_S, InputRequests, Members, unanswered
from manager.sessions.pending_requests import PendingRequests
from protocol import input_requests, jsonrpc
from protocol.errors import Refusal
from protocol.internal import request_state

MAX_ROUND_TRIPS: Final = 10
GIVE_UP_S: Final = 2.0


class RoundTrips:
    """The rounds of one request.

    Args:
        exchange: the client's request; notifications and questions go out on its own stream.
        questions: those of its session.
        limit: largest event in bytes.
        patience_s: how long the answers of one round are waited for.
    """

    def __init__(
        self, exchange: Exchange, questions: PendingRequests, limit: int, patience_s: float = PATIENCE_S
    ) -> None:
        self._exchange = exchange
        self._questions = questions
        self._limit = limit
        self._patience_s = patience_s
        self._answer: Answer | Refusal = unusable(0)
        self._response: Answered | Refusal = unusable(0)

    async def messages(self, relayed: Relayed) -> AsyncGenerator[bytes]:
        """The messages for the client: notifications and questions as they come, and last the response."""
        self._answer = relayed.answer
        for rounds in count():
            async with aclosing(self._heard()) as notifications:
                async for message in notifications:
                    yield message
            asked = _asked(self._response)
            if asked is None:
                break
            async with aclosing(self._round(relayed, asked, rounds)) as questions:
                async for message in questions:
                    yield message
        if rounds and _is_lost(self._response):
            self._response = unanswered("the call ended while its client was being asked")
        yield self._worded(self._response)

    async def _heard(self) -> AsyncGenerator[bytes]:
        """The notifications of one answer; `_response` is how it ended."""
        if isinstance(self._answer, Refusal):
            self._response = self._answer
            return
        async with aclosing(messages_of(self._answer, self._limit)) as messages:
            async for message in messages:
                if isinstance(message, bytes):
                    yield message
                else:
                    self._response = message

    async def _round(self, relayed: Relayed, asked: Members, rounds: int) -> AsyncGenerator[bytes]:
        """The questions of one round; `_answer` is that of the repeated request, or why there is none."""
        outcome: Members | Refusal = unanswered(
            f"the server asked again after {MAX_ROUND_TRIPS} rounds of answers"
        )
        try:
            if rounds < MAX_ROUND_TRIPS:
                round_ = InputRequests(self._exchange, self._questions, asked, self._patience_s)
                async with aclosing(round_.messages()) as messages:
                    async for message in messages:
                        yield message
                outcome = round_.outcome
        finally:
            if isinstance(outcome, Refusal):
                await _give_up(relayed, asked)
        self._answer = outcome if isinstance(outcome, Refusal) else await relayed.again(outcome)

    def _worded(self, response: Answered | Refusal) -> bytes:
        if isinstance(response, Refusal):
            return result_format.refusal(self._exchange, response)
        return _in_words(self._exchange, response)


def final_response(exchange: Exchange, response: Answered) -> bytes | None:
    """A response as the client gets it, None where it asks for something first."""
    return _in_words(exchange, response) if _asked(response) is None else None


def _in_words(exchange: Exchange, response: Answered) -> bytes:
    return legacy_result.convert_response(
        exchange.message.method, response.body, response.members, response.result
    )


def _asked(response: Answered | Refusal) -> Members | None:
    """The members of a result that asks for input, None for any other response."""
    if isinstance(response, Refusal):
        return None
    if response.result is not None:
        return response.result if input_requests.is_input_required(response.result) else None
    if b'"input_required"' not in response.body:
        return None
    return input_requests.input_required_members(response.members.get("result"))


def _is_lost(response: Answered | Refusal) -> bool:
    """Whether the call was not found again by its state, which this era knows nothing of."""
    if isinstance(response, Refusal):
        return False
    error = jsonrpc.members_of(response.members.get("error", b"{}"))
    data = jsonrpc.members_of(error.get("data", b"{}"))
    return jsonrpc.text_of(data.get("reason", b"")) == request_state.INVALID_STATE


async def _give_up(relayed: Relayed, asked: Members) -> None:
    """Tell a workspace server of ours that its call is held open for nothing; nobody waits long for that."""
    state = asked.get("requestState", msgspec.Raw(b'""'))
    if request_state.is_suspended(jsonrpc.text_of(state) or ""):
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_S):
                await relayed.give_up(state)
