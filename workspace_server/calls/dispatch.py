"""Runs `tools/call`, whichever way a call comes in: view, gates, arguments, source, outcome.

The ways, and which steps differ between them, are in `call.py`. A tool that fails gives a result that a model
can read. Results of other servers are passed on as they are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server import log
from workspace_server.call_context import CallContext
from workspace_server.calls import approvals, outcomes, task_creation, unknown_tool
from workspace_server.calls.app_calls import OpenedApps
from workspace_server.calls.approvals import Admitted, ApprovalRequest, InvalidAnswer
from workspace_server.calls.call import (
    RULES,
    Call,
    CheckedCall,
    Continuation,
    Way,
    call_of,
    check_arguments,
    fit_arguments,
    meant_name,
)
from workspace_server.calls.gate import Gate
from workspace_server.calls.pending_approvals import PendingApprovals
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.calls.request_state import RequestStates
from workspace_server.calls.running_calls import CallRecord, run_limited, step_for
from workspace_server.calls.suspended_calls import SuspendedCalls
from workspace_server.calls.task_creation import TaskCreation
from workspace_server.calls.toolbox import NestedToolbox, find_remote_hits, run_nested
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import View
from workspace_server.results import encode_result, error_result, refusal_result
from workspace_server.tasks.tasks import Tasks
from workspace_server.tool import CallOutcome, InvalidArguments, ToolError, ToolResult
from workspace_server.tool_search import definitions, search_tool
from workspace_server.tool_search.definitions import EXECUTE, META_NAMES, SEARCH_NAMES
from workspace_server.tool_search.search_tool import Found, Searchable, SearchTool

MAX_DEPTH: Final = 4
"""How many tools may call each other in one call."""


class Calls:
    """Runs tool calls.

    Args:
        toolset: the tools.
        gate: decides which calls may run: approvals and rate limits.
        suspended_calls: the calls that wait for input from their clients; by default a restart forgets them.
        tasks: the calls that go on as tasks; by default there are none.
        pending_approvals: the calls that wait for a person, as the gate has them.

    Attributes:
        record: the calls that run, and the last ones.
        opened_apps: which servers' apps sessions have opened.
    """

    def __init__(
        self,
        toolset: Toolset,
        gate: Gate | None = None,
        suspended_calls: SuspendedCalls | None = None,
        tasks: Tasks | None = None,
        pending_approvals: PendingApprovals | None = None,
    ) -> None:
        self.toolset = toolset
        self.pending_approvals = pending_approvals or PendingApprovals()
        self.tasks = tasks or Tasks()
        self.suspended_calls = suspended_calls or SuspendedCalls(RequestStates("w"))
        self.record = CallRecord(time.monotonic)
        self.opened_apps = OpenedApps()
        self._gate = gate or Gate()
        self._search = SearchTool()

    async def close(self) -> None:
        """End tasks, suspended calls and searches. Idempotent."""
        await self.tasks.close()
        await self.suspended_calls.close()
        await self._search.close()

    async def call(self, request: McpRequest) -> Outcome:
        """Answer one `tools/call`."""
        call = call_of(request, request.view or await self._view_for(request.inbound.name or ""))
        return call if isinstance(call, Rejection) else await self.run(call)

    async def _view_for(self, name: str) -> View:
        """The view for a call that has just arrived.

        A call of a built-in tool does not wait for sources that list their tools for the first time, such as
        for the login shell that language servers may need: no other tool takes its name.
        """
        last = self.toolset.last
        if not last.snapshot.sources:
            last = await self.toolset.current(first_wait_s=0.0)
        # a server that hangs is awaited by each call, so only one view is made here
        if (offered := last.get(name)) is not None and offered.source.kind == "builtin":
            return await self.toolset.current(first_wait_s=0.0)
        return await self.toolset.current()

    def quickest_way(self, request: McpRequest, view: View) -> Way:
        """The way with the least work for a client's call under this view.

        A call that brings answers or a state, or whose gate depends on more than the tool, has to be awaited.
        """
        name, params = request.inbound.name or "", request.inbound.params
        offered = None if name in META_NAMES else view.get(name)
        if offered is None or offered.tool.name not in offered.source.nowait_tools:
            return Way.AWAITED
        if "requestState" in params or "inputResponses" in params:
            return Way.AWAITED
        if not self._gate.is_open(offered, view.configuration):
            return Way.AWAITED
        # neither mirrored headers nor a line in the log can be had without reading the call
        is_plain = not offered.mirrored and view.configuration.debug == "off"
        return Way.REPEATED if is_plain else Way.IMMEDIATE

    def call_nowait(self, request: McpRequest, view: View) -> Outcome | None:
        """Answer a `tools/call` without a task; None if it has to be awaited."""
        if RULES[self.quickest_way(request, view)].needs_task:
            return None
        call = call_of(request, view, Way.IMMEDIATE)
        if isinstance(call, Rejection):
            return call
        checked = check_arguments(call, view.by_name[call.name])
        if not isinstance(checked, CheckedCall):
            return checked
        started = time.monotonic()
        outcome = _run_nowait(checked.offered, checked.arguments)
        outcomes.trace(checked.call, checked.offered, outcome, time.monotonic() - started)
        return outcomes.answer(request.id, checked.offered, outcome, self.toolset.note)

    def call_repeated(self, offered: OfferedTool, identity: bytes, text: bytes) -> Outcome | None:
        """Answer a call that differs only in id and arguments from one whose `quickest_way` is `REPEATED`.

        Args:
            offered: the tool.
            identity: the call's id as JSON text.
            text: the arguments, an object, as JSON text.

        Returns:
            None if the arguments are invalid; the call then has to be read, for an exact error.
        """
        fitting = fit_arguments(offered, text)
        if fitting is None:
            return None
        return outcomes.answer(identity, offered, _run_nowait(offered, fitting), self.toolset.note)

    async def run(self, call: Call) -> Outcome:
        """Answer a call of a tool or of one of the two meta-tools."""
        if call.name in SEARCH_NAMES:
            return await self._search_tools(call)
        if call.name == EXECUTE:
            return await self._execute_tool(call)
        meant = self.opened_apps.find_call(call)
        if isinstance(meant, Rejection):
            return meant
        call = meant
        if call.find_tool() is None:
            call = await unknown_tool.with_listed_source(call, self.toolset)
        offered = call.find_tool()
        return unknown_tool.answer(call) if offered is None else await self.run_tool(call, offered)

    async def run_tool(self, call: Call, offered: OfferedTool) -> Outcome:
        """Answer a call of this tool: check its arguments, ask the gates, run it."""
        checked = check_arguments(call, offered)
        if not isinstance(checked, CheckedCall):
            return checked
        needs_task = offered.tool.task == "required"
        if needs_task and (missing := task_creation.missing_capability(call, offered)) is not None:
            return missing
        context, began = checked.call.context(), time.monotonic()
        decision = await self._gate.admit(offered, checked.arguments, context, call.view.configuration)
        if call.depth == 0 and (isinstance(decision, Refusal) or getattr(decision, "waited", False)):
            call.request.clock.waited(offered.source.id, time.monotonic() - began)
        match decision:
            case Refusal() as refusal:
                return encode_result(refusal_result(offered.named_tool(), refusal))
            case InvalidAnswer() as invalid:
                return call.request.invalid(invalid.message)
            case ApprovalRequest() as approval:
                return approval.result
            case Admitted() as admitted:
                if admitted.waited and (late := await self._refused_meanwhile(checked)) is not None:
                    return late
                began = time.monotonic()
                outcome = await self._run_admitted(checked, admitted.context)
                if call.depth == 0:
                    clock = call.request.clock
                    clock.add(offered.source.id, time.monotonic() - began)
                    if isinstance(outcome, msgspec.Raw):
                        clock.is_task = task_creation.is_task(outcome, admitted.context)
                answer = outcomes.answer(call.request.id, offered, outcome, self.toolset.note)
                return outcomes.with_note(outcomes.for_model(answer, offered, call.model_sees), call.note)

    async def _refused_meanwhile(self, checked: CheckedCall) -> Outcome | None:
        """The answer to a call that may not run any more: a person took time to approve it."""
        call = checked.call.under(await self.toolset.current())
        if (offered := call.find_tool()) is None:
            return unknown_tool.answer(call)
        refusal = self._gate.recheck(checked.offered.tool, offered, call.view.configuration)
        return None if refusal is None else encode_result(refusal_result(offered.named_tool(), refusal))

    async def _run_admitted(self, checked: CheckedCall, context: CallContext) -> CallOutcome:
        if checked.offered.source.is_self_contained and checked.offered.tool.task == "forbidden":
            return await self._run_traced(checked, context)
        work = partial(self._run_traced, checked)
        if Continuation.SUSPENDED not in checked.call.rules.may_become:
            return await run_nested(context, work)
        call, offered = checked.call, checked.offered
        binding = approvals.binding(offered.name, offered.tool, checked.arguments, context)
        creation = TaskCreation(self.tasks, call, offered, self.toolset.note, work)
        return await self.suspended_calls.run(binding, context, creation)

    async def _run_traced(self, checked: CheckedCall, context: CallContext) -> CallOutcome:
        started = time.monotonic()
        run = partial(self._run_source, checked, context)
        offered = checked.offered
        outcome = await self.record.recorded(offered.name, context.client, run, source=offered.source.id)
        outcomes.trace(checked.call, checked.offered, outcome, time.monotonic() - started)
        return outcome

    async def _run_source(self, checked: CheckedCall, context: CallContext) -> CallOutcome:
        call, offered = checked.call, checked.offered
        seconds = call.time_limit_s(offered)

        async def work(timed: CallContext) -> CallOutcome:
            if call.depth < MAX_DEPTH and not offered.source.is_self_contained:
                timed = replace(timed, toolbox=NestedToolbox(call, timed, self.run))
            return await offered.source.call_tool(offered.tool.name, checked.arguments, timed)

        def explain_timeout() -> tuple[str, str]:
            text = f"{offered.name} did not finish within {seconds:g} s; it was asked to stop"
            return text, step_for(call.limit_setting(offered))

        try:
            return await run_limited(seconds, context, work, explain_timeout)
        except Exception as fault:  # noqa: BLE001  whatever a tool does, its caller gets an answer
            return _failure_result(offered, fault)

    async def _search_tools(self, call: Call) -> Outcome:
        arguments = msgspec.json.decode(call.arguments)
        call = await unknown_tool.with_all_sources(call, self.toolset, unknown_tool.SEARCH_WAIT_S)
        matches = await self._found_tools(call.view.for_models(), arguments)
        if not matches.hits and call.view.is_listing:
            call = await unknown_tool.with_all_sources(call, self.toolset, unknown_tool.EMPTY_SEARCH_WAIT_S)
            matches = await self._found_tools(call.view.for_models(), arguments)
        starting = [source.id.partition(":")[2] or source.id for source in call.view.starting]
        if (client_names := call.view.names_for(call.request.name_rules)) is not None:
            matches = matches.renamed(client_names.shown_name)
        answer = encode_result(search_tool.answer(matches, starting))
        return outcomes.without_repetition(answer, call.model_sees)

    async def _found_tools(self, view: View, arguments: Mapping[str, Any]) -> Found:
        remote_hits = await find_remote_hits(view, arguments)
        searchable = (
            Searchable(offered.name, offered.definition, (*offered.tool.keywords, *offered.source.keywords))
            for offered in view.tools
        )
        return await self._search.search(searchable, view, arguments, remote_hits)

    async def _execute_tool(self, call: Call) -> Outcome:
        inner = definitions.unwrap(call.arguments)
        if not isinstance(inner, definitions.Unwrapped):
            return encode_result(definitions.problem_result(inner, call.search_name))
        name = meant_name(call.request, call.view, inner.name)
        if isinstance(name, Rejection):
            return name
        wrapped = call.wrapped(name, inner.arguments)
        if name not in SEARCH_NAMES and wrapped.find_tool() is None:
            wrapped = await unknown_tool.with_listed_source(wrapped, self.toolset)
        if name in SEARCH_NAMES or wrapped.find_tool() is not None:
            return await self.run(wrapped)
        view = wrapped.view
        if unknown_tool.may_exist(view, name):
            return unknown_tool.answer(wrapped)
        return encode_result(definitions.not_found(name, view.nearest(name), call.search_name))


def _run_nowait(offered: OfferedTool, arguments: Mapping[str, Any]) -> CallOutcome:
    try:
        return offered.source.call_nowait(offered.tool.name, arguments)
    except Exception as fault:  # noqa: BLE001  as in `Calls._run_source`
        return _failure_result(offered, fault)


def _failure_result(offered: OfferedTool, fault: Exception) -> ToolResult:
    """The result that tells a caller why the tool failed."""
    tool = offered.named_tool()
    if isinstance(fault, ToolError):
        return error_result(tool, fault)
    if isinstance(fault, InvalidArguments):
        from workspace_server.schemas import validation

        problem = validation.ArgumentProblem(fault.pointer, "value", fault.message)
        return validation.invalid_arguments_result(tool, [problem])
    log.fault("tool_failed", fault, tool=offered.name, source=offered.source.id)
    return error_result(tool, ToolError(f"{offered.name} failed unexpectedly"))
