"""`tasks/get`, `tasks/update`, `tasks/cancel`, and news of tasks: whoever knows an id may ask (SEP-2663).

Ids that are not ours may be those of a source that makes tasks itself; such requests go there as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names, tasks
from protocol.inbound import Rejection
from protocol.versions import Era
from workspace_server.calls import mcp_requests
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tasks.archive import TaskSnapshot
from workspace_server.tasks.tasks import Tasks
from workspace_server.tool import CallOutcome, RpcError

MAX_ASKED: Final = 8
"""Sources that are asked about a task nobody remembers."""
MAX_FOLLOWED: Final = 256
"""Tasks that one stream tells of; what is asked for beyond them is not honoured."""
FILTER: Final = "taskIds"
"""The member of a listen request's filter that names tasks."""

Finish = Callable[[Mapping[str, Any]], Mapping[str, Any] | msgspec.Raw]
"""Completes a result of our own as its caller would have got it."""


def declared(asked: McpRequest) -> bool:
    """Whether the client declared the extension for this request."""
    capabilities = msgspec.json.decode(asked.inbound.meta[names.META_CAPABILITIES])
    return tasks.is_declared(capabilities)


def detailed(seen: TaskSnapshot, finish: Finish) -> dict[str, Any]:
    """All members of a task, with its result exactly as the caller that waited would have got it."""
    told = dict(seen.members)
    if seen.requests:
        told["inputRequests"] = seen.requests
    if seen.holds == "result":
        members = jsonrpc.members_of(seen.body)
        meta = jsonrpc.members_of(members.get("_meta", b"{}"))
        told["result"] = finish({**members, "_meta": meta})
    elif seen.holds:
        told["error" if seen.holds == "error" else "result"] = msgspec.Raw(seen.body)
    return told


class TaskSubscription:
    """The tasks that one listen stream tells of.

    Attributes:
        ids: of those it can tell of.
        end: ends it.
    """

    def __init__(self, store: Tasks, ids: Sequence[str], finish: Finish, wake: Callable[[], None]) -> None:
        self.ids = ids
        self.end = store.watch(self._heard)
        self._tasks = store
        self._finish = finish
        self._wake = wake
        self._changed: dict[str, None] = {}

    async def take(self) -> list[dict[str, Any]]:
        """Every task that changed since the last time, as it is now."""
        changed, self._changed = self._changed, {}
        seen = [await self._tasks.get(task) for task in changed]
        return [detailed(one, self._finish) for one in seen if one is not None]

    def _heard(self, task: str) -> None:
        if task in self.ids:
            self._changed[task] = None
            self._wake()


class TaskMethods:
    """The three methods, as a table, and what streams tell of tasks.

    Args:
        calls: whose tasks they are about.
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

    async def follow(
        self, asked: McpRequest, wake: Callable[[], None]
    ) -> TaskSubscription | Rejection | None:
        """What a listen request wants to hear of tasks; None for nothing.

        Args:
            asked: the request.
            wake: called when there is something to `take`.
        """
        named = jsonrpc.members_of(asked.inbound.params.get("notifications", b"{}")).get(FILTER)
        if named is None:
            return None
        if not declared(asked):
            return tasks.missing_capability(asked.request.id, FILTER)
        try:
            ids = msgspec.json.decode(named, type=list[str])[:MAX_FOLLOWED]
        except msgspec.DecodeError:
            return asked.invalid(f"params.notifications.{FILTER} must be a list of strings")
        known = [task for task in dict.fromkeys(ids) if await self._tasks.get(task) is not None]
        return TaskSubscription(self._tasks, known, self._finish, wake)

    async def _get(self, asked: McpRequest) -> Outcome:
        if not declared(asked):
            return tasks.missing_capability(asked.request.id, tasks.GET)
        seen = await self._tasks.get(asked.inbound.name or "")
        return await self._elsewhere(asked) if seen is None else detailed(seen, self._finish)

    async def _update(self, asked: McpRequest) -> Outcome:
        if not declared(asked):
            return tasks.missing_capability(asked.request.id, tasks.UPDATE)
        responses = asked.inbound.params.get("inputResponses")
        if responses is None or jsonrpc.bytes_of(responses)[:1] != b"{":
            return asked.invalid("params.inputResponses must be an object")
        known = await self._tasks.answer(asked.inbound.name or "", jsonrpc.members_of(responses))
        return {} if known else await self._elsewhere(asked)

    async def _cancel(self, asked: McpRequest) -> Outcome:
        if not declared(asked):
            return tasks.missing_capability(asked.request.id, tasks.CANCEL)
        known = await self._tasks.cancel(asked.inbound.name or "")
        return {} if known else await self._elsewhere(asked)

    async def _elsewhere(self, asked: McpRequest) -> Outcome:
        """What the source says that made a task; after a restart, any that could have made it."""
        task, foreign = asked.inbound.name or "", self._tasks.foreign
        view = await self._calls.toolset.current()
        owner = foreign.owner(task)
        failures: list[CallOutcome] = []
        for source in await _candidates(view, owner):
            outcome = await mcp_requests.relay(self._calls, asked, view, source, asked.inbound.params)
            if isinstance(outcome, msgspec.Raw):
                foreign.remember(task, source.id)
                return mcp_requests.answer(asked, outcome)
            is_unknown = isinstance(outcome, RpcError) and outcome.code == jsonrpc.INVALID_PARAMS
            if not is_unknown or owner is not None:
                failures.append(outcome)
        return (
            mcp_requests.answer(asked, failures[0])
            if failures
            else tasks.unknown_task(asked.request.id, task)
        )


async def _candidates(view: View, owner: str | None) -> list[Source]:
    """The source of this id; else those that run, make tasks, and so may have made this one."""
    sources = view.snapshot.sources
    if owner is not None:
        return [source for source in sources if source.id == owner]
    ready = [source for source in sources if source.state == "ready"]
    return [source for source in ready if await _makes_tasks(source)][:MAX_ASKED]


async def _makes_tasks(source: Source) -> bool:
    greeting = await source.greeting()
    return greeting is not None and greeting.era is Era.MODERN and tasks.is_declared(greeting.capabilities)
