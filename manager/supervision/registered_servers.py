"""Tracks workspace servers that users started: heartbeats, health checks, and their instances.

`routing/state/registrations.py` decides what heartbeats and health answers mean,
`routing/state/port_leases.py` reserves ports. The manager never starts, stops or restarts these servers.
It refuses calls of a workspace that lost its registered server until one comes or a client makes a handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final

from msgspec import structs

from lm_tools_bridge.machine.process_facts import start_time
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.internal import launch
from lm_tools_bridge.protocol.internal.registration import Allocate, Heartbeat
from manager.disk.filesystem import FolderExaminer
from manager.log import logger, short
from manager.routing.matching import workspace_id
from manager.routing.state.port_leases import PortExhausted, PortLeases
from manager.routing.state.registrations import (
    SWEEP_EVERY_S,
    HeartbeatOutcome,
    Registration,
    Registrations,
    State,
    StateChange,
)
from manager.supervision import process
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.refusals import server_left, server_offline
from manager.upstream.failures import UpstreamFailure

MAX_REAL_PATHS: Final = 4096
"""Folders whose real path is kept."""


class RealPaths:
    """The real paths of folders."""

    def __init__(self, examiner: FolderExaminer) -> None:
        self._examiner = examiner
        self._known: dict[str, str] = {}

    async def of(self, folder: str) -> str:
        """The folder with symbolic links resolved; as it is if that cannot be done now."""
        real_path = self._known.get(folder)
        if real_path is not None:
            return real_path
        resolved = await self._examiner.real_path(folder)
        if resolved is None:
            return folder
        if len(self._known) >= MAX_REAL_PATHS:
            self._known.clear()
        self._known[folder] = resolved
        return resolved


MAX_DEPARTURES: Final = 4096
"""Workspaces that are remembered. When there are more, all are forgotten."""
RETURN_S: Final = 2.5
"""Seconds that calls wait after a start; a registered server sends a heartbeat each second."""
# Waiting calls go on soon after their server has registered, also when no event says so.
_LOOK_S: Final = 0.25


class Departures:
    """The roots without a server that had a registered one, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._awaited: frozenset[str] = frozenset()
        self._awaited_until = 0.0

    def restore(self, roots: Collection[str], now: float) -> None:
        """Take over the roots whose registered server the previous manager had, at monotonic time `now`."""
        self.update(dict.fromkeys(roots, False), now)
        self._awaited, self._awaited_until = frozenset(roots), now + RETURN_S

    def update(self, changed: Mapping[str, bool], now: float) -> None:
        """Note roots that got a server (true) or lost their last one (false) at monotonic time `now`."""
        for root, is_served in changed.items():
            self._since.pop(root, None)
            if not is_served:
                if len(self._since) >= MAX_DEPARTURES:
                    self._since.clear()
                self._since[root] = now

    def since(self, root: str) -> float | None:
        """Monotonic time when this root lost its server; None if it has one or never had one."""
        return self._since.get(root)

    def forget(self, root: str) -> None:
        """A client made a handshake: from now on the manager's own server serves this root."""
        self._since.pop(root, None)

    def is_awaited(self, root: str, now: float) -> bool:
        """Whether the server of this root may still register again after the manager's start."""
        return now < self._awaited_until and root in self._awaited and root in self._since

    async def returned(self, root: str, changed: asyncio.Event, now: Callable[[], float]) -> None:
        """Wait while `is_awaited`. `changed` is set by every change of a registration."""
        while self.is_awaited(root, now()):
            changed.clear()
            try:
                async with asyncio.timeout(min(_LOOK_S, self._awaited_until - now())):
                    await changed.wait()
            except TimeoutError:
                continue


class RegisteredServers:
    """The registered servers: the tables of registrations and port leases, with the I/O they need."""

    def __init__(self, dependencies: Dependencies, examiner: FolderExaminer) -> None:
        self._dependencies = dependencies
        self.registrations = Registrations()
        self.leases = PortLeases()
        self._instances: dict[str, Instance] = {}
        self._ready_now: dict[str, Instance | bool] = {}  # cached until a registration changes
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: set[int] = set()
        self._real_paths = RealPaths(examiner)
        self._departures = Departures()

    # -- used by the control plane ----------------------------------------------------------------------

    async def heartbeat(self, message: Heartbeat) -> HeartbeatOutcome:
        """Register a server or renew its registration. A new address is health-checked at once."""
        folders = tuple([await self._real_paths.of(folder) for folder in message.workspace_folders])
        message = structs.replace(message, workspace_folders=folders)
        now = self._dependencies.now()
        outcome = self.registrations.heartbeat(message, now, lambda: secrets.token_urlsafe(32))
        self.leases.release(message.session_id)
        self._apply(outcome.changes)
        if outcome.first and message.kind != "editor" and message.pid not in self._watched:
            self._watched.add(message.pid)
            self._own(self._watch_exit(message.pid), f"watch registered server {message.pid}")
        if outcome.record.state in {State.STARTING, State.SUSPECT, State.UNHEALTHY}:
            self._own(self._check_health(outcome.record), f"check registered server {outcome.record.port}")
        return outcome

    def renew(self, session_id: str) -> bool:
        """Renew a registration that nothing has to be checked of; False if it needs a complete heartbeat.

        The process is not looked at: its exit is watched.
        """
        record = self.registrations.get(session_id)
        if record is None or record.pid not in self._watched:
            return False
        return self.registrations.renew(session_id, self._dependencies.now())

    def bye(self, session_id: str) -> None:
        """Remove a server and its port lease."""
        self._apply(self.registrations.bye(session_id))
        self.leases.release(session_id)

    def allocate(
        self, message: Allocate, taken: Iterable[int], own_port: int, is_bindable: Callable[[int], bool]
    ) -> int | PortExhausted:
        """Reserve a port. A sender whose server is registered gets that server's port."""
        registration = self.registrations.get(message.session_id)
        others = {record.port for record in self.registrations.records() if record is not registration}
        return self.leases.allocate(
            message.session_id,
            message.start,
            self._dependencies.now(),
            in_use=others | set(taken),
            own_port=own_port,
            bindable=is_bindable,
            present=None if registration is None else registration.port,
        )

    # -- used by workspaces -------------------------------------------------------------------------------

    def roots(self) -> Collection[tuple[str, str]]:
        """(folder or workspace file, root of its workspace) of every server that may serve requests."""
        return [
            (place, record.root)
            for record in self.registrations.candidates()
            for place in (*record.workspace_folders, record.workspace_file)
            if place
        ]

    async def ready(
        self, root: str, *, urgent: bool = False, is_pure: bool = False
    ) -> Instance | Refusal | None:
        """Return the server of this root, after a health check if it is suspect; None if there is none.

        Args:
            urgent: for a handshake, which a server that left does not prevent.
            is_pure: likewise, for a request whose URL or header names the workspace: it has no handshake.
        """
        await self._departures.returned(root, self._changed, self._dependencies.now)
        record = self.registrations.for_root(root)
        if record is None:
            return self._without_server(root, urgent=urgent, is_pure=is_pure)
        if record.state is State.SUSPECT:
            await self._check_health(record)
            record = self.registrations.for_root(root)
            if record is None or record.state is State.SUSPECT:
                return server_offline(workspace_id(root), "unhealthy", retry_after_ms=1000)
        instance = self._instance(record)
        if not instance.is_alive:
            self._apply(self.registrations.exited(record.pid))
            return await self.ready(root, urgent=urgent, is_pure=is_pure)
        return instance

    def ready_now(self, root: str, *, is_pure: bool = False) -> Instance | bool:
        """As `ready` without waiting. Returns True if the caller has to wait, False if there is no server.

        Does not check whether the process runs.

        Args:
            is_pure: whether a server of the manager's own may take the place of one that left.
        """
        instance = self._ready_now.get(root)
        if instance is None and self._departures.since(root) is not None:
            return not is_pure or self._departures.is_awaited(root, self._dependencies.now())
        if instance is None:
            record = self.registrations.for_root(root)
            is_ready = record is not None and record.state is State.READY
            instance = self._instance(record) if record is not None and is_ready else record is not None
            self._ready_now[root] = instance
        return instance

    def serving(self, root: str) -> Instance | None:
        """The ready server of this root, without a health check; None if there is none."""
        record = self.registrations.for_root(root)
        return self._instance(record) if record is not None and record.state is State.READY else None

    def left_at(self, root: str) -> float | None:
        """Monotonic time when this root lost its registered server (`Departures.since`)."""
        return self._departures.since(root)

    def now(self) -> float:
        """Monotonic seconds, by which `left_at` is measured."""
        return self._dependencies.now()

    def known(self, record: Registration) -> Instance | None:
        """The instance of a record, with the last health answer; None before the first check."""
        return self._instances.get(record.session_id)

    def changed_event(self) -> asyncio.Event:
        """The event that every change of a registration sets. The waiter clears it."""
        return self._changed

    # -- housekeeping ---------------------------------------------------------------------------------------

    async def restore(self, roots: Collection[str]) -> None:
        """Expect the registered servers of the previous manager. Those that do not come are forgotten."""
        self._departures.restore(roots, self._dependencies.now())
        await self._dependencies.store.save_registered(dict.fromkeys(roots, False))

    async def run(self) -> None:
        """Expire silent registrations and old leases until cancelled."""
        while True:
            await self._dependencies.sleep(SWEEP_EVERY_S)
            now = self._dependencies.now()
            if self.registrations.records():
                self._apply(self.registrations.sweep(now))
            self.leases.sweep(now)

    async def close(self) -> None:
        """Close the connections, which ends calls in flight. The servers keep running. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for instance in tuple(self._instances.values()):
            await instance.pool.close()
            if instance.process is not None:
                instance.process.release()

    # -- internals ------------------------------------------------------------------------------------------

    def _without_server(self, root: str, *, urgent: bool, is_pure: bool) -> Refusal | None:
        """The refusal for clients of a server that left or became unhealthy, None for all others."""
        if urgent:
            self._departures.forget(root)
            self._ready_now.clear()
        if is_pure or self._departures.since(root) is None:
            return None
        return server_left(workspace_id(root), root, is_unhealthy=self.registrations.is_unhealthy(root))

    def _instance(self, record: Registration) -> Instance:
        known = self._instances.get(record.session_id)
        if known is not None and known.nonce == record.nonce and (known.host, known.port) == record.address:
            return known
        started = start_time(record.pid)
        instance = Instance(
            record.session_id,
            workspace_id(record.root),
            record.workspace_folders,
            record.port,
            record.nonce or "",
            record.secret or "",
            record.registered_at,
            owner="external",
            host=record.address[0],
            workspace_file=record.workspace_file,
            process=process.Process.adopt(record.pid, started) if started is not None else None,
            pid=record.pid,
        )
        self._drop(record.session_id)
        self._instances[record.session_id] = instance
        return instance

    async def _check_health(self, record: Registration) -> None:
        """Check the health of one server and record the outcome."""
        if not self.registrations.is_current(record):  # it left or moved meanwhile
            return
        instance = self._instance(record)
        try:
            body = await instance.check(
                self._dependencies.settings.health_timeout_s, self._dependencies.now()
            )
        except UpstreamFailure as failure:
            if failure.cause == "identity_mismatch":
                self._apply(self.registrations.health_answered(record, None))
            else:
                self._apply(self.registrations.health_unanswered(record, failure.cause))
        else:
            answer = launch.decode_health(body)
            self._apply(self.registrations.health_answered(record, answer.nonce if answer else None))

    async def _watch_exit(self, pid: int) -> None:
        """Remove the servers of a process as soon as it exits."""
        try:
            started = start_time(pid)
            watched = process.Process.adopt(pid, started) if started is not None else None
            if watched is None:
                return
            try:
                await watched.wait()
            finally:
                watched.release()
        finally:
            self._watched.discard(pid)
        self._apply(self.registrations.exited(pid))

    def _apply(self, changes: Iterable[StateChange]) -> None:
        """Log state changes, drop servers that are gone, and wake who waits for a registration."""
        self._ready_now.clear()
        for change in changes:
            logger().info(
                "registered_server.changed",
                server=short(change.session_id),
                state=change.after.value,
                cause=change.cause,
            )
            if change.after is State.GONE:
                self._drop(change.session_id)
            self._changed.set()
        roots = self.registrations.take_changed_roots()
        if roots:
            self._departures.update(roots, self._dependencies.now())
            self._own(self._dependencies.store.save_registered(roots), "save registered servers")

    def _drop(self, session_id: str) -> None:
        old = self._instances.pop(session_id, None)
        if old is not None:
            if old.process is not None:
                old.process.release()
            with contextlib.suppress(RuntimeError):  # no event loop any more: it has closed the sockets
                self._own(old.pool.close(), "close connections of registered server")

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
