"""Owns one forwarded call: admission, counters, timing, deadline, and which message is its response.

A registered server may answer anything, so each message is checked before it counts as the response. What the
observer of calls is told of one is read here, too: its outcome, its error's code, its size.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import call_reports
from manager.call_observer import NO_OBSERVER, TASK, CallDetails, CallObserver, CallOrigin, EndedCall
from manager.configuration.settings import Settings
from manager.log import logger
from manager.routing.json_members import members_between
from manager.supervision.instance import Figures, Owner
from manager.upstream.response import UpstreamResponse

SEARCHED: Final = 2048
"""Bytes of a response up to which it is searched for a tool's error or a task; those are rarely larger."""
_IS_ERROR: Final = b'"isError"'
_ERROR: Final = re.compile(rb'"isError"\s*:\s*true')
"""Not within a text: there, quotes follow a backslash."""
_INPUT_REQUIRED: Final = b'"input_required"'
_TASK: Final = b'"task"'
_KINDS: Final = {_INPUT_REQUIRED: "input_required", _TASK: TASK}
"""`resultType` of a response after which the call goes on -> outcome."""


class AnswerFacts(NamedTuple):
    """What a response says. `outcome` is `ok`, `error`, `input_required` or `task`."""

    outcome: str
    code: int | None
    size: int


def has_tool_error(data: bytes) -> bool:
    """Whether a response, with or without its head, seems to be a tool's error. Not for large ones."""
    # not `in`: it tries the bytes as a number first, and that exception costs more than the search
    return len(data) <= SEARCHED and data.find(_IS_ERROR) >= 0 and _ERROR.search(data) is not None


def facts_of(
    body: bytes, members: Mapping[str, msgspec.Raw], result: Mapping[str, msgspec.Raw] | None = None
) -> AnswerFacts:
    """The facts of a parsed response.

    Args:
        members: its members.
        result: those of its result, if they were parsed.
    """
    size = len(body)
    if "error" in members:
        return AnswerFacts("error", _code(members["error"]), size)
    if result is not None:
        flag, kind = result.get("isError"), result.get("resultType")
        if flag is not None and jsonrpc.bytes_of(flag) == b"true":
            return AnswerFacts("error", None, size)
        outcome = "ok" if kind is None else _KINDS.get(bytes(jsonrpc.bytes_of(kind)), "ok")
        return AnswerFacts(outcome, None, size)
    if _goes_on(body) or (size > SEARCHED and _IS_ERROR in body):
        return facts_of(body, members, jsonrpc.members_of(members.get("result", b"{}")))
    return AnswerFacts("error" if has_tool_error(body) else "ok", None, size)


def _goes_on(body: bytes) -> bool:
    """Whether a response may ask for input, or name the task that its call has become."""
    return _INPUT_REQUIRED in body or (len(body) <= SEARCHED and _TASK in body)


def _code(error: msgspec.Raw) -> int | None:
    code = jsonrpc.members_of(error).get("code")
    try:
        return None if code is None else int(jsonrpc.bytes_of(code))
    except ValueError:
        return None


class Wait(Enum):
    """What a call waits for before it is sent."""

    START = auto()
    CONNECTION = auto()


class Admission:
    """Limits how many calls are in flight, per workspace and in all, and the bytes of large bodies.

    Attributes:
        buffers: The bytes of large requests and responses.
        in_flight: Calls in flight of all workspaces.
        observe_call: Takes each call that has ended (`CallObserver`).
        timeouts_s: Seconds that a call may take, by the owner of its server. A workspace server that a
            manager started, here or elsewhere, limits each tool itself, perhaps to more than a registered
            server is allowed.
    """

    __slots__ = ("_limit", "_workspace_limit", "buffers", "in_flight", "observe_call", "timeouts_s")

    def __init__(self, settings: Settings, observer: CallObserver = NO_OBSERVER) -> None:
        self.observe_call = observer.observe_call
        self._limit = settings.in_flight_limit
        self._workspace_limit = settings.workspace_in_flight_limit
        self.timeouts_s: Mapping[Owner, float] = {
            "external": settings.call_timeout_s,
            "manager": max(settings.call_timeout_s, settings.call_limit_s),
            "remote": max(settings.call_timeout_s, settings.call_limit_s),
        }
        self.in_flight = 0
        self.buffers = ByteBudget(settings.buffer_limit)

    def is_full(self, figures: Figures) -> bool:
        """Whether one more call to the workspace with these figures would exceed a limit."""
        return figures.in_flight >= self._workspace_limit or self.in_flight >= self._limit

    def limit_reached(self, figures: Figures) -> str:
        """Which limit `is_full` has met, and where it is set."""
        if figures.in_flight >= self._workspace_limit:
            limit, where, setting = self._workspace_limit, "this project", "workspace_in_flight_limit"
        else:
            limit, where, setting = self._limit, "all projects together", "in_flight_limit"
        return f"{limit:,} requests are in flight in {where} ({setting} in config.toml)"


class ForwardedCall:
    """One request to a workspace server, from its admission to its end, whatever path it takes.

    All times are monotonic. Only the first call of `end` or `fail` has an effect.

    Args:
        admission: Counts the call among those in flight.
        figures: The figures of its workspace.
        identity: The id that the response must have, as JSON text.
        is_tool_call: Whether the figures count it as a tool call.
        is_stream: Whether it is a stream that stays open, which has no deadline and is counted separately.
        began: When the work for it began; None if it is not timed.
        origin: What the observer is told of its beginning; None if the call is not observed.

    Attributes:
        answer_outcome: What its response says of the outcome: `ok`, `error`, `input_required` or `task`.
        received: Bytes of its response; None while they are not known.
        deadline: When its answer must be complete; None for a stream, and until `limit` is called.
        timeout_s: Seconds it may take.
        sent_at: When it was sent.
        response: Set when it is sent, unless the route cache reads the response.
        took: Where its time went in the server, if the route cache has read that
            (`lm_tools_bridge/protocol/internal/call_reports.py`).
    """

    __slots__ = (
        "_admission",
        "_began",
        "_figures",
        "_is_open",
        "_is_stream",
        "_origin",
        "answer_outcome",
        "deadline",
        "details",
        "identity",
        "received",
        "response",
        "sent_at",
        "timeout_s",
        "took",
    )

    response: UpstreamResponse

    def __init__(
        self,
        admission: Admission,
        figures: Figures,
        identity: bytes,
        *,
        is_tool_call: bool = False,
        is_stream: bool = False,
        began: float | None = None,
        origin: CallOrigin | None = None,
    ) -> None:
        self._admission = admission
        self._figures = figures
        self._is_stream = is_stream
        self._is_open = True
        self._began = began
        self._origin = origin
        self.answer_outcome = "ok"
        self.received: int | None = None
        self.details: CallDetails | None = None
        self.took: bytes | None = None
        self.identity = identity
        self.sent_at: float | None = None
        self.timeout_s = admission.timeouts_s["external"]
        self.deadline: float | None = None
        figures.calls += is_tool_call
        if is_stream:  # counted here and in `end` without a function of its own: every call comes by
            figures.streams += 1
        else:
            figures.in_flight += 1
            admission.in_flight += 1

    @property
    def buffers(self) -> ByteBudget:
        """The bytes of large bodies."""
        return self._admission.buffers

    def waited(self, wait: Wait, seconds: float) -> None:
        """Record the time waited before sending, which counts neither as the manager's nor the server's."""
        if self._began is not None:
            self._began += seconds
            timings = self._figures.timings
            (timings.start if wait is Wait.START else timings.connection).add(seconds)
        details = self.detailed()
        if wait is Wait.START:
            details.start_s += seconds
        else:
            details.queue_s += seconds

    def detailed(self) -> CallDetails:
        """What only some calls have; made at the first use."""
        if self.details is None:
            self.details = CallDetails()
        return self.details

    def copy_contents(self, body: bytes) -> None:
        """Tell the observer the arguments in this request's body, and the answer as it is read."""
        if self._origin is not None:
            params = jsonrpc.members_of(jsonrpc.members_of(body).get("params", msgspec.Raw(b"{}")))
            arguments = jsonrpc.bytes_of(params.get("arguments", msgspec.Raw(b"{}")))
            self._origin = replace(self._origin, arguments=arguments)
            self.detailed().result = bytearray()

    def answered(self, facts: AnswerFacts) -> None:
        """Note what the response says, without ending the call."""
        self.answer_outcome, code, self.received = facts
        if code is not None:
            self.detailed().code = code

    def limit(self, since: float, owner: Owner) -> None:
        """Set the deadline of a call of a server with this owner; streams have none."""
        self.timeout_s = self._admission.timeouts_s[owner]
        if not self._is_stream:
            self.deadline = since + self.timeout_s

    def sent(self, now: float) -> None:
        """Record that the call was sent at `now`."""
        self.sent_at = self._figures.last_call_at = now

    def end(self, outcome: str = "ok", answered_at: float | None = None) -> None:
        """End the call.

        Args:
            answered_at: When the answer had arrived, if that was before now.
        """
        if not self._is_open:
            return
        self._is_open = False
        figures, admission = self._figures, self._admission
        if self._is_stream:
            figures.streams -= 1
        else:
            figures.in_flight -= 1
            admission.in_flight -= 1
        figures.last_outcome = outcome
        now = time.monotonic()
        if answered_at is None:
            answered_at = now
        if self._began is not None and self.sent_at is not None:
            figures.timings.record_call(self._began, self.sent_at, answered_at, now)
        origin = self._origin
        if origin is not None:
            word = self.answer_outcome if outcome == "ok" else outcome
            took = self.took
            if took is None:
                took = self.response.took if hasattr(self, "response") else b""
            if word == "ok" and took.endswith(call_reports.TASK):
                word = TASK
            admission.observe_call(
                EndedCall(origin, self.sent_at, answered_at, now, word, self.received, self.details, took)
            )

    def fail(self, refusal: Refusal) -> None:
        """End the call and record the failure in the figures and the log.

        A stream that ends with its server did not fail: the server's exit is logged by its supervisor.
        """
        if not self._is_open:
            return
        if self._is_stream and refusal.reason is Reason.WORKSPACE_SERVER_DIED:
            self.end("ended")
            return
        self._figures.failed(refusal)
        self.detailed().code = refusal.reason.code
        self.end(refusal.reason.word)
        logger().warning("tools.call", outcome=refusal.reason.word, message=refusal.message)

    def refuse(self, refusal: Refusal) -> None:
        """Fail the call because of its response, and cancel it upstream if its response is incomplete.

        An invalid response also closes its connection: later responses on it may be out of step.
        """
        self.fail(refusal)
        if refusal.reason is Reason.INVALID_UPSTREAM_ANSWER:
            self.response.reject()
        else:
            self.response.abandon()

    def give_up(self, outcome: str = "cancelled") -> None:
        """End the call, and cancel it upstream if its response is incomplete. Idempotent."""
        self.end(outcome)
        self.response.abandon()


class InterruptedAnswerError(Exception):
    """The answer broke off, timed out or belongs to another request; `refusal` says which."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


LARGE: Final = 64 * 1024
"""Bytes from which reading a message twice is too slow."""


_NULL: Final = msgspec.Raw(b"null")


_SPACE: Final = rb"[ \t\r\n]*"


_ID: Final = rb'(-?[0-9]{1,32}|"[^"\x00-\x1f]{1,254}")'


_MEMBERS: Final = (rb'"jsonrpc" : "2\.0" , "id" : ' + _ID, rb'"id" : ' + _ID + rb' , "jsonrpc" : "2\.0"')


_BEGIN: Final = re.compile(
    (rb' \{ (?:%b|%b) , "(?:result|error)" : \{' % _MEMBERS).replace(b" ", _SPACE),
)
"""The beginning of a response whose id precedes its content."""


_RESULT: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(-?[0-9]{1,32}|"[^"\\\x00-\x1f]{1,254}"),"result":(?=\{)'
)


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The response in an answer.

    Attributes:
        body: The whole message.
        members: Its members.
        result: The members of a large result, so that it is parsed once only; None for any other response.
    """

    body: bytes
    members: Mapping[str, msgspec.Raw]
    result: Mapping[str, msgspec.Raw] | None = None


def answered(data: bytes, identity: bytes) -> Answered | None:
    """Parse a JSON text as the response to a request.

    Errors with the id null or without an id are accepted as the response.

    Args:
        data: The JSON text.
        identity: The request's id as JSON text.

    Returns:
        None if the text is not a response.

    Raises:
        InterruptedAnswerError: The text is the response to another request.
    """
    found = (_large_result(data) if len(data) >= LARGE else None) or _answered(data)
    if found is not None and (response_id := jsonrpc.bytes_of(found.members.get("id", _NULL))) != b"null":
        check_id(response_id, identity)
    return found


def check_id(found: bytes, identity: bytes) -> None:
    """Compare the id of a response with that of the request, both as JSON text.

    Raises:
        InterruptedAnswerError: The ids differ.
    """
    if found != identity and jsonrpc.id_key(found) != jsonrpc.id_key(identity):
        raise InterruptedAnswerError(
            Refusal(
                Reason.INVALID_UPSTREAM_ANSWER,
                "the workspace server's answer is the response to another request",
                delivered="unknown",
            )
        )


def begins_as_answer(begin: bytes, identity: bytes) -> bool:
    """Whether the first bytes of a JSON text show that it is the response to a request.

    If False, the text must be read to decide.

    Raises:
        InterruptedAnswerError: The text is the response to another request.
    """
    found = _BEGIN.match(begin)
    response_id = None if found is None else found[1] or found[2]
    if response_id is None or not jsonrpc.is_valid_id(response_id):
        return False
    check_id(response_id, identity)
    return True


def begins_as_result(data: bytes) -> bool:
    """Whether a JSON text begins like a result as our own servers write it.

    False does not mean that the text is no response.
    """
    return _RESULT.match(data) is not None


def _large_result(data: bytes) -> Answered | None:
    """Parse a response of the usual form, of which only the result has to be parsed."""
    begin = _RESULT.match(data)
    if begin is None or not data.endswith(b"}") or not jsonrpc.is_valid_id(begin[1]):
        return None
    text = memoryview(data)[begin.end() : -1]
    result = members_between(data, begin.end(), len(data) - 1)
    members = {"jsonrpc": msgspec.Raw(b'"2.0"'), "id": msgspec.Raw(begin[1]), "result": msgspec.Raw(text)}
    return Answered(data, members, result) if result else None


def _answered(data: bytes) -> Answered | None:
    members = jsonrpc.members_of(data)
    if "method" in members or ("result" in members) == ("error" in members):
        return None
    identity = jsonrpc.bytes_of(members["id"]) if "id" in members else b"null"
    if identity == b"null":
        is_one = "code" in jsonrpc.members_of(members.get("error", b"{}"))
    else:
        version = members.get("jsonrpc", msgspec.Raw(b"null"))
        is_one = jsonrpc.is_valid_id(identity) and jsonrpc.bytes_of(version) == b'"2.0"'
    return Answered(data, members) if is_one else None


def is_response(data: bytes) -> bool:
    """Whether a JSON text is a JSON-RPC response."""
    return _answered(data) is not None
