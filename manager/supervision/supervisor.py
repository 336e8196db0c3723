"""Keeps one workspace's server alive: starts it once however many ask, watches, restarts, stops.

The states are `routing/state/lifecycle.py`; how a server comes up is `launcher.py`. Servers that somebody
else started are never supervised, only asked (`registered_servers.py`).
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
from manager.upstream.response import UpstreamFailure
from protocol import names
from protocol.errors import Reason, Refusal
from protocol.internal import launch

KILL_AFTER_S: Final = 9.0
"""A server that ends its own children in order needs up to 8 s for hostile ones."""
LIFELINE_RETRY_S: Final = 1.0


class Supervisor:
    """The one owner of life and death of one workspace's server."""

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
        """Where the server's output goes."""
        return self._launcher.log_file

    # -- what callers ask ------------------------------------------------------------------------------

    async def ready(self, *, urgent: bool = False) -> Instance | Refusal:
        """The running server, started if need be and awaited; fifty callers start one.

        Args:
            urgent: a handshake asks: lift the back-off once, restart what is unhealthy.
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
        """The server, None where it must be waited for. Whether it runs is not asked: connections tell."""
        is_ready = (
            self._stopping is None and self.instance is not self._discarded and self.lifecycle.is_serving
        )
        return self.instance if is_ready else None

    @property
    def is_serving(self) -> bool:
        """Whether a live process answers; its end counts at once, before it was acted upon."""
        if self.instance is None or self.instance is self._discarded:
            return False
        return self.lifecycle.is_serving and self.instance.is_alive

    def replace(self, instance: Instance, why: str) -> None:
        """End a server that does not answer; the next one is started, without back-off, when it is gone."""
        if self.instance is instance and instance.process is not None:
            self._discarded = instance
            self._log.warning("workspace.replaced", why=why, pid=instance.pid)
            instance.process.kill_group()

    def offline(self, cause: str, *, retry_after_ms: int | None = None) -> Refusal:
        """The refusal for a server that cannot be used, with its last words where it crashed (47102)."""
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
        """Take over a server that a former manager started; whether it could be."""
        instance = await self._launcher.recognise(row)
        if instance is None:
            return False
        self.lifecycle.start(self._dependencies.now())
        self._serve(instance)
        self._log.info("workspace.adopted", pid=instance.pid, port=row.port)
        return True

    async def stop(self) -> None:
        """Stop the server in order: ask, wait, end its whole group. It may be started again later."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name=f"stop {self.workspace}")
            self._stopping.add_done_callback(lambda _: setattr(self, "_stopping", None))
        await asyncio.wait({self._stopping})

    async def close(self, *, keep: bool = False) -> None:
        """Stop for good. With `keep` the server goes on running for the next manager to adopt."""
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
            if self.instance is not None:  # one that is being replaced; its end is awaited by its watch
                await self._wait_for_wake(0.1)
                continue
            if (delay := self._wait_s()) > 0:
                await self._wait_for_wake(delay)
                continue
            await self._start_once()
            if self.lifecycle.state is State.CRASH_LOOPING:
                self._log.error(
                    "workspace.crash_looping", exits=self.lifecycle.fast_exits, last_exit=self.last_exit
                )
                return

    async def _wait_for_wake(self, seconds: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _start_once(self) -> None:
        self.lifecycle.start(self._dependencies.now())
        outcome: Instance | FailedStart = FailedStart("was not waited for")
        try:
            outcome = await self._launcher.start()
        finally:
            if isinstance(outcome, FailedStart):
                self.lifecycle.exited(
                    self._dependencies.now(), self._dependencies.rng.random(), never_ready=True
                )
        if isinstance(outcome, FailedStart):
            self.last_exit, self.figures.last_error = outcome.exit_code, outcome.why
            self._log.error("workspace.start_failed", why=outcome.why)
            return
        self._serve(outcome)
        self._log.info("workspace.ready", pid=outcome.pid, port=outcome.port)

    # -- while it runs ---------------------------------------------------------------------------------

    def _serve(self, instance: Instance) -> None:
        self.instance = instance
        self.lifecycle.answered()
        self._watching = self._own(self._watch(instance), "watch")
        self._own(self._ask_health(instance), "health")
        self._own(self._hold_lifeline(instance), "lifeline")

    def _own(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{what} {self.workspace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, instance: Instance) -> None:
        """Notice the end at once, whoever caused it; what was not asked for is followed by a start."""
        assert instance.process is not None  # noqa: S101  narrows the type: only started ones are watched
        self.last_exit = await instance.process.wait()
        asked_for = self.lifecycle.state is State.STOPPING
        self.instance, self.figures.tasks = None, 0
        self.lifecycle.exited(self._dependencies.now(), self._dependencies.rng.random())
        if instance is self._discarded:
            self._discarded = None
            self.lifecycle.forgive()
        self._wake.set()
        if not asked_for:
            self.figures.last_error = f"ended with code {self.last_exit}"
            self._log.warning("workspace.exited", pid=instance.pid, code=self.last_exit)
        await self._launcher.forget(instance)
        unwanted = asked_for or self._closed or self._stopping is not None
        if not unwanted and self.lifecycle.state is not State.CRASH_LOOPING:
            self._ensure_started()

    async def _ask_health(self, instance: Instance) -> None:
        settings, dependencies = self._dependencies.settings, self._dependencies
        while self.instance is instance:
            pause = settings.health_interval_s * dependencies.rng.uniform(0.9, 1.1)
            before = dependencies.now()
            await dependencies.sleep(pause)
            asked = dependencies.now()
            if asked - before > pause + settings.health_timeout_s:
                continue  # we were suspended ourselves: no judgement about others
            try:
                said = launch.decode_health(
                    await instance.check(settings.health_timeout_s, dependencies.now())
                )
            except UpstreamFailure as failure:
                self._missed(instance, failure.cause)
            else:
                instance.latency_s = dependencies.now() - asked
                self.figures.tasks = 0 if said is None else said.tasks
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
        """Keep one request open for as long as we live: its end tells the server that we are gone."""
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
