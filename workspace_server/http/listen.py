"""Serves `subscriptions/listen`: a stream of change notifications that ends when the server stops.

`catalog/toolset.py` announces changed lists, the sources announce changed resources, and `methods/tasks.py`
announces changed tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.inbound import Rejection
from lm_tools_bridge.protocol.tasks_extension import CHANGED
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Kind, View
from workspace_server.http.connections import Stream
from workspace_server.lifetime import Lifetime
from workspace_server.methods import resources
from workspace_server.methods.tasks import FILTER, TaskMethods, TaskSubscription

MAX_RESOURCES: Final = 1000
"""Resources that one stream can subscribe to; further URIs are ignored."""
MIN_INTERVAL_S: Final = 0.1
"""Minimum time between two batches of notifications with changed resources."""
_KINDS: Final[Mapping[str, Kind]] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
_METHODS: Final[Mapping[Kind, str]] = {
    "tools": names.TOOLS_CHANGED,
    "prompts": names.PROMPTS_CHANGED,
    "resources": names.RESOURCES_CHANGED,
}
_RESOURCES: Final = "resourceSubscriptions"
Unsubscribe = Callable[[], None]
_uris: Final = msgspec.json.Decoder(list[str])


class _Changes:
    """The changes since the last notification of a stream."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self._kinds: set[Kind] = set()
        self._uris: dict[str, None] = {}

    def lists_changed(self, kinds: frozenset[Kind]) -> None:
        """Record changed lists."""
        self._kinds |= kinds
        self.wake.set()

    def resource_changed(self, uri: str) -> None:
        """Record a changed resource."""
        self._uris[uri] = None
        self.wake.set()

    def take(self) -> tuple[set[Kind], Sequence[str]]:
        """The changed lists and resources since the last call."""
        kinds, uris = self._kinds, tuple(self._uris)
        self._kinds, self._uris = set(), {}
        return kinds, uris


async def serve(  # noqa: PLR0917  everything that changes can come from
    request: McpRequest,
    stream: Stream,
    toolset: Toolset,
    tasks: TaskMethods,
    life: Lifetime,
    keep_alive_s: float,
) -> None:
    """Serve one listen request. Returns when the server stops; is cancelled when the client disconnects."""
    changes = _Changes()
    try:
        kinds, uris = _filter(request.inbound.params.get("notifications"))
    except ValueError as problem:
        await _refuse(stream, request.invalid(str(problem)))
        return
    task_changes = await tasks.subscribe(request, changes.wake.set)
    if isinstance(task_changes, Rejection):
        await _refuse(stream, task_changes)
        return
    unsubscribe = [toolset.listen(changes.lists_changed), life.on_stop(changes.wake.set)]
    meta = {names.META_SUBSCRIPTION: msgspec.Raw(request.id)}
    try:
        accepted: dict[str, Any] = dict.fromkeys(kinds, True)
        if task_changes is not None:
            unsubscribe.append(task_changes.end)
        if uris is not None:
            accepted[_RESOURCES] = await _subscribe(
                uris, request.sees(await toolset.current(with_files=True)), changes, unsubscribe
            )
        if task_changes is not None:
            accepted[FILTER] = task_changes.ids
        await stream.notify(names.ACKNOWLEDGED, {"notifications": accepted, "_meta": meta})
        while not life.stopping:
            await wait(changes.wake, stream, keep_alive_s)
            await _send(stream, changes, {_KINDS[kind] for kind in kinds}, task_changes, meta)
    finally:
        for end in unsubscribe:
            end()
    result: dict[str, Any] = {"resultType": "complete", "_meta": meta}
    await stream.finish(200, jsonrpc.result(request.id, result))


async def _refuse(stream: Stream, rejection: Rejection) -> None:
    await stream.finish(rejection.status, rejection.body())


async def _subscribe(
    uris: Sequence[str], view: View, changes: _Changes, unsubscribe: list[Unsubscribe]
) -> list[str]:
    """Subscribe to resources at their sources, all at the same time; returns the URIs that were accepted.

    `unsubscribe` gets the function that ends a subscription as soon as the subscription exists.
    """

    async def subscribe(uri: str) -> str | None:
        ends = await resources.subscribe(view, uri, changes.resource_changed)
        unsubscribe.extend(ends)
        return uri if ends else None

    return [uri for uri in await asyncio.gather(*(subscribe(uri) for uri in uris)) if uri is not None]


def _filter(raw: msgspec.Raw | None) -> tuple[list[str], list[str] | None]:
    """The requested kinds of lists, and the requested resources (None if the filter has no such member).

    Raises:
        ValueError: the filter is invalid.
    """
    if raw is None or jsonrpc.bytes_of(raw)[:1] != b"{":
        raise ValueError("params.notifications must be an object")
    members = jsonrpc.members_of(raw)
    kinds = [kind for kind in _KINDS if jsonrpc.bytes_of(members.get(kind, msgspec.Raw())) == b"true"]
    if _RESOURCES not in members:
        return kinds, None
    try:
        uris = _uris.decode(members[_RESOURCES])
    except msgspec.DecodeError:
        raise ValueError(f"params.notifications.{_RESOURCES} must be a list of URIs") from None
    return kinds, list(dict.fromkeys(uris))[:MAX_RESOURCES]


async def _send(
    stream: Stream,
    changes: _Changes,
    kinds: set[Kind],
    task_changes: TaskSubscription | None,
    meta: Mapping[str, Any],
) -> None:
    """Send notifications about everything that changed; pauses after changed resources."""
    changed, uris = changes.take()
    for kind, method in _METHODS.items():
        if kind in changed & kinds:
            await stream.notify(method, {"_meta": meta})
    for uri in uris:
        await stream.notify(names.RESOURCE_UPDATED, {"uri": uri, "_meta": meta})
    for task in await task_changes.take() if task_changes is not None else ():
        await stream.notify(CHANGED, {**task, "_meta": meta})
    if uris:
        await asyncio.sleep(MIN_INTERVAL_S)


async def wait(wake: asyncio.Event, stream: Stream, keep_alive_s: float) -> None:
    """Wait for an event; after a while without one, keep the stream alive."""
    try:
        async with asyncio.timeout(keep_alive_s):
            await wake.wait()
            wake.clear()
    except TimeoutError:
        await stream.keep_alive()
