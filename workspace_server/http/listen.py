"""`subscriptions/listen`: one open answer that tells of changes, until the server stops.
 Which lists changed is `catalog/toolset.py`; of resources their sources tell, of
tasks `methods/tasks.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.inbound import Rejection
from protocol.tasks import CHANGED
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Kind, View
from workspace_server.http.response_stream import Stream
from workspace_server.lifetime import Life
from workspace_server.methods import resources
from workspace_server.methods.tasks import FILTER, TaskMethods

MAX_RESOURCES: Final = 1000
"""Resources that one stream tells of; what is asked for beyond them is not honoured."""
GAP_S: Final = 0.1
"""The time between two looks at which resources changed: one that always changes is told of that often."""
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
Leave = Callable[[], None]
_uris: Final = msgspec.json.Decoder(list[str])


class _Pending:
    """What happened since a stream was told last."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self._kinds: set[Kind] = set()
        self._uris: dict[str, None] = {}

    def changed(self, kinds: frozenset[Kind]) -> None:
        """These lists changed."""
        self._kinds |= kinds
        self.wake.set()

    def updated(self, uri: str) -> None:
        """This resource changed."""
        self._uris[uri] = None
        self.wake.set()

    def take(self) -> tuple[set[Kind], Sequence[str]]:
        """All of it, once."""
        kinds, uris = self._kinds, tuple(self._uris)
        self._kinds, self._uris = set(), {}
        return kinds, uris


async def serve(  # noqa: PLR0917  what there is to tell of, and for how long
    asked: McpRequest, stream: Stream, toolset: Toolset, tasks: TaskMethods, life: Life, keep_alive_s: float
) -> None:
    """Answer one listen request; returns when the server stops, and is cancelled when the caller leaves."""
    try:
        kinds, uris = _wanted(asked.inbound.params.get("notifications"))
    except ValueError as problem:
        refused = asked.invalid(str(problem))
        await stream.finish(refused.status, refused.body())
        return
    meta = {names.META_SUBSCRIPTION: msgspec.Raw(asked.request.id)}
    pending = _Pending()
    followed = await tasks.follow(asked, pending.wake.set)
    if isinstance(followed, Rejection):
        await stream.finish(followed.status, followed.body())
        return
    leave: list[Leave] = [toolset.listen(pending.changed), life.on_stop(pending.wake.set)]
    if followed is not None:
        leave.append(followed.end)
    try:
        honoured: dict[str, Any] = dict.fromkeys(kinds, True)
        if uris is not None:
            honoured[_RESOURCES] = await _follow(uris, await toolset.current(), pending, leave)
        if followed is not None:
            honoured[FILTER] = followed.ids
        await stream.notify(names.ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
        while not life.stopping:
            await _wait(pending.wake, stream, keep_alive_s)
            told = await _tell(stream, pending, {_KINDS[one] for one in kinds}, meta)
            for task in await followed.take() if followed is not None else ():
                await stream.notify(CHANGED, {**task, "_meta": meta})
            if told:
                await asyncio.sleep(GAP_S)
    finally:
        for end in leave:
            end()
    result: dict[str, Any] = {"resultType": "complete", "_meta": meta}
    await stream.finish(200, jsonrpc.result(asked.request.id, result))


async def _follow(uris: Sequence[str], view: View, pending: _Pending, leave: list[Leave]) -> list[str]:
    """Have the sources tell of resources, all asked at once; those that they will tell of.

    `leave` gets what ends it, as soon as there is something to end.
    """

    async def follow(uri: str) -> str | None:
        ends = await resources.subscribe(view, uri, pending.updated)
        leave.extend(ends)
        return uri if ends else None

    return [uri for uri in await asyncio.gather(*(follow(uri) for uri in uris)) if uri is not None]


def _wanted(raw: msgspec.Raw | None) -> tuple[list[str], list[str] | None]:
    """The kinds of lists and the resources that are asked for; None where no resources are mentioned.

    Raises:
        ValueError: that is no filter.
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


async def _tell(
    stream: Stream, pending: _Pending, kinds: set[Kind], meta: Mapping[str, Any]
) -> Sequence[str]:
    """Tell what there is of these kinds, and the resources that changed, which are given back."""
    changed, uris = pending.take()
    for kind, method in _METHODS.items():
        if kind in changed & kinds:
            await stream.notify(method, {"_meta": meta})
    for uri in uris:
        await stream.notify(names.RESOURCE_UPDATED, {"uri": uri, "_meta": meta})
    return uris


async def until(life: Life, stream: Stream, keep_alive_s: float) -> None:
    """Keep a stream without messages open until the server stops."""
    wake = asyncio.Event()
    leave = life.on_stop(wake.set)
    try:
        while not life.stopping:
            await _wait(wake, stream, keep_alive_s)
    finally:
        leave()


async def _wait(wake: asyncio.Event, stream: Stream, keep_alive_s: float) -> None:
    try:
        async with asyncio.timeout(keep_alive_s):
            await wake.wait()
            wake.clear()
    except TimeoutError:
        await stream.keep_alive()
