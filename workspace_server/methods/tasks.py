"""Answers `tasks/get`, `tasks/update` and `tasks/cancel`, and sends task notifications (SEP-2663).

A client that knows a task's id may use it. Requests about ids that are not ours are forwarded unchanged to
sources that make tasks themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.protocol.inbound import Rejection
from lm_tools_bridge.protocol.names import Era
from workspace_server.calls import mcp_requests
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tasks.archive import TaskSnapshot
from workspace_server.tasks.tasks import Tasks
from workspace_server.tool import CallOutcome, RpcError

MAX_ASKED: Final = 8
"""How many sources are asked about an unknown task id."""
MAX_SUBSCRIBED: Final = 256
"""Tasks that one listen stream can subscribe to; further ids are ignored."""
FILTER: Final = "taskIds"
"""The member of a listen request's filter that contains task ids."""

Finish = Callable[[Mapping[str, Any]], Mapping[str, Any] | msgspec.Raw]
"""Adds the members that every result of ours has."""


def declared(request: McpRequest) -> bool:
    """Whether the client declared the extension for this request."""
    capabilities = msgspec.json.decode(request.inbound.meta[names.META_CAPABILITIES])
    return tasks.is_declared(capabilities)


def detailed(snapshot: TaskSnapshot, finish: Finish) -> dict[str, Any]:
    """All members of a task, with the result that a waiting caller would have received."""
    members_shown = dict(snapshot.members)
    if snapshot.requests:
        members_shown["inputRequests"] = snapshot.requests
    if snapshot.holds == "result":
        members = jsonrpc.members_of(snapshot.body)
        meta = jsonrpc.members_of(members.get("_meta", b"{}"))
        members_shown["result"] = finish({**members, "_meta": meta})
    elif snapshot.holds:
        members_shown["error" if snapshot.holds == "error" else "result"] = msgspec.Raw(snapshot.body)
    return members_shown


class TaskSubscription:
    """The tasks that one listen stream is subscribed to.

    Attributes:
        ids: the ids of the tasks.
        end: ends the subscription.
    """

    def __init__(self, store: Tasks, ids: Sequence[str], finish: Finish, wake: Callable[[], None]) -> None:
        self.ids = ids
        self.end = store.watch(self._task_changed)
        self._tasks = store
        self._finish = finish
        self._wake = wake
        self._changed: dict[str, None] = {}

    async def take(self) -> list[dict[str, Any]]:
        """The current state of every task that changed since the last call."""
        changed, self._changed = self._changed, {}
        snapshots = [await self._tasks.get(task) for task in changed]
        return [detailed(snapshot, self._finish) for snapshot in snapshots if snapshot is not None]

    def _task_changed(self, task: str) -> None:
        if task in self.ids:
            self._changed[task] = None
            self._wake()


class TaskMethods:
    """The three methods, as a table, and subscriptions to tasks.

    Args:
        calls: its tasks are the workspace's tasks.
        finish: see `Finish`.
    """

    def __init__(self, calls: Calls, finish: Finish) -> None:
        self._calls = calls
        self._tasks = calls.tasks
        self._finish = finish
        self.table: Mapping[str, Callable[[McpRequest], Awaitable[Outcome]]] = {
            tasks.GET: self._get,
            tasks.UPDATE: self._update,
            tasks.CANCEL: self._cancel,
        }

    async def subscribe(
        self, request: McpRequest, wake: Callable[[], None]
    ) -> TaskSubscription | Rejection | None:
        """Subscribe a listen request to the tasks that it names; None if it names none.

        Args:
            request: the listen request.
            wake: called when `take` has something new.
        """
        task_ids = jsonrpc.members_of(request.inbound.params.get("notifications", b"{}")).get(FILTER)
        if task_ids is None:
            return None
        if not declared(request):
            return tasks.missing_capability(request.id, FILTER)
        try:
            ids = msgspec.json.decode(task_ids, type=list[str])[:MAX_SUBSCRIBED]
        except msgspec.DecodeError:
            return request.invalid(f"params.notifications.{FILTER} must be a list of strings")
        known_tasks = [task for task in dict.fromkeys(ids) if await self._tasks.get(task) is not None]
        return TaskSubscription(self._tasks, known_tasks, self._finish, wake)

    async def _get(self, request: McpRequest) -> Outcome:
        if not declared(request):
            return tasks.missing_capability(request.id, tasks.GET)
        snapshot = await self._tasks.get(request.inbound.name or "")
        return await self._forward(request) if snapshot is None else detailed(snapshot, self._finish)

    async def _update(self, request: McpRequest) -> Outcome:
        if not declared(request):
            return tasks.missing_capability(request.id, tasks.UPDATE)
        responses = request.inbound.params.get("inputResponses")
        if responses is None or jsonrpc.bytes_of(responses)[:1] != b"{":
            return request.invalid("params.inputResponses must be an object")
        is_known = await self._tasks.answer(request.inbound.name or "", jsonrpc.members_of(responses))
        return {} if is_known else await self._forward(request)

    async def _cancel(self, request: McpRequest) -> Outcome:
        if not declared(request):
            return tasks.missing_capability(request.id, tasks.CANCEL)
        is_known = await self._tasks.cancel(request.inbound.name or "")
        return {} if is_known else await self._forward(request)

    async def _forward(self, request: McpRequest) -> Outcome:
        """The answer of the task's source; after a restart, of any source that could have made the task."""
        task, source_tasks = request.inbound.name or "", self._tasks.source_tasks
        view = await self._calls.toolset.current()
        owner = source_tasks.owner(task)
        failures: list[CallOutcome] = []
        for source in await _candidates(view, owner):
            outcome = await mcp_requests.forward(self._calls, request, view, source, request.inbound.params)
            if isinstance(outcome, msgspec.Raw):
                source_tasks.remember(task, source.id)
                return mcp_requests.answer(request, outcome)
            is_unknown = isinstance(outcome, RpcError) and outcome.code == jsonrpc.INVALID_PARAMS
            if not is_unknown or owner is not None:
                failures.append(outcome)
        return mcp_requests.answer(request, failures[0]) if failures else tasks.unknown_task(request.id, task)


async def _candidates(view: View, owner: str | None) -> list[Source]:
    """The owner; without one, every running source that makes tasks."""
    sources = view.snapshot.sources
    if owner is not None:
        return [source for source in sources if source.id == owner]
    ready = [source for source in sources if source.state == "ready"]
    return [source for source in ready if await _makes_tasks(source)][:MAX_ASKED]


async def _makes_tasks(source: Source) -> bool:
    handshake_result = await source.handshake_result()
    return (
        handshake_result is not None
        and handshake_result.era is Era.MODERN
        and tasks.is_declared(handshake_result.capabilities)
    )
