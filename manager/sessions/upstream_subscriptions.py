"""Hears, on behalf of sessions, what changes in their workspaces: lists and resources.

One listen stream to each workspace server that such sessions belong to, however many they are; a second one
only while its request changes. It starts no server: a session that nobody serves has nothing to hear. What
modern clients hear is passed on as it comes, see `endpoints/stateless.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Final

import msgspec

from manager.sessions.notifier import Notifier
from manager.sessions.upstream_listener import UpstreamListener
from manager.supervision.instance import Instance
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspaces import Workspaces
from protocol import jsonrpc, names

LOOK_S: Final = 0.5
"""How often it is looked which servers serve, and what sessions mean; a new interest is looked at at once."""
SETTLE_S: Final = 0.05
"""Least time between looks for new interests: each asks all sessions, and thousands may come at once."""


class UpstreamSubscriptions:
    """The listen streams of the manager itself. Run it in one task; cancelling that ends them all."""

    def __init__(
        self, notifier: Notifier, workspaces: Workspaces, registered_servers: RegisteredServers
    ) -> None:
        self._notifier = notifier
        self._workspaces = workspaces
        self._registered_servers = registered_servers
        self._listeners: dict[str, list[UpstreamListener]] = {}
        """By workspace, the newest last. It is the only one once it was acknowledged."""
        self._tasks: dict[UpstreamListener, asyncio.Task[None]] = {}
        self._known: set[str] = set()
        self._interrupted: set[str] = set()
        self._stirred = asyncio.Event()
        notifier.on_interest = self._stirred.set

    async def run(self) -> None:
        """Listen where somebody wants to hear, for ever."""
        try:
            while True:
                is_stirred = self._stirred.is_set()
                self._stirred.clear()
                self._look()
                if is_stirred:
                    await asyncio.sleep(SETTLE_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._stirred.wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def honours(self, workspace: str, uri: str, seconds: float) -> bool | None:
        """Whether its server will tell of a resource that a session has subscribed.

        Returns:
            None where that was not known within the time.
        """
        self._look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while listeners := self._listeners.get(workspace):
                    listener = listeners[-1]
                    await listener.decided.wait()
                    if listener.honoured is not None and uri in listener.uris:
                        return uri in listener.honoured
                    if self._listeners.get(workspace, [])[-1:] == [listener]:
                        return None
        return None

    # -- which streams there are --------------------------------------------------------------------------

    def _look(self) -> None:
        interest = self._notifier.interest()
        serving = self._serving(interest)
        for workspace in self._known - interest.keys():
            self._notifier.anything_changed(workspace)  # from now on nobody listens
        self._known = set(interest)
        for workspace in list(self._listeners):
            self._drop_dead(workspace, serving.get(workspace))
        self._interrupted &= self._known
        for workspace, instance in serving.items():
            listeners = self._listeners.setdefault(workspace, [])
            if not listeners or listeners[-1].uris != interest[workspace]:
                self._listen(workspace, instance, interest[workspace])

    def _serving(self, identities: Collection[str]) -> dict[str, Instance]:
        found = {}
        for identity in identities:
            if (workspace := self._workspaces.get(identity)) is None:
                continue
            supervisor = workspace.supervisor
            instance = self._registered_servers.serving(workspace.root)
            if instance is None and supervisor.is_serving:
                instance = supervisor.instance
            if instance is not None:
                found[identity] = instance
        return found

    def _listen(self, workspace: str, instance: Instance, uris: frozenset[str]) -> None:
        """Begin to listen; who listened before goes on until this one is acknowledged."""
        listeners = self._listeners[workspace]
        promised = {uri for one in listeners for uri in one.honoured or ()}
        self._drop([one for one in listeners if one.is_over or one.honoured is None])
        listener = UpstreamListener(workspace, instance, uris, promised)
        task = asyncio.create_task(listener.run(self._told), name=f"listen {workspace}")
        task.add_done_callback(lambda _: self._tasks.pop(listener, None))
        self._tasks[listener] = task
        listeners.append(listener)

    def _drop_dead(self, workspace: str, instance: Instance | None) -> None:
        listeners = self._listeners[workspace]
        self._drop([one for one in listeners if one not in self._tasks or one.instance is not instance])
        if not listeners:
            del self._listeners[workspace]
            self._interrupted.add(workspace)

    def _drop(self, listeners: Collection[UpstreamListener]) -> None:
        """End these; what was said since a stream ended by itself was missed."""
        for listener in listeners:
            self._listeners[listener.workspace].remove(listener)
            if listener.is_over:
                self._interrupted.add(listener.workspace)
            if (task := self._tasks.get(listener)) is not None:
                task.cancel()
            listener.decided.set()  # a task that is ended before it begins sets nothing

    # -- what they bring ----------------------------------------------------------------------------------

    def _told(self, listener: UpstreamListener, method: str, params: dict[str, msgspec.Raw]) -> None:
        if method == names.ACKNOWLEDGED:
            self._acknowledged(listener)
        elif method in names.LISTS_CHANGED:
            self._notifier.lists_changed(listener.workspace, (method,))
        elif method == names.RESOURCE_UPDATED:
            uri = jsonrpc.text_of(params.get("uri", b""))
            if uri is not None:
                self._notifier.resource_updated(listener.workspace, uri, _updated(params))

    def _acknowledged(self, listener: UpstreamListener) -> None:
        self._drop([one for one in self._listeners.get(listener.workspace, []) if one is not listener])
        if listener.workspace in self._interrupted:
            self._interrupted.discard(listener.workspace)
            self._notifier.anything_changed(listener.workspace)  # who knows what was missed meanwhile


def _updated(params: dict[str, msgspec.Raw]) -> bytes:
    """The notification as the session era has it: no subscription is named in it."""
    meta = jsonrpc.members_of(params.get("_meta", b"{}"))
    meta.pop(names.META_SUBSCRIPTION, None)
    kept = {name: raw for name, raw in params.items() if name != "_meta"}
    return jsonrpc.notification(names.RESOURCE_UPDATED, kept | ({"_meta": meta} if meta else {}))
