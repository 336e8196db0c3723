"""Hears, on behalf of sessions, what changes in their workspaces: lists and resources (T-184, D-13).

One listen stream to each workspace server that such sessions belong to, however many they are; a second one
only while its request changes. It starts no server: a session that nobody serves has nothing to hear. What
modern clients hear is passed on as it comes, see `web/modern.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Final

import msgspec

from manager.legacy.ear import Ear
from manager.legacy.news import News
from manager.upstream.externals import ExternalServers
from manager.upstream.instance import Instance
from manager.upstream.workspaces import Workspaces
from protocol import jsonrpc, names

LOOK_S: Final = 0.5
"""How often it is looked which servers serve, and what sessions mean; a new interest is looked at at once."""
SETTLE_S: Final = 0.05
"""Least time between looks for new interests: each asks all sessions, and thousands may come at once."""


class Listening:
    """The listen streams of the manager itself. Run it in one task; cancelling that ends them all."""

    def __init__(self, news: News, workspaces: Workspaces, externals: ExternalServers) -> None:
        self._news = news
        self._workspaces = workspaces
        self._externals = externals
        self._ears: dict[str, list[Ear]] = {}
        """By workspace, the newest last. It is the only one once it was acknowledged."""
        self._tasks: dict[Ear, asyncio.Task[None]] = {}
        self._known: set[str] = set()
        self._interrupted: set[str] = set()
        self._stirred = asyncio.Event()
        news.on_interest = self._stirred.set

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
                while ears := self._ears.get(workspace):
                    ear = ears[-1]
                    await ear.decided.wait()
                    if ear.honoured is not None and uri in ear.uris:
                        return uri in ear.honoured
                    if self._ears.get(workspace, [])[-1:] == [ear]:
                        return None
        return None

    # -- which streams there are --------------------------------------------------------------------------

    def _look(self) -> None:
        interest = self._news.interest()
        serving = self._serving(interest)
        for workspace in self._known - interest.keys():
            self._news.anything_changed(workspace)  # from now on nobody listens
        self._known = set(interest)
        for workspace in list(self._ears):
            self._drop_dead(workspace, serving.get(workspace))
        self._interrupted &= self._known
        for workspace, instance in serving.items():
            ears = self._ears.setdefault(workspace, [])
            if not ears or ears[-1].uris != interest[workspace]:
                self._listen(workspace, instance, interest[workspace])

    def _serving(self, identities: Collection[str]) -> dict[str, Instance]:
        found = {}
        for identity in identities:
            if (workspace := self._workspaces.get(identity)) is None:
                continue
            supervisor = workspace.supervisor
            instance = self._externals.serving(workspace.root)
            if instance is None and supervisor.is_serving:
                instance = supervisor.instance
            if instance is not None:
                found[identity] = instance
        return found

    def _listen(self, workspace: str, instance: Instance, uris: frozenset[str]) -> None:
        """Begin to listen; who listened before goes on until this one is acknowledged."""
        ears = self._ears[workspace]
        promised = {uri for one in ears for uri in one.honoured or ()}
        self._drop([one for one in ears if one.is_over or one.honoured is None])
        ear = Ear(workspace, instance, uris, promised)
        task = asyncio.create_task(ear.run(self._told), name=f"listen {workspace}")
        task.add_done_callback(lambda _: self._tasks.pop(ear, None))
        self._tasks[ear] = task
        ears.append(ear)

    def _drop_dead(self, workspace: str, instance: Instance | None) -> None:
        ears = self._ears[workspace]
        self._drop([one for one in ears if one not in self._tasks or one.instance is not instance])
        if not ears:
            del self._ears[workspace]
            self._interrupted.add(workspace)

    def _drop(self, ears: Collection[Ear]) -> None:
        """End these; what was said since a stream ended by itself was missed."""
        for ear in ears:
            self._ears[ear.workspace].remove(ear)
            if ear.is_over:
                self._interrupted.add(ear.workspace)
            if (task := self._tasks.get(ear)) is not None:
                task.cancel()
            ear.decided.set()  # a task that is ended before it begins sets nothing

    # -- what they bring ----------------------------------------------------------------------------------

    def _told(self, ear: Ear, method: str, params: dict[str, msgspec.Raw]) -> None:
        if method == names.ACKNOWLEDGED:
            self._acknowledged(ear)
        elif method in names.LISTS_CHANGED:
            self._news.lists_changed(ear.workspace, (method,))
        elif method == names.RESOURCE_UPDATED:
            uri = jsonrpc.text_of(params.get("uri", b""))
            if uri is not None:
                self._news.resource_updated(ear.workspace, uri, _updated(params))

    def _acknowledged(self, ear: Ear) -> None:
        self._drop([one for one in self._ears.get(ear.workspace, []) if one is not ear])
        if ear.workspace in self._interrupted:
            self._interrupted.discard(ear.workspace)
            self._news.anything_changed(ear.workspace)  # who knows what was missed meanwhile


def _updated(params: dict[str, msgspec.Raw]) -> bytes:
    """The notification as the session era has it: no subscription is named in it."""
    meta = jsonrpc.members_of(params.get("_meta", b"{}"))
    meta.pop(names.META_SUBSCRIPTION, None)
    kept = {name: raw for name, raw in params.items() if name != "_meta"}
    return jsonrpc.notification(names.RESOURCE_UPDATED, kept | ({"_meta": meta} if meta else {}))
