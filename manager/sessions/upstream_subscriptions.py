"""Subscribes to changes in workspaces on behalf of sessions: one listen stream per workspace server.

All sessions of a workspace share the stream; a second one exists only while the set of subscribed resources
changes. No server is started for this. Stateless clients have listen streams of their own, which are passed
through (`endpoints/stateless.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names, sse
from lm_tools_bridge.protocol.errors import Refusal
from manager.answers.exchange import Located
from manager.answers.upstream_request import manager_request
from manager.log import logger
from manager.sessions.notifier import Notifier
from manager.supervision.instance import Instance
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspaces import Workspaces
from manager.upstream.failures import UpstreamFailure

RETRY_S: Final = 2.0
"""Seconds to wait after a stream has ended."""
REFUSED_RETRY_S: Final = 30.0
"""Seconds to wait after a server has refused to open a stream."""
EVENTS: Final = b"text/event-stream"
_LISTS: Final = {"toolsListChanged": True, "resourcesListChanged": True, "promptsListChanged": True}

OnNotification = Callable[["UpstreamListener", str, dict[str, msgspec.Raw]], None]


class UpstreamListener:
    """Listens for list changes and for updates of some resources. Run it in a task; cancel that to stop.

    Args:
        promised: resources that were confirmed to sessions before. They come first in the request, because a
            server leaves out what exceeds its limit.

    Attributes:
        workspace: id of the workspace.
        instance: the server that is asked.
        uris: the resources that are asked for.
        honoured: the resources that the server acknowledged, none if it refused; None before that.
        decided: set when `honoured` is known, or never will be.
        is_over: whether the stream has ended, even if `run` still waits.
    """

    def __init__(
        self, workspace: str, instance: Instance, uris: frozenset[str], promised: Collection[str] = ()
    ) -> None:
        self.workspace = workspace
        self.instance = instance
        self.uris = uris
        self.honoured: frozenset[str] | None = None
        self.decided = asyncio.Event()
        self.is_over = False
        self._named = sorted(uris, key=lambda uri: (uri not in promised, uri))

    async def run(self, on_notification: OnNotification) -> None:
        """Listen until the stream ends, then wait before returning, so that it is not reopened at once.

        Args:
            on_notification: called with each notification's method and parameters, the acknowledgement first.
        """
        is_offered = True
        try:
            is_offered = await self._listen(on_notification)
        except (UpstreamFailure, sse.EventTooLarge) as failure:
            self._log(ended=str(failure) or type(failure).__name__)
        finally:
            self.is_over = True
            self.decided.set()
        await asyncio.sleep(RETRY_S if is_offered else REFUSED_RETRY_S)

    async def _listen(self, on_notification: OnNotification) -> bool:
        """Listen until the stream ends; False if the server refused to open one."""
        notifications = {**_LISTS, **({"resourceSubscriptions": self._named} if self._named else {})}
        request = manager_request(names.LISTEN, {"notifications": notifications}, f"listen-{self.workspace}")
        head = (*request.headers, self.instance.credentials())
        response = await self.instance.pool.request(b"POST", request.target, head, request.body)
        decoder = sse.Decoder()
        try:
            kind = response.head.content_type
            if response.head.status != HTTPStatus.OK or kind != EVENTS:
                self._log(refused=response.head.status)
                self.honoured = frozenset()
                return False
            async for chunk in response.chunks():
                for event in decoder.feed(chunk):
                    self._receive(event.data, on_notification)
            return True
        finally:
            response.abandon()

    def _receive(self, data: bytes, on_notification: OnNotification) -> None:
        match jsonrpc.parse(data):
            case jsonrpc.Notification(method, params):
                members = jsonrpc.members_of(params)
                if method == names.ACKNOWLEDGED:
                    self.honoured = _honoured(members)
                    self.decided.set()
                on_notification(self, method, members)
            case jsonrpc.Malformed():
                self._log(why="it sent something that is not JSON-RPC")

    def _log(self, **why: object) -> None:
        logger().info("listen", workspace=self.workspace, **why)


def _honoured(params: dict[str, msgspec.Raw]) -> frozenset[str]:
    raw = jsonrpc.members_of(params.get("notifications", b"{}")).get("resourceSubscriptions")
    try:
        return frozenset(msgspec.json.decode(raw, type=list[str]) if raw is not None else ())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return frozenset()


UPDATE_S: Final = 0.5
"""Seconds between updates of the streams; a change of interest triggers one immediately."""
ACKNOWLEDGED_S: Final = 0.3
"""Seconds that a list waits until changes of it are listened to. That takes a few milliseconds."""
DEBOUNCE_S: Final = 0.05
"""Least seconds between updates that changes of interest trigger: each looks at all sessions."""


class UpstreamSubscriptions:
    """Keeps the manager's own listen streams. Run it in one task; cancel that to end them all."""

    def __init__(
        self, notifier: Notifier, workspaces: Workspaces, registered_servers: RegisteredServers
    ) -> None:
        self._notifier = notifier
        self._workspaces = workspaces
        self._registered_servers = registered_servers
        self._listeners: dict[str, list[UpstreamListener]] = {}
        """By workspace id, the newest last. Once the newest is acknowledged, the others end."""
        self._tasks: dict[UpstreamListener, asyncio.Task[None]] = {}
        self._interested: set[str] = set()
        self._interrupted: set[str] = set()
        self._interest_changed = asyncio.Event()
        notifier.on_interest_changed = self._interest_changed.set

    async def run(self) -> None:
        """Keep the streams in step with what sessions need. Never returns."""
        try:
            while True:
                has_changed = self._interest_changed.is_set()
                self._interest_changed.clear()
                self._update()
                if has_changed:
                    await asyncio.sleep(DEBOUNCE_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(UPDATE_S):
                        await self._interest_changed.wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def listen_first(self, located: Located) -> Refusal | None:
        """Listen to the server of a workspace before a session gets a list of it; start it if needed.

        Returns:
            Why the server cannot be used, if so.
        """
        workspace = located.workspace
        if self._is_acknowledged(workspace.id):
            return None
        ready = await self._workspaces.ready(workspace, is_pure=located.is_pure)
        if isinstance(ready, Refusal):
            return ready
        self._update()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ACKNOWLEDGED_S):
                if listeners := self._listeners.get(workspace.id):
                    await listeners[-1].decided.wait()
        return None

    def _is_acknowledged(self, workspace: str) -> bool:
        listeners = self._listeners.get(workspace, [])
        return any(one.honoured is not None and not one.is_over for one in listeners)

    async def honours(self, workspace: str, uri: str, seconds: float) -> bool | None:
        """Whether the workspace server acknowledged the subscription of a resource.

        Returns:
            None if that is not known within `seconds`.
        """
        self._update()
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

    # -- streams ------------------------------------------------------------------------------------------

    def _update(self) -> None:
        interest = self._notifier.interest()
        serving = self._serving(interest)
        for workspace in self._interested - interest.keys():
            self._notifier.notify_workspace_changed(workspace)  # from now on, changes are missed
        self._interested = set(interest)
        for workspace in list(self._listeners):
            self._drop_dead(workspace, serving.get(workspace))
        self._interrupted &= self._interested
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
        """Open a new stream; the former one continues until this one is acknowledged."""
        listeners = self._listeners[workspace]
        promised = {uri for one in listeners for uri in one.honoured or ()}
        self._drop([one for one in listeners if one.is_over or one.honoured is None])
        listener = UpstreamListener(workspace, instance, uris, promised)
        task = asyncio.create_task(listener.run(self._on_notification), name=f"listen {workspace}")
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
        """Stop these. If one had ended by itself, notifications were missed since."""
        for listener in listeners:
            self._listeners[listener.workspace].remove(listener)
            if listener.is_over:
                self._interrupted.add(listener.workspace)
            if (task := self._tasks.get(listener)) is not None:
                task.cancel()
            listener.decided.set()  # a task that is cancelled before it starts sets nothing

    # -- notifications ------------------------------------------------------------------------------------

    def _on_notification(
        self, listener: UpstreamListener, method: str, params: dict[str, msgspec.Raw]
    ) -> None:
        if method == names.ACKNOWLEDGED:
            self._acknowledged(listener)
        elif method in names.LISTS_CHANGED:
            self._notifier.notify_lists_changed(listener.workspace, (method,))
        elif method == names.RESOURCE_UPDATED:
            uri = jsonrpc.text_of(params.get("uri", b""))
            if uri is not None:
                self._notifier.notify_resource_updated(listener.workspace, uri, _updated(params))

    def _acknowledged(self, listener: UpstreamListener) -> None:
        self._drop([one for one in self._listeners.get(listener.workspace, []) if one is not listener])
        if listener.workspace in self._interrupted:
            self._interrupted.discard(listener.workspace)
            self._notifier.notify_workspace_changed(listener.workspace)  # notifications may have been missed


def _updated(params: dict[str, msgspec.Raw]) -> bytes:
    """The notification for a session client: without the subscription id of MCP 2026-07-28."""
    meta = jsonrpc.members_of(params.get("_meta", b"{}"))
    meta.pop(names.META_SUBSCRIPTION, None)
    kept = {name: raw for name, raw in params.items() if name != "_meta"}
    return jsonrpc.notification(names.RESOURCE_UPDATED, kept | ({"_meta": meta} if meta else {}))
