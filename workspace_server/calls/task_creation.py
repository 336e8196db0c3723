"""Decides which calls may become tasks, and what the result of such a task contains (SEP-2663).

Stands between suspended calls (`suspension/`), which come first, and the tasks themselves (`tasks/`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol import jsonrpc
from protocol.extensions import tasks
from protocol.inbound import Rejection
from workspace_server.call_context import CallContext
from workspace_server.calls.answers import outcomes, result_channels
from workspace_server.calls.answers.outcomes import ReportIssue
from workspace_server.calls.call import Call
from workspace_server.calls.suspension.suspended_calls import URL_REQUIRED
from workspace_server.calls.ways import Continuation
from workspace_server.catalog.registry import OfferedTool
from workspace_server.tasks.record import Ending
from workspace_server.tasks.running_task import Work
from workspace_server.tasks.tasks import Job, Tasks
from workspace_server.tool import CallOutcome


def missing_capability(call: Call, offered: OfferedTool) -> Rejection | None:
    """The error for a client without tasks, if the tool runs only as a task; None if the call may run.

    Calls that cannot become tasks (`ways.py`) wait for the result instead.
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

    async def __call__(self, context: CallContext) -> CallOutcome:
        """The outcome, or a result that names the task. A task that the source itself made is remembered."""
        if not _supports_tasks(context):
            return await self.work(replace(context, capabilities=tasks.without_tasks(context.capabilities)))
        if self.offered.tool.task != "forbidden":
            job = Job(self.offered.name, self.call.time_limit_s(self.offered), self._ending)
            return await self.tasks.run(job, context, self.work)
        outcome = await self.work(context)
        if isinstance(outcome, msgspec.Raw):
            self.tasks.source_tasks.remember_from(outcome, self.offered.source.id)
        return outcome

    def _ending(self, outcome: CallOutcome) -> Ending:
        """What the task keeps: the answer that its caller would have received."""
        complete = outcomes.answer(self.call.request.id, self.offered, outcome, self.report)
        answer = result_channels.for_model(complete, self.offered, self.call.model_sees)
        if isinstance(answer, Rejection):
            # MCP 2026-07-28 has no such code, and only its clients have these tasks
            code = jsonrpc.INTERNAL_ERROR if answer.code == URL_REQUIRED else answer.code
            error: dict[str, Any] = {"code": code, "message": answer.message}
            data = {} if answer.data is None else {"data": answer.data}
            return Ending("error", jsonrpc.dumps({**error, **data}), answer.message)
        if isinstance(answer, msgspec.Raw):
            return Ending("passed", jsonrpc.bytes_of(answer))
        return Ending("result", jsonrpc.dumps(answer))


def _supports_tasks(context: CallContext) -> bool:
    """Clients with sessions have tasks of another kind, if any; only they have a `caller`."""
    return not context.caller and tasks.is_declared(context.capabilities)
