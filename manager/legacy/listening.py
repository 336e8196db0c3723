"""Hears, on behalf of sessions with a standing stream, that lists of their workspace changed (T-184, D-13).

One listen stream to each workspace server that such sessions belong to, however many they are. It starts no
server: a session that nobody serves has nothing to hear. What modern clients hear is passed on as it comes,
see `web/modern.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from manager.answers.outgoing import own_request
from manager.legacy.keeper import Keeper
from manager.log import logger
from manager.upstream.instance import Instance
from manager.upstream.response import UpstreamFailure
from manager.upstream.workspaces import Workspaces
from protocol import names, sse

LOOK_S: Final = 0.5
"""How often it is looked who has a stream, and which servers serve."""
AGAIN_S: Final = 2.0
"""How long a stream that ended is left alone."""
HTTP_OK: Final = 200
_WANTED: Final = {"toolsListChanged": True, "resourcesListChanged": True, "promptsListChanged": True}


class Listening:
    """The listen streams of the manager itself. Run it in one task; cancelling that ends them all."""

    def __init__(self, keeper: Keeper, workspaces: Workspaces) -> None:
        self._keeper = keeper
        self._workspaces = workspaces
        self._heard: dict[str, tuple[Instance, asyncio.Task[None]]] = {}
        self._interrupted: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Listen where somebody wants to hear, for ever."""
        try:
            while True:
                self._look()
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look(self) -> None:
        wanted = self._keeper.listening()
        self._interrupted &= wanted
        serving = self._serving(wanted)
        for identity, (instance, task) in list(self._heard.items()):
            if task.done() or serving.get(identity) is not instance:
                task.cancel()
                del self._heard[identity]
                self._interrupted.add(identity)
        for identity, instance in serving.items():
            if identity not in self._heard:
                task = asyncio.create_task(self._hear(identity, instance), name=f"listen {identity}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                self._heard[identity] = (instance, task)

    def _serving(self, identities: set[str]) -> dict[str, Instance]:
        found = {}
        for identity in identities:
            workspace = self._workspaces.get(identity)
            supervisor = None if workspace is None else workspace.supervisor
            if supervisor is not None and supervisor.instance is not None and supervisor.is_serving:
                found[identity] = supervisor.instance
        return found

    async def _hear(self, identity: str, instance: Instance) -> None:
        """Listen until the stream ends; one that ends is not begun anew at once."""
        try:
            await self._stream(identity, instance)
        except (UpstreamFailure, sse.EventTooLarge) as failure:
            logger().info("listen", workspace=identity, ended=str(failure) or type(failure).__name__)
        await asyncio.sleep(AGAIN_S)

    async def _stream(self, identity: str, instance: Instance) -> None:
        request = own_request(names.LISTEN, {"notifications": _WANTED}, f"listen-{identity}")
        head = (*request.headers, instance.credentials())
        response = await instance.pool.request(b"POST", request.target, head, request.body)
        decoder = sse.Decoder()
        try:
            if response.head.status != HTTP_OK:
                logger().warning("listen", workspace=identity, refused=response.head.status)
                return
            async for chunk in response.chunks():
                for event in decoder.feed(chunk):
                    self._told(identity, event.data)
        finally:
            await response.aclose()

    def _told(self, identity: str, data: bytes) -> None:
        try:
            method = msgspec.json.decode(data).get("method")
        except (ValueError, AttributeError):
            logger().warning("listen", workspace=identity, why="what it sent is no message")
            return
        if method == names.ACKNOWLEDGED and identity in self._interrupted:
            self._interrupted.discard(identity)  # who knows what was missed meanwhile
            self._keeper.announce_in(identity, names.LISTS_CHANGED)
        elif method in names.LISTS_CHANGED:
            self._keeper.announce_in(identity, (method,))
