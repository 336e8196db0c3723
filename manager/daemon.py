"""Runs the daemon: acquires its resources in order, serves, and releases them in reverse order.

    lock → port → state → workspaces → sessions → control socket → port open → READY

A stop refuses new requests, waits for calls in flight, stops the workspace servers (which answers the calls
that are left), and closes. No other module starts or stops these parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.machine.own_process import erase_values
from lm_tools_bridge.machine.private_folder import make_tight
from lm_tools_bridge.text.harmless_variables import is_harmless
from manager import __version__, exit_codes, installation
from manager.admin.control.services import StartedBy
from manager.assembly import Parts, assemble
from manager.blocked_loop import watched
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings
from manager.endpoints.mcp import McpRoutes
from manager.features import DaemonParts
from manager.guests import SETTING, UNKNOWN_USERS
from manager.housekeeping import OwnFiles, housekeep
from manager.http.open_streams import StreamEndings
from manager.listener.connections import connection_limits
from manager.listener.control_listener import ControlListener
from manager.listener.peer_identity import PeerCheck, PeerUid, find_peer_lookup, same_user_check
from manager.listener.runner import PrivateEndpoint, Runner
from manager.log import configure, log_file, logger, unblocked
from manager.routing.admission import AdmissionRules
from manager.runtime_tuning import FreedMemory, loop_factory, use_one_heap
from manager.sessions.session_manager import SessionManager
from manager.startup import systemd
from manager.startup.acquisition import acquire_lock, acquire_port, address_of
from manager.startup.lock import Lock
from manager.startup.replacement import Replacement
from manager.supervision.leftovers import remove_leftover_files
from manager.supervision.unused_workspaces import RemovedRoots

if TYPE_CHECKING:
    from manager.admin.control.renewals import Renewals
    from manager.http import lazy_aiohttp as web

# Answers that are ready go out in milliseconds; a client that does not read must not hold the stop.
FLUSH_ANSWERS_S: Final = 2.0
OnReady = Callable[[str], None]
ReadStatus = Callable[[], dict[str, Any]]


def run(
    settings: Settings, paths: Paths, on_ready: OnReady | None = None, *, started_by: StartedBy = "foreground"
) -> int:
    """Run the manager until it is asked to stop; returns an exit code of `exit_codes`.

    Does not return if it is asked to restart: the process becomes the installed program.

    Args:
        on_ready: called with the endpoint's URL once requests are answered.
        started_by: who runs this process.
    """
    use_one_heap()  # before the first thread
    daemon = Daemon(settings, paths, on_ready, started_by=started_by)
    erase_values(lambda name: not is_harmless(name))
    with unblocked(sys.stderr) as stream, asyncio.Runner(loop_factory=loop_factory()) as runner:
        configure(settings.log_level, settings.log_format, stream)
        if loose := sum(map(make_tight, (paths.state_dir, paths.runtime_dir))):
            logger().warning("files.made_private", count=loose)
        code = runner.run(daemon.serve())
    if daemon.replacement is None:
        return code
    try:
        daemon.replacement.execute()
    except OSError as error:
        logger().error("restart.failed", why=str(error))
        return exit_codes.FAILED


class Daemon:
    """One manager. Every task it starts has a name and is cancelled at the end.

    Attributes:
        replacement: what the installed program takes over; set when `serve` ends because of a restart.
    """

    def __init__(
        self,
        settings: Settings,
        paths: Paths,
        on_ready: OnReady | None = None,
        *,
        started_by: StartedBy = "foreground",
    ) -> None:
        self.replacement: Replacement | None = None
        self._settings, self._paths = settings, paths
        self._on_ready = on_ready
        self._log = logger()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stop_requested = asyncio.Event()
        self._stop_forced = asyncio.Event()
        self._stream_endings = StreamEndings()
        self._keep_servers = self._restarts = False
        self._started_by, self._started_at = started_by, time.monotonic()

    async def serve(self) -> int:
        """Acquire, serve until the stop, release. Returns the exit code."""
        lock = await acquire_lock(self._paths)
        if isinstance(lock, int):
            return lock
        with log_file(self._paths.log_file), contextlib.ExitStack() as held:
            held.callback(lock.release)
            listener = await acquire_port(self._settings)
            if isinstance(listener, int):
                return listener
            self._kept = None if listener is None else listener.dup()  # servers close theirs
            held.callback(lambda: None if self.replacement or not self._kept else self._kept.close())
            async with AsyncExitStack() as stack:
                if listener is not None:
                    stack.callback(listener.close)
                await self._serve(lock, listener, stack)
            self._log.info("shutdown", state="done", restarts=self._restarts)
            if self._restarts:
                self.replacement = Replacement(self._kept, lock.hand_over())
            return exit_codes.OK

    # -- acquire ------------------------------------------------------------------------------------------

    async def _serve(self, lock: Lock, listener: socket.socket | None, stack: AsyncExitStack) -> None:
        port, address = address_of(listener)
        started_at = datetime.datetime.now(datetime.UTC).isoformat()
        lock.describe(address=address, version=__version__, started_at=started_at)
        peer_lookup = find_peer_lookup()
        parts = assemble(
            self._settings,
            self._paths,
            port,
            address=address,
            own_task=self.own,
            stop=self.ask_to_stop,
            started_by=self._started_by,
            streams_end=self._stream_endings,
            proof_reason=self._proof_reason(peer_lookup),
        )
        await self._restore(parts, stack)
        stack.enter_context(watched(asyncio.get_running_loop()))

        def status() -> dict[str, Any]:
            return parts.status.payload(time.monotonic(), time.time(), self._started_at)

        runner, endpoint = self._make_runners(parts, status, port, same_user_check(peer_lookup))
        used = DaemonParts(
            parts.control,
            status,
            parts.measures,
            parts.waiting_calls,
            parts.session_manager,
            parts.workspaces,
            endpoint.open,
        )
        for feature in parts.features.values():
            feature.connect(used)
        control = await self._open_control(parts, status, stack)
        routes = parts.routes
        servers = await runner.listen([listener] if listener else [], routes.serve, routes.fast_path)
        self.own(installation.load([one.load for one in (control, runner) if one]), "late modules")
        self._handle_signals()
        self._start_tasks(parts, status)
        files = OwnFiles(self._paths, lock, parts.store, parts.workspaces, control)
        self.own(files.look_after(), "own files")
        self._log.info("ready", address=address, pid=os.getpid(), version=__version__)
        systemd.notify(READY=1, STATUS=f"serving {address}")
        if self._on_ready is not None:
            self._on_ready(address)
        await self._stop_requested.wait()
        for server in servers:
            server.close()
        endpoint.stop_listening()
        await self._release(parts)
        await endpoint.close()
        await runner.cleanup()

    def _start_tasks(self, parts: Parts, status: Callable[[], dict[str, Any]]) -> None:
        """Start what runs beside requests until the manager stops."""
        self.own(parts.registered_servers.run(), "registered servers")
        self.own(parts.upstream_subscriptions.run(), "upstream subscriptions")
        self.own(parts.fork_server.run(), "fork server")
        self.own(parts.measures.run(), "measures")
        self.own(parts.client_processes.run(), "client processes")
        self.own(FreedMemory(lambda: parts.buffers.in_use).run(), "freed memory")
        self.own(parts.installation.run(), "installation")
        for name, feature in parts.features.items():
            self.own(feature.run(), name)
        self.own(housekeep(parts, self._settings.workspace_idle_s), "housekeeping")
        self.own(RemovedRoots(parts.workspaces).run(), "removed roots")

    async def _restore(self, parts: Parts, stack: AsyncExitStack) -> None:
        """Open the state file and restore workspaces and servers, then sessions."""
        for feature in parts.features.values():
            stack.push_async_callback(feature.close)
        loaded = await parts.store.open()
        stack.push_async_callback(parts.store.close)
        stack.push_async_callback(asyncio.to_thread, remove_leftover_files, self._paths.runtime_dir)
        stack.push_async_callback(self._cancel_tasks)
        stack.push_async_callback(parts.registered_servers.close)
        await parts.workspaces.restore(loaded)
        parts.session_manager.restore(loaded.sessions)
        stack.push_async_callback(parts.session_manager.flush)

    async def _open_control(
        self, parts: Parts, status: ReadStatus, stack: AsyncExitStack
    ) -> ControlListener | None:
        if sys.platform == "win32":
            return None

        def make(renewals: Renewals) -> web.AppRunner:
            from manager.listener.pages import control_runner  # noqa: PLC0415  with aiohttp, after the start

            measures, features = parts.measures.snapshot, parts.features.values()
            return control_runner(
                parts.control, renewals, status, measures, paths=self._paths, features=features
            )

        control = ControlListener(self._paths.control_socket, parts.control, make, self._paths.former_dirs)
        stack.push_async_callback(control.close)
        await control.open()
        return control

    def _proof_reason(self, peer_lookup: PeerUid | None) -> str | None:
        if self._settings.require_token:
            return SETTING
        if peer_lookup is not None:
            return None
        self._log.warning("peer check unavailable", why=UNKNOWN_USERS, so="the port asks for tokens")
        return UNKNOWN_USERS

    def _make_runners(
        self, parts: Parts, status: ReadStatus, port: int, check: PeerCheck
    ) -> tuple[Runner, PrivateEndpoint]:
        """What serves the port, and the private endpoint, which listens once a feature asks for it."""
        cap, routes = self._settings.body_limit, parts.routes

        def app() -> web.Application:
            from manager.listener.pages import port_app  # noqa: PLC0415  with aiohttp, after the start

            return port_app(parts.control, status, parts.measures.snapshot, parts.features.values())

        limits, buffers = connection_limits(self._settings), parts.buffers
        rules = AdmissionRules.for_ports([port], body_cap=cap)
        runner = Runner(app, rules, limits=limits, peer_check=check, buffers=buffers, gate=parts.guest_gate)
        rules, check = AdmissionRules.for_managers(body_cap=cap), parts.control.peer_allowed
        others = Runner(app, rules, limits=limits, peer_check=check, buffers=buffers)
        endpoint = PrivateEndpoint(self._paths.tunnel_socket, others, routes.serve, routes.fast_path)
        return runner, endpoint

    # -- run ----------------------------------------------------------------------------------------------

    def own(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in a task that is cancelled when the daemon ends."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_task_end)
        return task

    def _note_task_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log.error("task.failed", task=task.get_name(), why=repr(fault), exc_info=fault)

    def ask_to_stop(self, reason: str, keep_servers: bool = False, restarts: bool = False) -> None:
        """Begin to stop. A second call stops without waiting for calls in flight, and restarts nothing."""
        if self._stop_requested.is_set():
            self._restarts = False
            self._log.warning("shutdown", state="forced", why=reason)
            self._stop_forced.set()
            return
        self._log.info("shutdown", state="begun", why=reason)
        self._keep_servers, self._restarts = keep_servers, restarts
        self._stop_requested.set()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        numbers = {signal.SIGTERM, signal.SIGINT}
        # a closed terminal; `nohup` has it ignored, and then it stays ignored
        if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.add(signal.SIGHUP)
        for number in numbers:
            with contextlib.suppress(NotImplementedError):  # not on every platform's loop
                loop.add_signal_handler(number, self.ask_to_stop, number.name)

    # -- release ------------------------------------------------------------------------------------------

    async def _release(self, parts: Parts) -> None:
        """Stop in order. Calls that cannot finish get an answer, because their servers end first."""
        if self._restarts:  # the same process goes on: for systemd the service never stops
            systemd.notify(STATUS="restarting")
        else:
            if self._kept is not None:
                self._kept.close()  # clients that connect now are refused at once
            systemd.notify(STOPPING=1)
        for name, feature in parts.features.items():
            self.own(feature.drain(), f"{name} drains")
        await self._drain(parts.routes, parts.session_manager)
        await parts.registered_servers.close()
        await parts.workspaces.close(keep=self._keep_servers)
        await parts.routes.open_requests.drained(FLUSH_ANSWERS_S)

    async def _drain(self, routes: McpRoutes, session_manager: SessionManager) -> None:
        """Refuse new requests, end the streams, and wait for calls in flight unless the stop is forced."""
        routes.open_requests.is_draining = True
        session_manager.streams.close_all()
        session_manager.abandon_pending_requests()
        self._stream_endings.end_all()
        settled = self.own(routes.open_requests.drained(self._settings.drain_s), "calls in flight")
        forced = self.own(self._stop_forced.wait(), "forced stop")
        await asyncio.wait({settled, forced}, return_when=asyncio.FIRST_COMPLETED)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
