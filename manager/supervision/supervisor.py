"""Supervises one workspace's server: starts it on demand, watches its health, restarts and stops it.

`routing/state/lifecycle.py` has the states, `launcher.py` starts the process. Servers that registered
themselves are not supervised (`registered_servers.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from manager.log import logger
from manager.routing.state.lifecycle import Lifecycle, State
from manager.store import InstanceRow
from manager.supervision import process
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Figures, Instance
from manager.supervision.launcher import FailedStart, Launcher
from manager.upstream.failures import UpstreamFailure
from protocol import names
from protocol.errors import Reason, Refusal
from protocol.internal import launch

KILL_AFTER_S: Final = 9.0
"""Seconds from SIGTERM to SIGKILL. A server needs up to 8 s to stop children that ignore SIGTERM."""
LIFELINE_RETRY_S: Final = 1.0


class Supervisor:
    """Starts, restarts and stops the server of one workspace; nothing else does."""

    def __init__(self, workspace: str, root: str, dependencies: Dependencies) -> None:
        self.workspace = workspace
        self.root = root
        self.lifecycle = Lifecycle(misses_allowed=dependencies.settings.health_misses)
        self.figures = Figures()
        self.instance: Instance | None = None
        self.last_exit: int | None = None
        self._dependencies = dependencies
        self._log = logger(workspace=workspace)
        self._launcher = Launcher(workspace, root, dependencies)
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._discarded: Instance | None = None
        self._closed = False

    @property
    def log_file(self) -> Path:
        """File with the server's output."""
        return self._launcher.log_file

    # -- used by callers --------------------------------------------------------------------------------

    async def ready(self, *, urgent: bool = False) -> Instance | Refusal:
        """Return the running server; start it and wait for it if needed. Concurrent callers share one start.

        Args:
            urgent: for a handshake: skip the back-off once, and restart an unhealthy server.
        """
        if self._stopping is not None:
            await asyncio.wait({self._stopping})
        if self.instance is not None and self.is_serving:
            return self.instance
        if self._closed:
            return self.offline("stopped")
        if self.lifecycle.state is State.UNHEALTHY:
            if not urgent:
                return self.offline("unhealthy")
            if self.instance is not None:
                self.replace(self.instance, "unhealthy")
        if self.lifecycle.state is State.CRASH_LOOPING and not urgent and self._wait_s() > 0:
            return self.offline("crash_looping", retry_after_ms=int(self._wait_s() * 1000))
        if urgent:
            self.lifecycle.forgive()
            self._wake.set()
        await asyncio.wait({self._ensure_started()}, timeout=self._dependencies.settings.start_timeout_s)
        if self.instance is not None and self.is_serving:
            return self.instance
        if self._closed or self._stopping is not None:
            return self.offline("stopped", retry_after_ms=1000)
        cause = "crash_looping" if self.lifecycle.state is State.CRASH_LOOPING else "start_timeout"
        return self.offline(cause, retry_after_ms=1000)

    def ready_now(self) -> Instance | None:
        """Return the server, or None if the caller has to wait. Does not check whether the process runs."""
        if self._stopping is not None or self.instance is self._discarded:
            return None
        return self.instance if self.lifecycle.is_serving else None

    @property
    def is_serving(self) -> bool:
        """Whether the process runs and answers. Its exit counts at once, even before it was handled."""
        if self.instance is None or self.instance is self._discarded:
            return False
        return self.lifecycle.is_serving and self.instance.is_alive

    def replace(self, instance: Instance, why: str) -> None:
        """Kill a server that does not answer. The next one starts without back-off once it has exited."""
        if self.instance is instance and instance.process is not None:
            self._discarded = instance
            self._log.warning("workspace.replaced", why=why, pid=instance.pid)
            instance.process.kill_group()

    def offline(self, cause: str, *, retry_after_ms: int | None = None) -> Refusal:
        """The refusal 47102 for a server that cannot be used; after a crash with its last output lines."""
        details: dict[str, Any] = {"workspace": self.workspace, "cause": cause}
        if cause in {"crash_looping", "start_timeout"}:
            if self.figures.last_error is not None:
                details["lastError"] = self.figures.last_error
            if lines := process.tail(self.log_file):
                details["stderrTail"] = lines
        return Refusal(
            Reason.WORKSPACE_SERVER_OFFLINE,
            f"resolved MCP server is offline: {cause}",
            delivered="no",
            retry_after_ms=retry_after_ms,
            details=details,
        )

    async def adopt(self, row: InstanceRow) -> bool:
        """Take over a server that a previous manager started. Returns False if it is gone."""
        instance = await self._launcher.adopt(row)
        if instance is None:
            return False
        self.lifecycle.start(self._dependencies.now())
        self._serve(instance)
        self._log.info("workspace.adopted", pid=instance.pid, port=row.port)
        return True

    async def stop(self) -> None:
        """Stop the server: SIGTERM, wait, SIGKILL to its process group. It may be started again later."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name=f"stop {self.workspace}")
            self._stopping.add_done_callback(lambda _: setattr(self, "_stopping", None))
        await asyncio.wait({self._stopping})

    async def close(self, *, keep: bool = False) -> None:
        """Stop permanently. With `keep` the server keeps running, for the next manager to adopt."""
        self._closed = True
        if not keep:
            await self.stop()
        await self._cancel({*self._tasks, *([self._starting] if self._starting else [])})
        if self.instance is not None:
            await self.instance.pool.close()
            if self.instance.process is not None:
                self.instance.process.release()
            self.instance = None
        self._launcher.close()

    # -- starting --------------------------------------------------------------------------------------

    def _ensure_started(self) -> asyncio.Task[None]:
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._bring_up(), name=f"start {self.workspace}")
        return self._starting

    def _wait_s(self) -> float:
        return self.lifecycle.wait_before_start(self._dependencies.now())

    async def _bring_up(self) -> None:
        while not self._closed and not self.is_serving:
            if self.instance is not None:  # being replaced: `_watch` waits for its exit
                await self._wait_for_wake(0.1)
                continue
            if (delay := self._wait_s()) > 0:
                await self._wait_for_wake(delay)
                continue
            await self._start_once()
            if self.lifecycle.state is State.CRASH_LOOPING:
                exits = self.lifecycle.fast_exits
                self._log.error("workspace.crash_looping", exits=exits, last_exit=self.last_exit)
                return

    async def _wait_for_wake(self, seconds: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _start_once(self) -> None:
        self.lifecycle.start(self._dependencies.now())
        outcome: Instance | FailedStart = FailedStart("the start was cancelled")
        try:
            outcome = await self._launcher.start()
        finally:
            if isinstance(outcome, FailedStart):
                self._record_exit(never_ready=True)
        if isinstance(outcome, FailedStart):
            self.last_exit, self.figures.last_error = outcome.exit_code, outcome.why
            self._log.error("workspace.start_failed", why=outcome.why)
            return
        self._serve(outcome)
        self._log.info("workspace.ready", pid=outcome.pid, port=outcome.port)

    def _record_exit(self, *, never_ready: bool = False) -> None:
        dependencies = self._dependencies
        self.lifecycle.exited(dependencies.now(), dependencies.rng.random(), never_ready=never_ready)

    # -- while it runs ---------------------------------------------------------------------------------

    def _serve(self, instance: Instance) -> None:
        self.instance = instance
        self.lifecycle.answered()
        self._watching = self._own(self._watch(instance), "watch")
        self._own(self._poll_health(instance), "health")
        self._own(self._hold_lifeline(instance), "lifeline")

    def _own(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{what} {self.workspace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, instance: Instance) -> None:
        """Handle the exit of the process. An unexpected exit is followed by a restart."""
        assert instance.process is not None  # noqa: S101  narrows the type: only started ones are watched
        self.last_exit = await instance.process.wait()
        was_requested = self.lifecycle.state is State.STOPPING
        self.instance, self.figures.tasks = None, 0
        self._record_exit()
        if instance is self._discarded:
            self._discarded = None
            self.lifecycle.forgive()
        self._wake.set()
        if not was_requested:
            self.figures.last_error = f"exited with code {self.last_exit}"
            self._log.warning("workspace.exited", pid=instance.pid, code=self.last_exit)
        await self._launcher.forget(instance)
        unwanted = was_requested or self._closed or self._stopping is not None
        if not unwanted and self.lifecycle.state is not State.CRASH_LOOPING:
            self._ensure_started()

    async def _poll_health(self, instance: Instance) -> None:
        settings, dependencies = self._dependencies.settings, self._dependencies
        while self.instance is instance:
            pause = settings.health_interval_s * dependencies.rng.uniform(0.9, 1.1)
            before = dependencies.now()
            await dependencies.sleep(pause)
            asked = dependencies.now()
            if asked - before > pause + settings.health_timeout_s:
                continue  # this process was suspended: the server could not have answered in time
            try:
                health = launch.decode_health(await instance.check(settings.health_timeout_s, asked))
            except UpstreamFailure as failure:
                self._missed(instance, failure.cause)
            else:
                instance.latency_s = dependencies.now() - asked
                self.figures.tasks = 0 if health is None else health.tasks
                if self.instance is instance and self.lifecycle.state is not State.STOPPING:
                    self.lifecycle.answered()

    def _missed(self, instance: Instance, cause: str) -> None:
        if self.instance is not instance or self.lifecycle.state is State.STOPPING:
            return
        was = self.lifecycle.state
        self.lifecycle.missed(self._dependencies.now())
        if self.lifecycle.state is not was:
            self._log.warning("workspace.health", state=self.lifecycle.state.value, cause=cause)
        if self.lifecycle.hung_for(self._dependencies.now()) >= self._dependencies.settings.hung_restart_s:
            self.replace(instance, "hung")

    async def _hold_lifeline(self, instance: Instance) -> None:
        """Keep one request open. When it closes, the server knows that this manager is gone."""
        while self.instance is instance:
            with contextlib.suppress(UpstreamFailure):
                response = await instance.pool.request(
                    b"GET", names.LIFELINE_PATH.encode(), (instance.credentials(),), b""
                )
                try:
                    async for _ in response.chunks():
                        pass
                finally:
                    await response.aclose()
            await self._dependencies.sleep(LIFELINE_RETRY_S)

    # -- stopping --------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        if self._starting is not None:
            await self._cancel({self._starting})
        self.lifecycle.stop()
        instance, watching = self.instance, self._watching
        if watching is not None:
            if instance is not None and instance.process is not None:
                instance.process.terminate()
                await asyncio.wait({watching}, timeout=KILL_AFTER_S)
                instance.process.kill_group()
            await asyncio.wait({watching})
        await self._cancel(self._tasks)
        self._launcher.close()

    async def _cancel(self, tasks: set[Any]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
