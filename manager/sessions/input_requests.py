"""One round of questions to a legacy client: out on the stream of its request, and what came back.

Answers are passed on as they came. A client that answers with an error has no place for it in the repeated
request: a call that is held open inside gets it in a form of ours, any other request ends with it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec

from manager.answers.exchange import Exchange
from manager.answers.upstream_request import capabilities_of
from manager.sessions.pending_requests import PendingRequest, PendingRequests
from protocol import input_requests, jsonrpc
from protocol.errors import Reason, Refusal
from protocol.internal import request_state
from protocol.jsonrpc import Response

MAX_INPUT_REQUESTS: Final = 32
PATIENCE_S: Final = 600.0
"""How long the answers of one round are waited for: people give them."""
PAUSE_S: Final = 0.25
"""Before a request is repeated whose server asked for nothing but that."""
_URL: Final = b'"url"'

Members = Mapping[str, msgspec.Raw]


def unanswered(message: str, details: Mapping[str, Any] | None = None, state: str = "") -> Refusal:
    """The refusal for a request whose server asked something that was not answered.

    Args:
        state: the `requestState` that came with the question.
    """
    if request_state.is_not_started(state):
        step = "call again when its question can be answered"
        return Refusal(Reason.QUESTION_UNANSWERED, message, step, delivered="no", details=details)
    return Refusal(Reason.QUESTION_UNANSWERED, message, delivered="unknown", details=details)


class InputRequests:
    """The questions of one `input_required` result.

    Attributes:
        outcome: after the last message, what the request is to be repeated with, or why it ends here.
    """

    def __init__(
        self, exchange: Exchange, questions: PendingRequests, asked: Members, patience_s: float
    ) -> None:
        self.outcome: Members | Refusal = {}
        self._exchange = exchange
        self._questions = questions
        self._patience_s = patience_s
        self._state = {name: raw for name, raw in asked.items() if name == "requestState"}
        entries = jsonrpc.members_of(asked.get("inputRequests", b"{}"))
        self._asked = {key: jsonrpc.members_of(entry) for key, entry in entries.items()}
        self._out: dict[str, PendingRequest] = {}

    async def messages(self) -> AsyncGenerator[bytes]:
        """The questions, and behind them what takes those back that need no answer any more."""
        problem = self._problem()
        if problem is not None:
            self.outcome = problem
        elif not self._asked:
            await asyncio.sleep(PAUSE_S)
            self.outcome = self._state
        else:
            async for message in self._questioning():
                yield message

    def _problem(self) -> Refusal | None:
        """Why nothing is asked: a server that breaks the rules, or a client that cannot be asked this."""
        if not self._asked and not self._state:
            return _broken("it asks for input, but for none in particular")
        if len(self._asked) > MAX_INPUT_REQUESTS:
            return _broken(f"it asks {len(self._asked)} questions at once")
        declared = {
            name: jsonrpc.members_of(parts)
            for name, parts in jsonrpc.members_of(capabilities_of(self._exchange)).items()
        }
        for entry in self._asked.values():
            method = _method_of(entry)
            needed = input_requests.required_capabilities(method, entry.get("params", b""))
            if needed is None:
                return _broken(f"it asks with {method[:100]!r}")
            if not input_requests.declares(declared, needed):
                spelt = input_requests.format_capabilities(needed)
                text = f"the server asks with {method}, which this client does not offer: {spelt}"
                return self._unanswered(text, {"requiredCapabilities": needed})
        return None

    # -- questions and answers ----------------------------------------------------------------------------

    async def _questioning(self) -> AsyncGenerator[bytes]:
        for key, entry in self._asked.items():
            params = jsonrpc.bytes_of(entry.get("params", msgspec.Raw(b"")))
            self._out[key] = self._questions.put(_method_of(entry), _with_elicitation_id(params))
        try:
            for question in self._out.values():
                yield question.message
            self.outcome = await self._answers()
        except asyncio.CancelledError:
            for message in self._taken_back():
                yield message
            raise
        finally:
            taken_back = self._taken_back()
        for message in taken_back:
            yield message

    def _taken_back(self) -> list[bytes]:
        """What tells the client of the questions that are still out."""
        told = [self._questions.withdraw(question) for question in self._out.values()]
        return [message for message in told if message is not None]

    async def _answers(self) -> Members | Refusal:
        keys = {question.answer: key for key, question in self._out.items()}
        answers: dict[str, msgspec.Raw] = {}
        waiting = set(keys)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience_s
        while waiting:
            done, waiting = await asyncio.wait(
                waiting, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                return self._unanswered(
                    f"nobody answered the server's question within {self._patience_s:g} s"
                )
            for one in done:
                answer = self._answer(one.result())
                if isinstance(answer, Refusal):
                    return answer
                answers[keys[one]] = answer
        return {**self._state, "inputResponses": jsonrpc.raw({key: answers[key] for key in self._out})}

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
        said = jsonrpc.text_of(jsonrpc.members_of(error).get("message", b'""')) or "an error"
        return self._unanswered(
            f"the client did not answer the server's question: {said[:500]}", {"error": error}
        )


def _broken(how: str) -> Refusal:
    text = f"the workspace server's answer breaks the protocol: {how}"
    return Refusal(Reason.INVALID_UPSTREAM_ANSWER, text, delivered="unknown")


def _method_of(entry: Members) -> str:
    return (jsonrpc.text_of(entry["method"]) if "method" in entry else None) or ""


def _with_elicitation_id(params: bytes) -> bytes:
    """The parameters; a page to open has an id in this era (2025-11-25), in the next one it has none."""
    members = jsonrpc.members_of(params) if _URL in params else {}
    if jsonrpc.bytes_of(members.get("mode", msgspec.Raw(b""))) != _URL or "elicitationId" in members:
        return params
    return jsonrpc.dumps({**members, "elicitationId": str(uuid.uuid4())})
