"""Asks a person before a tool runs, unless the user's settings already decide.

The question is an `input_required` result. The client repeats the call with the answer and a state that
proves which call the question was about; only used states are stored in between. Questions that a running
tool asks are handled in `calls/suspended_calls.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from protocol import input_requests, jsonrpc, names
from protocol.errors import Reason, Refusal
from workspace_server.call_context import CallContext
from workspace_server.calls.request_state import APPROVAL, RequestStates, StateBinding
from workspace_server.calls.suspended_calls import state_of, without_answers
from workspace_server.config.model import Approval
from workspace_server.results import clean_text
from workspace_server.tool import Tool

ANSWER: Final = "approval"
MAX_SHOWN: Final = 8000
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
    """The call may run with this context, from which answers to our own questions were removed."""

    context: CallContext


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The result that asks the client's user. The client repeats the call with the answer."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """The request's state or answer is not valid for this call (-32602). Nothing runs."""

    message: str


Decision = Admitted | ApprovalRequest | Refusal | InvalidAnswer


def policy(
    name: str,
    tool: Tool,
    approvals: Mapping[str, Approval],
    arguments: Mapping[str, Any] | None = None,
) -> Approval:
    """The decision for a tool: the user's, or else what the tool itself declares.

    Args:
        name: its offered name.
        approvals: the user's decisions by offered name (`Configuration.approvals`).
        arguments: those of the call; None for any call.
    """
    if decided := approvals.get(name):
        return decided
    is_harmless = arguments is not None and tool.is_harmless(arguments)
    return "ask" if tool.requires_approval and not is_harmless else "allow"


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


def binding(name: str, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> StateBinding:
    """The binding of a state to this call; `name` is the tool's offered name."""
    return StateBinding(names.TOOLS_CALL, name, arguments, tool.fingerprint, context.caller)


class Approvals:
    """Decides whether calls may run.

    Args:
        states: seals and opens `requestState` values.
    """

    def __init__(self, states: RequestStates) -> None:
        self._states = states

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
            text = f"{call.name} needs a person's approval, and this client cannot ask for it"
            step = f"ask the user to run: lmtb tools allow {call.name}"
            return Refusal(Reason.APPROVAL_REQUIRED, text, step, delivered="no")
        sealed = await asyncio.to_thread(self._states.seal, APPROVAL, call.binding, call.now)
        message = approval_message(call.name, call.tool, call.arguments)
        params = {"mode": "form", "message": message, "requestedSchema": _SCHEMA}
        requests = {ANSWER: {"method": names.ELICIT, "params": params}}
        return ApprovalRequest(
            {"resultType": "input_required", "inputRequests": requests, "requestState": sealed}
        )

    async def _answered(self, call: _Call, decided: Approval, state: str) -> Decision:
        opened = await asyncio.to_thread(self._states.open, state, call.binding, call.now)
        if opened is None:
            return InvalidAnswer("requestState is not of this call, or has expired; call again without it")
        answer = _answer_of(call.context)
        if answer is None:
            return Admitted(without_answers(call.context)) if decided == "allow" else await self._ask(call)
        if not await asyncio.to_thread(self._states.spend, opened, call.now):
            return InvalidAnswer("requestState was used before; call again without it")
        if not _is_yes(answer):
            return Refusal(Reason.APPROVAL_DENIED, f"User denied execution of {call.name}", delivered="no")
        return Admitted(without_answers(call.context))


def approval_message(name: str, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The question: the tool and all its arguments, with invisible characters escaped."""
    hidden = _hidden_members(tool)
    lines = [f"Run {name}?"]
    for key, value in arguments.items():
        lines.append(f"{_one_line(key)}: {'[hidden]' if key in hidden else _shown(value)}")
    text = "\n".join(lines)
    if len(text) <= MAX_SHOWN:
        return text
    return f"{text[:MAX_SHOWN]}\n… {len(text) - MAX_SHOWN} more characters are NOT shown; decline if in doubt"


def _one_line(text: str) -> str:
    """A name on one line: a line break inside could look like another argument."""
    return json.dumps(text) if "\n" in text or "\t" in text else _visible(text)


def _shown(value: Any) -> str:
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


def _answer_of(context: CallContext) -> Any:
    raw = context.params.get("inputResponses")
    answers = {} if raw is None else jsonrpc.members_of(raw)
    return msgspec.json.decode(answers[ANSWER]) if ANSWER in answers else None


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
