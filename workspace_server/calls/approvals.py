"""Asks a person before a tool runs, unless the user's settings already decide.

The question is an `input_required` result. The client repeats the call with the answer and a state that
proves which call the question was about; only used states are stored in between. Meanwhile the question can
be answered elsewhere (`pending_approvals.py`). The call of a client that cannot be asked waits for that.
Questions that a running tool asks are handled in `calls/suspended_calls.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import input_requests, jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal.request_state import approval_id
from lm_tools_bridge.text.printable import operand
from workspace_server.call_context import CallContext, refuse_request
from workspace_server.calls.pending_approvals import PendingApproval, PendingApprovals
from workspace_server.calls.request_state import APPROVAL, RequestStates, StateBinding
from workspace_server.calls.suspended_calls import state_of, without_answers
from workspace_server.config.model import Approval
from workspace_server.results import clean_text
from workspace_server.tool import RpcError, Tool

MAX_ASKED: Final = 8000
"""Longest question in characters for the client's user."""
MAX_PENDING: Final = 4000
"""Longest question in characters for whoever answers elsewhere."""


def approval_message(name: str, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The whole question: the tool and all its arguments, with invisible characters escaped."""
    hidden = _hidden_members(tool)
    lines = [f"Run {name}?"]
    for key, value in arguments.items():
        lines.append(f"{_one_line(key)}: {'[hidden]' if key in hidden else _value_text(value)}")
    return "\n".join(lines)


def shortened(text: str, most: int, advice: str) -> str:
    """The first `most` characters of a question, how many more there are, and what to do if in doubt."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most} more characters are NOT shown; {advice} if in doubt"


def _one_line(text: str) -> str:
    """A name on one line: a line break inside could look like another argument."""
    return json.dumps(text) if "\n" in text or "\t" in text else _visible(text)


def _value_text(value: Any) -> str:
    if not isinstance(value, str):
        return _visible(msgspec.json.encode(value).decode())
    text = _visible(value)
    return "\n" + "\n".join(f"    {line}" for line in text.split("\n")) if "\n" in text else text


def _visible(text: str) -> str:
    """The text, as escapes if it contains characters that hide or reorder others."""
    return text if clean_text(text) == text else json.dumps(text)


def _hidden_members(tool: Tool) -> set[str]:
    properties = tool.input_schema.get("properties")
    return {
        name
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
        if isinstance(schema, Mapping)
        and (schema.get("writeOnly") is True or schema.get("format") == "password")
    }


ANSWER: Final = "approval"
_ALLOW: Final = "ask the user to run: lmtb tools allow {}"
_WHERE: Final = "with `lmtb approvals` in a terminal, or on the page that `lmtb ui` opens"
_FORM_ELICITATION: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}}
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Approve",
            "description": "Run this call once",
            "default": False,
        }
    },
    "required": ["approve"],
}


@dataclass(frozen=True, slots=True)
class Admitted:
    """The call may run with this context, from which answers to our own questions were removed.

    Attributes:
        waited: whether a person was waited for: what was known of the tool before may be out of date.
    """

    context: CallContext
    waited: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The result that asks the client's user. The client repeats the call with the answer."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """The request's state or answer is not valid for this call (-32602). Nothing runs."""

    message: str


Decision = Admitted | ApprovalRequest | Refusal | InvalidAnswer


@dataclass(frozen=True, slots=True)
class _Call:
    """One call that waits for a decision."""

    name: str
    tool: Tool
    arguments: Mapping[str, Any]
    context: CallContext
    now: float

    @property
    def binding(self) -> StateBinding:
        return binding(self.name, self.tool, self.arguments, self.context)

    @property
    def question(self) -> str:
        return approval_message(self.name, self.tool, self.arguments)

    def pending(self, identity: str, seconds: float, *, waits: bool) -> PendingApproval:
        return PendingApproval(
            identity,
            self.name,
            self.context.client,
            shortened(self.question, MAX_PENDING, "deny"),
            self.context.caller,
            self.now,
            self.now + seconds,
            waits,
        )


def binding(name: str, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> StateBinding:
    """The binding of a state to this call; `name` is the tool's offered name."""
    return StateBinding(names.TOOLS_CALL, name, arguments, tool.fingerprint, context.caller)


class Approvals:
    """Decides whether calls may run.

    Args:
        states: seals and opens `requestState` values.
        pending: the questions that can be answered elsewhere.
        wait_s: how many seconds a call waits for that if its client cannot be asked; 0 refuses it.
    """

    def __init__(
        self, states: RequestStates, pending: PendingApprovals | None = None, wait_s: float = 0.0
    ) -> None:
        self._states = states
        self._pending = pending or PendingApprovals()
        self._wait_s = wait_s

    def resumes(self, context: CallContext) -> bool:
        """Whether a request claims to resume an admitted call. `SuspendedCalls` verifies the state."""
        state = state_of(context)
        return state is not None and self._states.kind_of(state) not in (None, APPROVAL)

    async def decide(  # noqa: PLR0917  the facts about one call
        self,
        name: str,
        tool: Tool,
        decided: Approval,
        arguments: Mapping[str, Any],
        context: CallContext,
        now: float,
    ) -> Decision:
        """Decide whether this call may run now.

        Args:
            name: the tool's offered name.
            tool: the tool; its fingerprint identifies the code that would run.
            decided: see `policy`.
            arguments: the arguments, checked and decoded.
            context: the call's context; its `arguments` are the same arguments as JSON text.
            now: seconds since 1970, from a clock that all runs of this server share (`time.time()`).
        """
        if decided == "deny":
            text = f"the user's settings do not allow {name}"
            return Refusal(Reason.APPROVAL_DENIED, text, delivered="no")
        if self.resumes(context):
            return Admitted(context)
        if decided == "ask" and _repeats_a_member(context.arguments):
            return InvalidAnswer("the arguments contain a member twice; call again with each member once")
        call = _Call(name, tool, arguments, context, now)
        state = state_of(context)
        if state is not None and self._states.kind_of(state) == APPROVAL:
            return await self._answered(call, decided, state)
        if decided == "allow":
            return Admitted(context)
        if state is not None:
            return InvalidAnswer("requestState does not belong to this call")
        return await self._ask(call)

    async def _ask(self, call: _Call) -> Decision:
        if not input_requests.declares(call.context.capabilities, _FORM_ELICITATION):
            return await self._wait(call)
        message = shortened(call.question, MAX_ASKED, "decline")
        params = {"mode": "form", "message": message, "requestedSchema": _SCHEMA}
        if call.context.ask is not refuse_request:
            return await _ask_for_script(call, params)
        sealed = await asyncio.to_thread(self._states.seal, APPROVAL, call.binding, call.now)
        # where there is no room for it, the client can still be asked
        self._pending.add(call.pending(approval_id(sealed), self._states.ttl_s, waits=False))
        requests = {ANSWER: {"method": names.ELICIT, "params": params}}
        return ApprovalRequest(
            {"resultType": "input_required", "inputRequests": requests, "requestState": sealed}
        )

    async def _wait(self, call: _Call) -> Decision:
        """Wait for an answer from elsewhere. Cancelled when the caller leaves."""
        name = call.name
        if not self._wait_s:
            text = f"{name} needs a person's approval, and this client cannot ask for it"
            return Refusal(Reason.APPROVAL_REQUIRED, text, _ALLOW.format(operand(name)), delivered="no")
        pending = call.pending(approval_id(os.urandom(16).hex()), self._wait_s, waits=True)
        if not self._pending.add(pending):
            return Refusal(
                Reason.OVERLOADED, f"{name} cannot wait for approval: too many calls do", delivered="no"
            )
        try:
            await call.context.progress(0, message=f"{name} waits for a person's approval: {_WHERE}")
            await asyncio.wait({pending.answer}, timeout=self._wait_s)
            return self._decided_elsewhere(call, pending.approved)
        finally:
            self._pending.withdraw(pending.id)

    def _decided_elsewhere(self, call: _Call, approved: bool | None) -> Decision:
        if approved is not None:
            return Admitted(without_answers(call.context), waited=True) if approved else _denied(call)
        text = f"nobody approved {call.name} while it waited, {self._wait_s:g} s at most; it did not run"
        step = f"tell the user what you want to do, and call again: they can answer {_WHERE}, or run:"
        command = f"lmtb tools allow {operand(call.name)}"
        return Refusal(Reason.APPROVAL_REQUIRED, text, f"{step} {command}", delivered="no")

    async def _answered(self, call: _Call, decided: Approval, state: str) -> Decision:
        opened = await asyncio.to_thread(self._states.open, state, call.binding, call.now)
        if opened is None:
            return InvalidAnswer("requestState is not of this call, or has expired; call again without it")
        identity, answer = approval_id(state), _answer_of(call.context)
        elsewhere = self._pending.answer_of(identity)
        if elsewhere is None:
            self._pending.withdraw(identity)  # from now on, no answer from elsewhere is taken
            if answer is None:
                return (
                    Admitted(without_answers(call.context)) if decided == "allow" else await self._ask(call)
                )
        if not await asyncio.to_thread(self._states.spend, opened, call.now):
            return InvalidAnswer("requestState was used before; call again without it")
        self._pending.withdraw(identity)
        return Admitted(without_answers(call.context)) if _allows(elsewhere, answer) else _denied(call)


def _allows(elsewhere: bool | None, answer: Any) -> bool:
    """Whether the call may run. A person's no counts, also after a yes elsewhere: nothing has run yet."""
    if elsewhere is None:
        return _is_yes(answer)
    return elsewhere and (answer is None or _is_closed(answer) or _is_yes(answer))


async def _ask_for_script(call: _Call, params: Mapping[str, Any]) -> Decision:
    """Ask the client that called the script which makes this call; the script waits."""
    answer = await call.context.ask(names.ELICIT, jsonrpc.raw(params))
    if isinstance(answer, RpcError):
        text = f"{call.name} needs a person's approval, and nobody could be asked: {answer.message}"
        return Refusal(Reason.APPROVAL_REQUIRED, text, _ALLOW.format(operand(call.name)), delivered="no")
    return Admitted(call.context, waited=True) if _is_yes(msgspec.json.decode(answer)) else _denied(call)


def _denied(call: _Call) -> Refusal:
    return Refusal(Reason.APPROVAL_DENIED, f"User denied execution of {call.name}", delivered="no")


def _answer_of(context: CallContext) -> Any:
    raw = context.params.get("inputResponses")
    answers = {} if raw is None else jsonrpc.members_of(raw)
    return msgspec.json.decode(answers[ANSWER]) if ANSWER in answers else None


def _is_closed(answer: Any) -> bool:
    """Whether the person closed the form without a choice."""
    return isinstance(answer, Mapping) and answer.get("action") == "cancel"


def _is_yes(answer: Any) -> bool:
    if not isinstance(answer, Mapping) or answer.get("action") != "accept":
        return False
    content = answer.get("content")
    return isinstance(content, Mapping) and content.get("approve") is True


def _repeats_a_member(text: msgspec.Raw) -> bool:
    """Whether a JSON object has a member twice: the tool could use another value than the one shown."""
    repeated = False

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len({key for key, _ in pairs}) != len(pairs)

    try:
        json.loads(jsonrpc.bytes_of(text), object_pairs_hook=check)
    except (ValueError, RecursionError):
        return True
    return repeated
