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
from typing import TYPE_CHECKING, Any, Final

from host.peer_uid import tcp_peer_uid
from host.private_files import UnsafePathError, make_private
from http_server.limits import Limits
from manager import __version__, exit_codes, systemd
from manager.admin.routes import make_app
from manager.assembly import Parts, assemble
from manager.endpoints.mcp import McpRoutes
from manager.http.stream_endings import StreamEndings
from manager.listener.aiohttp_server import LazyAiohttpServer
from manager.listener.pages import control_runner
from manager.listener.peer_identity import SameUser, lookup_works
from manager.listener.runner import Runner
from manager.lock import Lock, LockHolder
from manager.log import configure, logger
from manager.paths import Paths
from manager.port import PortTaken, bind_fixed, private_socket
from manager.routing.request_heads.admission import AdmissionRules
from manager.sessions.session_manager import SessionManager
from manager.settings import Settings
from manager.supervision.workspaces import Workspaces

if TYPE_CHECKING:
    from aiohttp import web

HOUSEKEEPING_S: Final = 5.0
FLUSH_ANSWERS_S: Final = 2.0
CONTROL_BACKLOG: Final = 1024
HOST: Final = "127.0.0.1"
OnReady = Callable[[str], None]
ReadStatus = Callable[[], dict[str, Any]]


def run(settings: Settings, paths: Paths, on_ready: OnReady | None = None) -> int:
    """Run the manager until it is asked to stop; returns an exit code of `exit_codes`.

    `on_ready` is called with the endpoint's URL once requests are answered.
    """
    configure(settings.log_level, settings.log_format)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(Daemon(settings, paths, on_ready).serve())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415  not on every platform

    return uvloop.new_event_loop


class Daemon:
    """One manager. Every task it starts has a name and is cancelled at the end."""

    def __init__(self, settings: Settings, paths: Paths, on_ready: OnReady | None = None) -> None:
        self._settings = settings
        self._paths = paths
        self._on_ready = on_ready
        self._log = logger()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stop_requested = asyncio.Event()
        self._stop_forced = asyncio.Event()
        self._stream_endings = StreamEndings()
        self._keep_servers = False
        self._started_at = time.monotonic()

    async def serve(self) -> int:
        """Acquire, serve until the stop, release. Returns the exit code."""
        try:
            for folder in (self._paths.runtime_dir, self._paths.control_socket.parent):
                make_private(folder)
            with contextlib.suppress(OSError):  # then the manager serves from memory; the store logs that
                for folder in (self._paths.state_dir, self._paths.logs_dir):
                    make_private(folder)
            lock = await self._lock()
        except UnsafePathError as error:
            self._log.error("start.refused", why=f"{error.path} {error.reason}", hint=error.hint)
            return exit_codes.HOPELESS
        except OSError as error:
            hint = f"make {self._paths.runtime_dir} writable, or set LMTB_RUNTIME_DIR"
            self._log.error("start.refused", why=f"the runtime folder cannot be used: {error}", hint=hint)
            return exit_codes.HOPELESS
        if isinstance(lock, LockHolder):
            self._log.warning("start.refused", why=f"another manager serves already: {lock}")
            return exit_codes.OK
        try:
            try:
                listener = await self._listener()
            except OSError as error:
                hint = "choose another http_port"
                self._log.error("start.refused", why=f"{HOST}:{self._settings.http_port}: {error}", hint=hint)
                return exit_codes.HOPELESS
            if isinstance(listener, systemd.UnusableSockets):
                self._log.error("start.refused", why=listener.reason, hint=listener.hint)
                return exit_codes.HOPELESS
            if isinstance(listener, PortTaken):
                self._log.error("start.refused", why=str(listener), hint="lmtb doctor tells more")
                return exit_codes.HOPELESS if listener.kind == "listener" else exit_codes.PORT_BUSY
            async with contextlib.AsyncExitStack() as stack:
                await self._serve(lock, listener, stack)
            self._log.info("shutdown", state="done")
            return exit_codes.OK
        finally:
            lock.release()

    async def _lock(self) -> Lock | LockHolder:
        """The lock, or its holder, which gets up to 1 s to write its address if it is just starting."""
        for _ in range(20):
            lock = Lock.acquire(self._paths.lock_file)
            if isinstance(lock, Lock) or lock.address is not None:
                break
            await asyncio.sleep(0.05)
        return lock

    async def _listener(self) -> socket.socket | PortTaken | systemd.UnusableSockets:
        handed = systemd.http_socket()
        return handed or await bind_fixed(
            HOST,
            self._settings.http_port,
            sleep=asyncio.sleep,
            monotonic=time.monotonic,
            on_wait=lambda taken: self._log.warning("start.waiting", why=str(taken)),
        )

    # -- acquire ------------------------------------------------------------------------------------------

    async def _serve(self, lock: Lock, listener: socket.socket, stack: contextlib.AsyncExitStack) -> None:
        port = listener.getsockname()[1]
        address = f"http://{HOST}:{port}/mcp"
        lock.describe(
            address=address, version=__version__, started_at=datetime.datetime.now(datetime.UTC).isoformat()
        )
        parts = assemble(
            self._settings,
            self._paths,
            port,
            address=address,
            own_task=self.own,
            stop=self.ask_to_stop,
            streams_end=self._stream_endings,
        )
        await self._restore(parts, stack)

        def status() -> dict[str, Any]:
            return parts.status.payload(time.monotonic(), time.time(), self._started_at)

        await self._open_control(parts, status, stack)
        servers, runner = await self._open_port(parts, status, listener, port)
        self._handle_signals()
        self.own(parts.registered_servers.run(), "registered servers")
        self.own(parts.upstream_subscriptions.run(), "upstream subscriptions")
        self.own(parts.fork_server.run(), "fork server")
        self.own(parts.measures.run(), "measures")
        self.own(self._housekeep(parts.session_manager, parts.workspaces), "housekeeping")
        self._log.info("ready", address=address, pid=os.getpid(), version=__version__)
        systemd.notify(READY=1, STATUS=f"serving {address}")
        if self._on_ready is not None:
            self._on_ready(address)
        await self._stop_requested.wait()
        for server in servers:
            server.close()
        await self._release(parts)
        await runner.cleanup()

    async def _restore(self, parts: Parts, stack: contextlib.AsyncExitStack) -> None:
        """Open the state file and restore workspaces and servers, then sessions."""
        loaded = await parts.store.open()
        stack.push_async_callback(parts.store.close)
        stack.push_async_callback(self._cancel_tasks)
        stack.push_async_callback(parts.registered_servers.close)
        await parts.workspaces.restore(loaded)
        parts.session_manager.restore(loaded.sessions)
        stack.push_async_callback(parts.session_manager.flush)

    async def _open_control(self, parts: Parts, status: ReadStatus, stack: contextlib.AsyncExitStack) -> None:
        if sys.platform == "win32":
            return
        path = self._paths.control_socket
        path.unlink(missing_ok=True)  # this process holds the lock, so the socket is a leftover
        server = LazyAiohttpServer(lambda: control_runner(parts.control, status, parts.measures.snapshot))
        stack.push_async_callback(server.close)
        sock = private_socket(path)
        stack.callback(path.unlink, missing_ok=True)
        loop = asyncio.get_running_loop()
        stack.callback((await loop.create_server(server.protocol, sock=sock, backlog=CONTROL_BACKLOG)).close)

    async def _open_port(
        self, parts: Parts, status: ReadStatus, listener: socket.socket, port: int
    ) -> tuple[list[asyncio.Server], Runner]:
        settings = self._settings
        limits = Limits(
            head_s=settings.header_timeout_s,
            body_s=settings.body_timeout_s,
            keepalive_s=settings.keep_alive_s,
            connections=settings.connection_limit,
        )
        rules = AdmissionRules.for_ports([port], body_cap=settings.body_limit)
        check = None
        if sys.platform != "win32":
            works = lookup_works(tcp_peer_uid, os.getuid())
            if not works:
                self._log.warning(
                    "peer check unavailable", why="the owner of a local connection cannot be looked up here"
                )
            check = SameUser(tcp_peer_uid, os.getuid(), lookup_works=works)

        def app() -> web.Application:
            return make_app(parts.control, status, parts.measures.snapshot)

        runner = Runner(app, rules, limits=limits, peer_check=check)
        return await runner.listen([listener], parts.routes.serve, parts.routes.route_cache), runner

    # -- run ----------------------------------------------------------------------------------------------

    def own(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in a task that is cancelled when the daemon ends."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log.error("task.failed", task=task.get_name(), fault=repr(fault))

    def ask_to_stop(self, reason: str, keep_servers: bool = False) -> None:
        """Begin to stop. A second call stops without waiting for calls in flight."""
        if self._stop_requested.is_set():
            self._log.warning("shutdown", state="forced", why=reason)
            self._stop_forced.set()
            return
        self._log.info("shutdown", state="begun", why=reason)
        self._keep_servers = keep_servers
        self._stop_requested.set()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # not on every platform's loop
                loop.add_signal_handler(number, self.ask_to_stop, number.name)

    async def _housekeep(self, session_manager: SessionManager, workspaces: Workspaces) -> None:
        idle_s = self._settings.workspace_idle_s
        pause = min(HOUSEKEEPING_S, systemd.watchdog_interval() or HOUSEKEEPING_S)
        while True:
            systemd.notify(WATCHDOG=1)
            await session_manager.housekeep()
            await workspaces.stop_idle(session_manager.active_workspaces(idle_s))
            session_manager.notifier.notify_recovered(
                {one.id for one in workspaces if one.supervisor.is_serving}
            )
            await asyncio.sleep(pause)

    # -- release ------------------------------------------------------------------------------------------

    async def _release(self, parts: Parts) -> None:
        """Stop in order. Calls that cannot finish get an answer, because their servers end first."""
        parts.status.is_draining = True
        systemd.notify(STOPPING=1)
        await self._drain(parts.routes, parts.session_manager)
        await parts.registered_servers.close()
        await parts.workspaces.close(keep=self._keep_servers)
        await parts.routes.open_requests.drained(FLUSH_ANSWERS_S)

    async def _drain(self, routes: McpRoutes, session_manager: SessionManager) -> None:
        """Refuse new requests, end the streams, and wait for calls in flight unless the stop is forced."""
        routes.is_draining = True
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
