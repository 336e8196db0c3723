"""Asks a session client for the input that a server requires, on the stream of the client's request.

A stateless server ends its response with `input_required` and a map of `inputRequests` (MCP 2026-07-28). A
session client gets each of them as a JSON-RPC request; its results become the `inputResponses`. If the client
answers with an error, a call suspended in a workspace server receives the error; any other request ends.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import input_requests, jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import request_state
from lm_tools_bridge.protocol.jsonrpc import Response
from manager.answers.exchange import Exchange
from manager.answers.upstream_request import capabilities_of
from manager.sessions.pending_requests import PendingRequest, PendingRequests
from manager.waiting_calls import NOBODY, WaitingCalls

MAX_INPUT_REQUESTS: Final = 32
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
