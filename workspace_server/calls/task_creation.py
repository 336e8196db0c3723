"""Decides which calls may become tasks, what their results contain, and reports their ends (SEP-2663).

Stands between suspended calls (`suspended_calls.py`), which come first, and the tasks themselves (`tasks/`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import jsonrpc, names, trace_context
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.inbound import Rejection
from lm_tools_bridge.protocol.internal.call_reports import MAX_NAME, MAX_SOURCE, EndedTask
from workspace_server.call_context import CallContext
from workspace_server.calls import outcomes
from workspace_server.calls.call import Call, Continuation
from workspace_server.calls.outcomes import ReportIssue, outcome_word
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.calls.suspended_calls import URL_REQUIRED
from workspace_server.catalog.registry import OfferedTool
from workspace_server.tasks.running_task import Work
from workspace_server.tasks.store import Ending
from workspace_server.tasks.tasks import Job, Tasks
from workspace_server.tool import CallOutcome


def is_task(outcome: CallOutcome, context: CallContext) -> bool:
    """Whether the outcome of a call with this context names the task as which the call goes on."""
    if not isinstance(outcome, msgspec.Raw) or not _supports_tasks(context):
        return False
    return jsonrpc.text_of(jsonrpc.members_of(outcome).get("resultType", b"")) == tasks.RESULT_TYPE


def missing_capability(call: Call, offered: OfferedTool) -> Rejection | None:
    """The error for a client without tasks, if the tool runs only as a task; None if the call may run.

    Calls that cannot become tasks (`call.py`) wait for the result instead.
    """
    if offered.tool.task != "required" or Continuation.TASK not in call.rules.may_become:
        return None
    if _supports_tasks(call.context()):
        return None
    return tasks.missing_capability(call.request.id, offered.name)


@dataclass(frozen=True, slots=True)
class TaskCreation:
    """The work of one call that may become a task. `report` takes issues as in `outcomes.answer`."""

    tasks: Tasks
    call: Call
    offered: OfferedTool
    report: ReportIssue
    work: Work
    began: float = field(default_factory=time.monotonic)

    async def __call__(self, context: CallContext) -> CallOutcome:
        """The outcome, or a result that names the task. A task that the source itself made is remembered."""
        if not _supports_tasks(context):
            return await self.work(replace(context, capabilities=tasks.without_tasks(context.capabilities)))
        if self.offered.tool.task != "forbidden":
            job = Job(self.offered.name, self.call.time_limit_s(self.offered), self._ending, self._report)
            return await self.tasks.run(job, context, self.work)
        outcome = await self.work(context)
        if isinstance(outcome, msgspec.Raw):
            self.tasks.source_tasks.remember_from(outcome, self.offered.source.id)
        return outcome

    def _ending(self, outcome: CallOutcome) -> Ending:
        """What the task keeps: the answer that its caller would have received."""
        complete = outcomes.answer(self.call.request.id, self.offered, outcome, self.report)
        answer = outcomes.for_model(complete, self.offered, self.call.model_sees)
        word = outcome_word(outcome)
        if word == "ok" and _is_error(answer):
            word = "error"  # the result does not fit the tool's schema
        if isinstance(answer, Rejection):
            # MCP 2026-07-28 has no such code, and only its clients have these tasks
            code = jsonrpc.INTERNAL_ERROR if answer.code == URL_REQUIRED else answer.code
            error: dict[str, Any] = {"code": code, "message": answer.message}
            data = {} if answer.data is None else {"data": answer.data}
            return Ending("error", jsonrpc.dumps({**error, **data}), answer.message, word)
        if isinstance(answer, msgspec.Raw):
            return Ending("passed", jsonrpc.bytes_of(answer), None, word)
        return Ending("result", jsonrpc.dumps(answer), None, word)

    def _report(self, ending: Ending | None) -> None:
        """Have the manager record the end; None means cancelled."""
        request, now = self.call.request, time.monotonic()
        inbound = request.inbound
        client = jsonrpc.members_of(inbound.meta.get(names.META_CLIENT, b"{}"))
        self.tasks.ended.add(
            EndedTask(
                tool=(inbound.name or "")[:MAX_NAME],
                source=self.offered.source.id[:MAX_SOURCE],
                client=_text(client, "name"),
                client_version=_text(client, "version"),
                revision=(inbound.revision or "")[:MAX_NAME],
                trace=_client_trace(request)[:MAX_NAME],
                begun=request.arrived,
                ended=now,
                source_s=now - self.began,
                approval_s=request.clock.approval_s,
                sent=len(inbound.params.get("arguments", b"")),
                received=None if ending is None else len(ending.body),
                outcome="cancelled" if ending is None else ending.outcome,
                code=None if ending is None else ending.code,
            )
        )


def _supports_tasks(context: CallContext) -> bool:
    """Clients with sessions have tasks of another kind, if any; only they have a `caller`."""
    return not context.caller and tasks.is_declared(context.capabilities)


def _is_error(answer: Outcome) -> bool:
    return isinstance(answer, Mapping) and answer.get("isError") is True


def _text(members: Mapping[str, msgspec.Raw], key: str) -> str:
    return (jsonrpc.text_of(members.get(key, b"")) or "")[:MAX_NAME]


def _client_trace(request: McpRequest) -> str:
    """The `traceparent` that the client sent; empty if there is none, or the manager made it."""
    if request.trace:
        return ""
    own = request.inbound.meta.get(trace_context.NAME)
    return request.header.get(trace_context.NAME, "") if own is None else jsonrpc.text_of(own) or ""
