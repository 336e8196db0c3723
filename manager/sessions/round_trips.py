"""Relays a workspace server's response to a session client, asking the client for input in between.

A stateless server ends its response with `input_required` and a map of `inputRequests` (MCP 2026-07-28). A
session client gets each of them as a JSON-RPC request on the stream of its own request; its results become
the `inputResponses`, with which the request is repeated, at most `MAX_ROUND_TRIPS` times. If the client
answers with an error, a call suspended in a workspace server receives the error; any other request ends. The
final response is rewritten by `routing/legacy_result.py`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from itertools import count
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import input_requests, jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import request_state
from lm_tools_bridge.protocol.jsonrpc import Response
from manager.answers import replies
from manager.answers.exchange import Exchange
from manager.answers.replies import Relayed
from manager.answers.upstream_request import capabilities_of
from manager.forwarding.answer import Answer, messages_of, unusable
from manager.forwarding.forwarded_call import Answered
from manager.routing import legacy_result
from manager.sessions.pending_requests import PendingRequest, PendingRequests
from manager.waiting_calls import NOBODY, WaitingCalls

MAX_INPUT_REQUESTS: Final = 32
"""Input requests in one result. Each is a request to the client, which may show them to a person."""
INPUT_TIMEOUT_S: Final = 600.0
"""Seconds to wait for the responses to one `input_required` result: people give them."""
PAUSE_S: Final = 0.25
"""Seconds before a request is repeated whose server required no input but the repetition."""
_URL: Final = b'"url"'

Members = Mapping[str, msgspec.Raw]


def unanswered(message: str, details: Mapping[str, Any] | None = None, state: str = "") -> Refusal:
    """The refusal for a request whose server required input that the client did not give.

    Args:
        message: what happened.
        details: further members of the error's data.
        state: the `requestState` of the `input_required` result.
    """
    if request_state.is_not_started(state):
        step = "call again when its question can be answered"
        return Refusal(Reason.QUESTION_UNANSWERED, message, step, delivered="no", details=details)
    return Refusal(Reason.QUESTION_UNANSWERED, message, delivered="unknown", details=details)


class InputRequests:
    """The input requests of one `input_required` result.

    Attributes:
        outcome: after the last message, the parameters to repeat the request with, or why it ends.
    """

    def __init__(
        self,
        exchange: Exchange,
        pending_requests: PendingRequests,
        result: Members,
        timeout_s: float,
        waiting_calls: WaitingCalls = NOBODY,
    ) -> None:
        self._waiting_calls = waiting_calls
        self.outcome: Members | Refusal = {}
        self._exchange = exchange
        self._pending_requests = pending_requests
        self._timeout_s = timeout_s
        self._state = {name: raw for name, raw in result.items() if name == "requestState"}
        entries = jsonrpc.members_of(result.get("inputRequests", b"{}"))
        self._required = {key: jsonrpc.members_of(entry) for key, entry in entries.items()}
        self._sent: dict[str, PendingRequest] = {}

    async def messages(self) -> AsyncGenerator[bytes]:
        """The requests for the client, then cancellations of those that need no answer any more."""
        problem = self._problem()
        if problem is not None:
            self.outcome = problem
        elif not self._required:
            await asyncio.sleep(PAUSE_S)
            self.outcome = self._state
        else:
            async for message in self._ask():
                yield message

    def _problem(self) -> Refusal | None:
        """Why the client cannot be asked: the result is invalid, or the client lacks a capability."""
        if not self._required and not self._state:
            return _broken("input_required without inputRequests and without requestState")
        if len(self._required) > MAX_INPUT_REQUESTS:
            return _broken(f"{len(self._required)} input requests at once, more than {MAX_INPUT_REQUESTS}")
        declared = {
            name: jsonrpc.members_of(parts)
            for name, parts in jsonrpc.members_of(capabilities_of(self._exchange)).items()
        }
        for entry in self._required.values():
            method = _method_of(entry)
            needed = input_requests.required_capabilities(method, entry.get("params", b""))
            if needed is None:
                return _broken(f"{method[:100]!r} is no input request")
            if not input_requests.declares(declared, needed):
                spelt = input_requests.format_capabilities(needed)
                text = f"the server asks with {method}, which this client does not support: {spelt}"
                return self._unanswered(text, {"requiredCapabilities": needed})
        return None

    # -- requests and responses ---------------------------------------------------------------------------

    async def _ask(self) -> AsyncGenerator[bytes]:
        for key, entry in self._required.items():
            params = jsonrpc.bytes_of(entry.get("params", msgspec.Raw(b"")))
            self._sent[key] = self._pending_requests.create(_method_of(entry), _with_elicitation_id(params))
        try:
            for request in self._sent.values():
                yield request.message
            self.outcome = await self._first_answer()
        except asyncio.CancelledError:
            for message in self._cancel_unanswered():
                yield message
            raise
        finally:
            cancellations = self._cancel_unanswered()
        for message in cancellations:
            yield message

    def _cancel_unanswered(self) -> list[bytes]:
        """Cancel the requests that the client has not answered; returns the notifications for it."""
        cancelled = [self._pending_requests.cancel(request) for request in self._sent.values()]
        return [message for message in cancelled if message is not None]

    async def _first_answer(self) -> Members | Refusal:
        """The client's answers. If a person answers elsewhere first, the request is repeated without them."""
        if not request_state.is_not_started(self._state_text):
            return await self._answers()
        identity = request_state.approval_id(self._state_text)
        elsewhere = self._waiting_calls.watch(identity)
        answers = asyncio.ensure_future(self._answers())
        either: set[asyncio.Future[Any]] = {elsewhere, answers}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return answers.result() if answers.done() else self._state
        finally:
            answers.cancel()
            self._waiting_calls.unwatch(identity)

    async def _answers(self) -> Members | Refusal:
        keys = {request.answer: key for key, request in self._sent.items()}
        answers: dict[str, msgspec.Raw] = {}
        waiting = set(keys)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_s
        while waiting:
            done, waiting = await asyncio.wait(
                waiting, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                return self._unanswered(f"nobody answered the server's question within {self._timeout_s:g} s")
            for one in done:
                answer = self._answer(one.result())
                if isinstance(answer, Refusal):
                    return answer
                answers[keys[one]] = answer
        return {**self._state, "inputResponses": jsonrpc.raw({key: answers[key] for key in self._sent})}

    def _unanswered(self, message: str, details: Mapping[str, Any] | None = None) -> Refusal:
        return unanswered(message, details, self._state_text)

    @property
    def _state_text(self) -> str:
        return jsonrpc.text_of(self._state.get("requestState", b'""')) or ""

    def _answer(self, response: Response | None) -> msgspec.Raw | Refusal:
        if response is None:
            return self._unanswered("the manager is stopping, and cannot wait for the client's answer")
        members = jsonrpc.members_of(response.body)
        if "result" in members:
            return members["result"]
        error = members["error"]
        if request_state.is_suspended(self._state_text):
            return input_requests.error_response(error)
        text = jsonrpc.text_of(jsonrpc.members_of(error).get("message", b'""')) or "an error"
        return self._unanswered(
            f"the client did not answer the server's question: {text[:500]}", {"error": error}
        )


def _broken(how: str) -> Refusal:
    text = f"the workspace server's answer breaks the protocol: {how}"
    return Refusal(Reason.INVALID_UPSTREAM_ANSWER, text, delivered="unknown")


def _method_of(entry: Members) -> str:
    return (jsonrpc.text_of(entry["method"]) if "method" in entry else None) or ""


def _with_elicitation_id(params: bytes) -> bytes:
    """Add an `elicitationId` to URL-mode elicitation: MCP 2025-11-25 requires it, 2026-07-28 has none."""
    members = jsonrpc.members_of(params) if _URL in params else {}
    if jsonrpc.bytes_of(members.get("mode", msgspec.Raw(b""))) != _URL or "elicitationId" in members:
        return params
    return jsonrpc.dumps({**members, "elicitationId": str(uuid.uuid4())})


MAX_ROUND_TRIPS: Final = 10
"""Rounds of answers for one request. A server that asks for one thing after another needs a few; one that
never has enough would hold its call, and a person, for ever."""
GIVE_UP_S: Final = 2.0
"""Seconds for telling a server that its call is given up. The answer to the client waits for it. A server
that runs takes it at once."""


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
            return replies.refusal(self._exchange, response)
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
