"""Asking a person before a tool runs: the user's decisions, and questions about one call.

A question goes out as an `input_required` result; the answer comes back with the repeated call, beside a
state that proves which call was asked about. Nothing is remembered in between but which states were used.
Questions that a tool asks while it runs are not asked here but in `calls/suspended_calls.py`.
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
from workspace_server.calls.request_state import ASK, RequestStates, StateBinding
from workspace_server.calls.suspended_calls import state_of, without_answers
from workspace_server.config.model import Approval
from workspace_server.results import clean_text
from workspace_server.tool import Tool

ANSWER: Final = "approval"
MAX_SHOWN: Final = 8000
_FORMS: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}}
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
    """The call may run, with this context: answers and states that were ours are no longer in it."""

    context: CallContext


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The result that asks the client's user; the client then repeats the call with the answer."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """What the client brought belongs to no question about this call (-32602). Nothing runs."""

    message: str


Decision = Admitted | ApprovalRequest | Refusal | InvalidAnswer


def policy(name: str, tool: Tool, approvals: Mapping[str, Approval]) -> Approval:
    """What is to be done about a tool: the user's decision, else what the tool itself asks for.

    Args:
        name: its offered name.
        approvals: the user's decisions by offered name (`Configuration.approvals`).
    """
    return approvals.get(name) or ("ask" if tool.asks else "allow")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call as it is decided about."""

    name: str
    tool: Tool
    arguments: Mapping[str, Any]
    context: CallContext
    now: float

    @property
    def bound(self) -> StateBinding:
        return bound(self.name, self.tool, self.arguments, self.context)


def bound(name: str, tool: Tool, arguments: Mapping[str, Any], context: CallContext) -> StateBinding:
    """What a state of such a call is for; `name` is the tool's offered name."""
    return StateBinding(names.TOOLS_CALL, name, arguments, tool.fingerprint, context.caller)


class Approvals:
    """Decides about calls, one at a time.

    Args:
        state: seals what goes out and opens what comes back.
    """

    def __init__(self, state: RequestStates) -> None:
        self._state = state

    def goes_on(self, context: CallContext) -> bool:
        """Whether a request claims to go on with a call that was let through; whoever runs it makes sure."""
        state = state_of(context)
        return state is not None and self._state.kind_of(state) not in (None, ASK)

    async def decide(  # noqa: PLR0917  what a gate knows of one call
        self,
        name: str,
        tool: Tool,
        decided: Approval,
        arguments: Mapping[str, Any],
        context: CallContext,
        now: float,
    ) -> Decision:
        """Whether this call may run now.

        Args:
            name: the tool's offered name.
            tool: the tool; its fingerprint says what exactly would run.
            decided: see `policy`.
            arguments: the arguments, checked and decoded.
            context: the call's context; its `arguments` are the same as JSON text.
            now: seconds of a clock that all runs of this server share (`time.time()`).
        """
        if decided == "deny":
            text = f"the user's settings do not allow {name}"
            return Refusal(Reason.APPROVAL_DENIED, text, delivered="no")
        if self.goes_on(context):
            return Admitted(context)
        if decided == "ask" and _repeats_a_member(context.arguments):
            return InvalidAnswer("the arguments name a member twice, so nobody could tell what would run")
        call = _Call(name, tool, arguments, context, now)
        state = state_of(context)
        if state is not None and self._state.kind_of(state) == ASK:
            return await self._answered(call, decided, state)
        if decided == "allow":
            return Admitted(context)
        if state is not None:
            return InvalidAnswer("requestState does not belong to this call")
        return await self._ask(call)

    async def _ask(self, call: _Call) -> Decision:
        if not input_requests.declares(call.context.capabilities, _FORMS):
            text = f"{call.name} needs a person's approval, and this client cannot ask for it"
            step = f"ask the user to run: lmtb tools allow {call.name}"
            return Refusal(Reason.APPROVAL_REQUIRED, text, step, delivered="no")
        sealed = await asyncio.to_thread(self._state.seal, ASK, call.bound, call.now)
        message = approval_message(call.name, call.tool, call.arguments)
        params = {"mode": "form", "message": message, "requestedSchema": _SCHEMA}
        asked = {ANSWER: {"method": names.ELICIT, "params": params}}
        return ApprovalRequest(
            {"resultType": "input_required", "inputRequests": asked, "requestState": sealed}
        )

    async def _answered(self, call: _Call, decided: Approval, state: str) -> Decision:
        opened = await asyncio.to_thread(self._state.open, state, call.bound, call.now)
        if opened is None:
            return InvalidAnswer("requestState is not of this call, or has expired; call again without it")
        answer = _answer_of(call.context)
        if answer is None:
            return Admitted(without_answers(call.context)) if decided == "allow" else await self._ask(call)
        if not await asyncio.to_thread(self._state.spend, opened, call.now):
            return InvalidAnswer("requestState was used before; call again without it")
        if not _is_yes(answer):
            return Refusal(Reason.APPROVAL_DENIED, f"User denied execution of {call.name}", delivered="no")
        return Admitted(without_answers(call.context))


def approval_message(name: str, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What a person reads: the tool and everything it is called with, nothing invisible left invisible."""
    hidden = _hidden_members(tool)
    lines = [f"Run {name}?"]
    for key, value in arguments.items():
        lines.append(f"{_one_line(key)}: {'[hidden]' if key in hidden else _shown(value)}")
    text = "\n".join(lines)
    if len(text) <= MAX_SHOWN:
        return text
    return f"{text[:MAX_SHOWN]}\n… {len(text) - MAX_SHOWN} more characters are NOT shown; decline if in doubt"


def _one_line(text: str) -> str:
    """A name cannot begin a line of its own, which would look like another argument."""
    return json.dumps(text) if "\n" in text or "\t" in text else _visible(text)


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return _visible(msgspec.json.encode(value).decode())
    text = _visible(value)
    return "\n" + "\n".join(f"    {line}" for line in text.split("\n")) if "\n" in text else text


def _visible(text: str) -> str:
    """What hides characters from a reader, or reorders them, is shown as escapes."""
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
    """The tool gets these bytes; of a repeated member it may see another value than the person did."""
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len({key for key, _ in pairs}) != len(pairs)

    try:
        json.loads(jsonrpc.bytes_of(text), object_pairs_hook=look)
    except (ValueError, RecursionError):
        return True
    return repeated
