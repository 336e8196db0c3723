"""Calls that may go on without their client: which ones, and what their task holds in the end (SEP-2663).

Between the rounds of a call (`suspended_calls.py`), which come before a task, and the tasks themselves
(`tasks/`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol import jsonrpc, tasks
from protocol.inbound import Rejection
from workspace_server.call_context import CallContext
from workspace_server.calls import outcomes
from workspace_server.calls.call import Call
from workspace_server.calls.outcomes import Note
from workspace_server.calls.request import INTERNAL_CLIENT
from workspace_server.calls.suspended_calls import URL_REQUIRED
from workspace_server.catalog.registry import OfferedTool
from workspace_server.tasks.record import Ending
from workspace_server.tasks.running_task import Work
from workspace_server.tasks.tasks import Job, Tasks
from workspace_server.tool import CallOutcome


def missing(call: Call, offered: OfferedTool) -> Rejection | None:
    """The answer to a client without tasks, for a tool that has no other way; None where all is well.

    Programs of our own wait as long as it takes.
    """
    if offered.tool.task != "required" or call.within is not None:
        return None
    context = call.context()
    if context.client == INTERNAL_CLIENT or _knows_tasks(context):
        return None
    return tasks.missing_capability(call.asked.request.id, offered.name)


@dataclass(frozen=True, slots=True)
class TaskCreation:
    """The work of one call that may become a task. `note` hears of a third party that breaks its promise."""

    tasks: Tasks
    call: Call
    offered: OfferedTool
    note: Note
    work: Work

    async def __call__(self, context: CallContext) -> CallOutcome:
        """The outcome, or which task the call has become. A task of the source's own is remembered."""
        if not _knows_tasks(context):
            return await self.work(replace(context, capabilities=tasks.without_tasks(context.capabilities)))
        if self.offered.tool.task != "forbidden":
            job = Job(self.offered.name, self.call.longest_s(self.offered), self._ending)
            return await self.tasks.run(job, context, self.work)
        outcome = await self.work(context)
        if isinstance(outcome, msgspec.Raw):
            self.tasks.foreign.note(outcome, self.offered.source.id)
        return outcome

    def _ending(self, outcome: CallOutcome) -> Ending:
        """What the task holds: what the caller would have got."""
        answer = outcomes.answer(self.call.asked.request.id, self.offered, outcome, self.note)
        if isinstance(answer, Rejection):
            # that code must not be sent to clients of this era, the only ones with tasks
            code = jsonrpc.INTERNAL_ERROR if answer.code == URL_REQUIRED else answer.code
            error: dict[str, Any] = {"code": code, "message": answer.message}
            data = {} if answer.data is None else {"data": answer.data}
            return Ending("error", jsonrpc.dumps({**error, **data}), answer.message)
        if isinstance(answer, msgspec.Raw):
            return Ending("passed", jsonrpc.bytes_of(answer))
        return Ending("result", jsonrpc.dumps(answer))


def _knows_tasks(context: CallContext) -> bool:
    """Sessions of older eras have tasks of another kind, if any; only they have a caller."""
    return not context.caller and tasks.is_declared(context.capabilities)
