"""Supervises one workspace's server: starts it on demand, watches its health, restarts and stops it.

`routing/state/lifecycle.py` has the states, `launcher.py` starts the process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from lm_tools_bridge.protocol.errors import Refusal
from manager.log import logger
from manager.routing.state.lifecycle import Lifecycle, State
from manager.state_file import InstanceRow
from manager.supervision.dependencies import Dependencies
from manager.supervision.health_poll import HealthPoll
from manager.supervision.instance import Figures, Instance
from manager.supervision.launcher import FailedStart, Launcher
from manager.supervision.lifeline import TaskEnds, hold_lifeline
from manager.supervision.process import LastOutput
from manager.supervision.refusals import server_offline

OBSTACLE_RETRY_MS: Final = 5000
"""When a caller should try again if no process could be started: ports and memory become free soon."""
KILL_AFTER_S: Final = 9.0
"""Seconds from SIGTERM to SIGKILL. A server needs up to 8 s to stop children that ignore SIGTERM."""


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
        self.output = LastOutput(self._launcher.log_file)
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._discarded: Instance | None = None
        self._leaving: set[Instance] = set()
        self._obstacle: str | None = None
        self._closed = False

    @property
    def moved_to(self) -> str | None:
        """Where the workspace's folder is now, if it was renamed under its server; None if unknown."""
        if self.instance is None or self.instance.process is None:
            return None
        return None if (folder := self.instance.process.folder) == self.root else folder

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
        return await self._why_not()

    async def _why_not(self) -> Refusal:
        """The refusal after a start that led to no server."""
        if self._obstacle is not None:
            return self.offline(self._obstacle, retry_after_ms=OBSTACLE_RETRY_MS)
        if self.lifecycle.state is State.CRASH_LOOPING:
            return self.offline("crash_looping", retry_after_ms=1000)
        await self.output.refresh()
        return self.offline("start_timeout", retry_after_ms=1000)

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

    @property
    def remote(self) -> None:
        """It runs on this machine."""

    @property
    def is_held(self) -> bool:
        """Whether a server runs."""
        return self.instance is not None

    def replace(self, instance: Instance, why: str) -> None:
        """Kill a server that does not answer. The next one starts without back-off once it has exited."""
        if self.instance is instance and instance.process is not None:
            self._discarded = instance
            self._log.warning("workspace.replaced", why=why, pid=instance.pid)
            instance.process.kill_group()

    def offline(self, cause: str, *, retry_after_ms: int | None = None) -> Refusal:
        """The refusal 47102 for a server that cannot be used; after a crash with its last output lines."""
        lines: Sequence[str] = ()
        error = None
        if cause in {"crash_looping", "start_timeout"}:
            lines, error = self.output.lines, self.figures.last_error
        elif cause == self._obstacle:
            error = self.figures.last_error
        return server_offline(
            self.workspace, cause, last_error=error, last_lines=lines, retry_after_ms=retry_after_ms
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
            if self._obstacle is not None:
                return  # no process was started; the next caller tries again
            if self.lifecycle.state is State.CRASH_LOOPING:
                exits = self.lifecycle.fast_exits
                self._log.error("workspace.crash_looping", exits=exits, last_exit=self.last_exit)
                return
            if self._dependencies.installation_problem is not None:
                return

    async def _wait_for_wake(self, seconds: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _start_once(self) -> None:
        self.lifecycle.start(self._dependencies.now())
        self._obstacle = None
        outcome: Instance | FailedStart = FailedStart("the start was cancelled")
        try:
            outcome = await self._launcher.start()
        finally:
            if isinstance(outcome, FailedStart) and outcome.cause is not None:
                self._obstacle = outcome.cause
                self.lifecycle.not_started()
            elif isinstance(outcome, FailedStart):
                self._record_exit(never_ready=True)
        if isinstance(outcome, FailedStart):
            self.last_exit, self.figures.last_error = outcome.exit_code, outcome.why
            await self.output.refresh()
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
        watching = self._own(self._watch(instance), "watch")
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        self._own(self._health_poll(instance).run(), "health")
        dependencies = self._dependencies
        lifeline = hold_lifeline(
            instance,
            lambda: self.instance is instance,
            lambda: self._hand_over(instance),
            dependencies.sleep,
            waiting_calls=dependencies.waiting_calls,
            task_ends=TaskEnds(self.workspace, dependencies.observer.observe_call, dependencies.now),
        )
        self._own(lifeline, "lifeline")

    def _own(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{what} {self.workspace}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, instance: Instance) -> None:
        """Handle the exit of the process. An unexpected exit is followed by a restart."""
        assert instance.process is not None  # noqa: S101  narrows the type: only started ones are watched
        code = await instance.process.wait()
        if instance in self._leaving:
            await self._launcher.forget(instance)
            self._leaving.discard(instance)
            return
        self.last_exit = code
        was_requested = self.lifecycle.state is State.STOPPING
        self.instance, self.figures.tasks = None, 0
        self._record_exit()
        if instance is self._discarded:
            self._discarded = None
            self.lifecycle.forgive()
        self._wake.set()
        if not was_requested:
            self.figures.last_error = instance.process.ending.words(code)
            self._log.warning("workspace.exited", pid=instance.pid, code=self.last_exit)
            await self.output.refresh()
        await self._launcher.forget(instance)
        unwanted = was_requested or self._closed or self._stopping is not None
        if not unwanted and self.lifecycle.state is not State.CRASH_LOOPING:
            self._ensure_started()

    def _health_poll(self, instance: Instance) -> HealthPoll:
        return HealthPoll(
            instance,
            self.lifecycle,
            self.figures,
            self._dependencies,
            is_current=lambda: self.instance is instance,
            on_hung=lambda: self.replace(instance, "hung"),
            log=self._log,
        )

    def _hand_over(self, instance: Instance) -> None:
        """Somebody else stops the server. It finishes its calls, while another one takes new ones."""
        if self.instance is not instance or self._closed or self._stopping is not None:
            return
        self._log.info("workspace.leaving", pid=instance.pid)
        self._leaving.add(instance)
        self.instance = None
        self.lifecycle.stop()
        self._record_exit()
        self._ensure_started()

    # -- stopping --------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        if self._starting is not None:
            await self._cancel({self._starting})
        self.lifecycle.stop()
        ending = [*self._leaving, *([self.instance] if self.instance is not None else [])]
        # those that call have been given their time, here or by the manager's own stop
        at_once = self.figures.in_flight > 0 or bool(self._leaving)
        for instance in ending:
            if instance.process is not None:
                instance.process.terminate(at_once=at_once)
        if self._watching:
            await asyncio.wait(self._watching, timeout=KILL_AFTER_S)
        for instance in ending:
            if instance.process is not None:
                instance.process.kill_group()
        if self._watching:
            await asyncio.wait(self._watching)
        await self._cancel(self._tasks)
        self._launcher.close()

    async def _cancel(self, tasks: set[Any]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
