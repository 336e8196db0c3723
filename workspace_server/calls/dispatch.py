"""`tools/call`: from a name and arguments to a result, whatever the tool does.

What may be called is decided here, for every way in: directly, through `execute_tool`, from a script. The
arguments are checked before the tool sees them; a tool that fails answers with a result a model can read. A
third party's result is not looked into.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from protocol import headers, jsonrpc
from protocol.errors import Reason, Refusal
from protocol.inbound import HEADER_MISMATCH, Rejection
from workspace_server import log
from workspace_server.call_context import NO_ARGUMENTS, CallContext
from workspace_server.calls import nested_call, nested_search, outcomes, task_creation, unknown_tool
from workspace_server.calls.call import Call
from workspace_server.calls.deadline import Deadline
from workspace_server.calls.gates import approvals
from workspace_server.calls.gates.approvals import Admitted, ApprovalRequest, InvalidAnswer
from workspace_server.calls.gates.gate import Gate, OpenGate
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.calls.request_state import RequestStates
from workspace_server.calls.suspended_calls import SuspendedCalls
from workspace_server.calls.toolbox import NestedToolbox
from workspace_server.catalog import schema_defaults
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import View
from workspace_server.results import encode_result, error_result, refusal_result
from workspace_server.schemas import mirrored_headers
from workspace_server.tasks.tasks import Tasks
from workspace_server.tool import CallOutcome, InvalidArguments, ToolError, ToolResult
from workspace_server.tool_search import execute_tool
from workspace_server.tool_search.definitions import TOOL_SEARCH
from workspace_server.tool_search.search_tool import Searchable, SearchTool

MAX_DEPTH: Final = 4
"""How deep tools may call tools."""
OWN_TIME: Final = "ask for less in one call, or raise timeout_s where the tool or its server is configured"
SEARCH: Final[str] = TOOL_SEARCH["name"]
_OURS: Final = frozenset({SEARCH, execute_tool.NAME})


class _Checked(msgspec.Struct, frozen=True):
    """A call whose arguments fit, and what it is of."""

    call: Call
    offered: OfferedTool
    arguments: Mapping[str, Any]


class Calls:
    """Runs calls.

    Args:
        toolset: the tools.
        gate: who is let through to a tool: approvals and rate limits.
        conversations: the calls that may ask their callers something; by default some that outlive no run.
        tasks: the calls that go on without their callers; by default there are none.
    """

    def __init__(
        self,
        toolset: Toolset,
        gate: Gate | None = None,
        conversations: SuspendedCalls | None = None,
        tasks: Tasks | None = None,
    ) -> None:
        self.toolset = toolset
        self.tasks = tasks or Tasks()
        self.conversations = conversations or SuspendedCalls(RequestStates("w"))
        self._gate = gate or OpenGate()
        self._search = SearchTool()

    async def close(self) -> None:
        """End what calls share. Idempotent."""
        await self.tasks.close()
        await self.conversations.close()
        await self._search.close()

    async def call(self, asked: McpRequest) -> Outcome:
        """The answer to one `tools/call`."""
        # where a view was looked for, there was none without asking somebody: not worth a second look
        call = _call(asked, asked.view or await self.toolset.current())
        return call if isinstance(call, Rejection) else await self.run(call)

    def call_now(self, asked: McpRequest, view: View) -> Outcome | None:
        """The answer to a `tools/call` that waits for nothing; None where it has to be awaited.

        It passes view, gate and checks like any other.
        """
        offered = self._immediate(asked, view)
        if offered is None:
            return None
        call = _call(asked, view)
        if isinstance(call, Rejection):
            return call
        checked = _check(call, offered)
        if not isinstance(checked, _Checked):
            return checked
        started = time.monotonic()
        outcome = _at_once(offered, checked.arguments)
        outcomes.trace(checked.call, offered, outcome, time.monotonic() - started)
        return outcomes.answer(asked.request.id, offered, outcome, self.toolset.note)

    def _immediate(self, asked: McpRequest, view: View) -> OfferedTool | None:
        """The tool of a call under this view that waits for nothing, not even for being let through."""
        offered = view.get(asked.inbound.name or "")
        if offered is None or not _is_immediate(asked, view):
            return None
        return offered if self._gate.is_open(offered, view.configuration) else None

    def repeatable(self, asked: McpRequest, view: View) -> OfferedTool | None:
        """The tool of a call if `call_again` answers all under this view that differ in id and arguments."""
        offered = self._immediate(asked, view)
        if offered is None or offered.mirrored or view.configuration.debug != "off":
            return None
        return offered

    def call_again(self, offered: OfferedTool, identity: bytes, text: bytes) -> Outcome | None:
        """What `call_now` answers to a call like one that is `repeatable` under the view of now.

        Args:
            offered: its tool.
            identity: its id as JSON text.
            text: its arguments, an object, as JSON text.

        Returns:
            None where something is wrong with the arguments, which has to be said with care.
        """
        arguments = schema_defaults.fill(offered, msgspec.json.decode(text))
        if offered.arguments.check(arguments):
            return None
        return outcomes.answer(identity, offered, _at_once(offered, arguments), self.toolset.note)

    async def run(self, call: Call) -> Outcome:
        """The answer to one call, however it was asked for."""
        if call.name == SEARCH:
            return await self._find(call)
        if call.name == execute_tool.NAME:
            return await self._execute(call)
        offered = call.offered()
        if offered is None:
            return unknown_tool.answer(call)
        checked = _check(call, offered)
        if not isinstance(checked, _Checked):
            return checked
        return await self._admitted(checked.call, offered, checked.arguments)

    async def pass_on(self, call: Call, offered: OfferedTool) -> Outcome:
        """The answer to a call whose arguments are left to the server: neither checked nor filled in."""
        arguments = msgspec.json.decode(call.arguments)
        return _contradiction(call, offered, arguments) or await self._admitted(call, offered, arguments)

    async def _admitted(self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Outcome:
        if (missing := task_creation.missing(call, offered)) is not None:
            return missing
        context = call.context()
        match await self._gate.admit(offered, arguments, context, call.view.configuration):
            case Refusal() as refusal:
                return encode_result(refusal_result(offered.named_tool(), refusal))
            case InvalidAnswer() as bad:
                return call.asked.invalid(bad.message)
            case ApprovalRequest() as question:
                return question.result
            case Admitted() as admitted:
                context = admitted.context
        work = partial(self._run, call, offered, arguments)
        if call.within is not None:
            outcome = await nested_call.run(context, work)
        else:
            bound = approvals.bound(offered.name, offered.tool, arguments, context)
            later = task_creation.TaskCreation(self.tasks, call, offered, self.toolset.note, work)
            outcome = await self.conversations.run(bound, context, later)
        return outcomes.answer(call.asked.request.id, offered, outcome, self.toolset.note)

    async def _run(
        self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any], context: CallContext
    ) -> CallOutcome:
        started = time.monotonic()
        outcome = await self._bounded(call, offered, arguments, context)
        outcomes.trace(call, offered, outcome, time.monotonic() - started)
        return outcome

    async def _bounded(
        self, call: Call, offered: OfferedTool, arguments: Mapping[str, Any], context: CallContext
    ) -> CallOutcome:
        seconds = call.longest_s(offered)
        try:
            async with Deadline(seconds, context) as (timed, limit):
                toolbox = None if call.depth >= MAX_DEPTH else NestedToolbox(call, timed, self.run)
                inside = replace(timed, toolbox=toolbox)
                return await offered.source.call_tool(offered.tool.name, arguments, inside)
        except Exception as fault:  # noqa: BLE001  whatever a tool does, its caller gets an answer
            if isinstance(fault, TimeoutError) and limit.expired():
                text = f"{offered.name} did not finish within {seconds:g} s and was stopped"
                step = OWN_TIME if offered.tool.timeout_s else None
                return Refusal(Reason.CALL_TIMED_OUT, text, step, delivered="unknown")
            return _failed(offered, fault)

    async def _find(self, call: Call) -> Outcome:
        view, arguments = call.view, msgspec.json.decode(call.arguments)
        foreign = await nested_search.hits(view, arguments)
        searchable = (
            Searchable(one.name, one.definition, (*one.tool.keywords, *one.source.keywords))
            for one in view.tools
        )
        return encode_result(await self._search.search(searchable, view, arguments, foreign))

    async def _execute(self, call: Call) -> Outcome:
        inner = execute_tool.unwrap(call.arguments)
        if isinstance(inner, execute_tool.Unwrapped):
            wrapped = call.of(inner.name, inner.arguments)
            if inner.name != SEARCH and wrapped.offered() is None:
                return self._cannot_execute(wrapped)
            return await self.run(wrapped)
        return encode_result(execute_tool.problem_result(inner))

    def _cannot_execute(self, call: Call) -> Outcome:
        view, name = call.view, call.name
        if view.waits_for(name) is not None or view.unlisted_source(name) is not None:
            return unknown_tool.answer(call)
        return encode_result(execute_tool.not_found(name, view.nearest(name)))


def _is_immediate(asked: McpRequest, view: View) -> bool:
    """Whether a call under this view is of a tool that only computes, and brings no answers."""
    name, params = asked.inbound.name or "", asked.inbound.params
    offered = None if name in _OURS else view.get(name)
    if offered is None or offered.tool.name not in offered.source.immediate:
        return False
    return "requestState" not in params and "inputResponses" not in params


def _call(asked: McpRequest, view: View) -> Call | Rejection:
    arguments = asked.inbound.params.get("arguments", NO_ARGUMENTS)
    if jsonrpc.bytes_of(arguments)[:1] != b"{":
        return asked.invalid("params.arguments must be an object")
    return Call(asked, view, asked.inbound.name or "", arguments)


def _check(call: Call, offered: OfferedTool) -> _Checked | Outcome:
    """The call with its defaults filled in, or what is wrong with its arguments."""
    arguments = msgspec.json.decode(call.arguments)
    if (contradiction := _contradiction(call, offered, arguments)) is not None:
        return contradiction
    filled = schema_defaults.fill(offered, arguments)
    if filled is not arguments:
        call = replace(call, arguments=jsonrpc.raw(filled))
    if problems := offered.arguments.check(filled):
        from workspace_server.schemas import validation  # noqa: PLC0415  loaded with the first call

        return encode_result(validation.invalid_arguments_result(offered.named_tool(), problems))
    return _Checked(call, offered, filled)


def _at_once(offered: OfferedTool, arguments: Mapping[str, Any]) -> CallOutcome:
    try:
        return offered.source.call_now(offered.tool.name, arguments)
    except Exception as fault:  # noqa: BLE001  as in `Calls._bounded`
        return _failed(offered, fault)


def _failed(offered: OfferedTool, fault: Exception) -> ToolResult:
    """What a caller reads whose tool could not do it."""
    tool = offered.named_tool()
    if isinstance(fault, ToolError):
        return error_result(tool, fault)
    if isinstance(fault, InvalidArguments):
        from workspace_server.schemas import validation  # noqa: PLC0415  as in `_check`

        problem = validation.ArgumentProblem(fault.pointer, "value", fault.message)
        return validation.invalid_arguments_result(tool, [problem])
    log.fault("tool_failed", fault, tool=offered.name, source=offered.source.id)
    return error_result(tool, ToolError(f"{offered.name} failed unexpectedly"))


def _contradiction(call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Rejection | None:
    """The answer to a call whose headers say something else than its arguments."""
    if not offered.mirrored or not call.is_direct or headers.UNMIRRORED in call.asked.header:
        return None
    problem = mirrored_headers.mismatch(call.asked.header, offered.mirrored, arguments)
    return None if problem is None else Rejection(400, HEADER_MISMATCH, problem, call.asked.request.id)
