"""Asks one workspace server regularly for its health, and tells a slow server from one that hangs.

`routing/state/lifecycle.py` decides what a missed answer means. A server that runs, or would run on a machine
that is less busy, is slow; one that neither runs nor waits for a processor hangs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from lm_tools_bridge.protocol.internal import launch
from manager.routing.state.lifecycle import Lifecycle, State
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Figures, Instance
from manager.upstream.failures import UpstreamFailure

_WAITS: Final = 0.1
"""Share of the time that a slow server waits for a processor at least."""
_RUNS: Final = 0.005
"""Share of the time that a server runs at least, to be slow for reasons of its own."""
_NEVER_RESTS: Final = 0.8
"""Share of the time from which a server is in an endless loop."""


class ProcessorTime(NamedTuple):
    """What the main thread of a process had of the processors since its start.

    Attributes:
        ran_s: seconds that it ran.
        waited_s: seconds that it could have run, but others did.
        is_blocked: whether it waits for a disk or for swapped memory at this moment.
    """

    ran_s: float
    waited_s: float = 0.0
    is_blocked: bool = False


def is_slow(before: ProcessorTime | None, after: ProcessorTime | None, seconds: float) -> bool:
    """Whether a process that did not answer works on it: it runs, or would run if it were let.

    Args:
        before: what it had when it was asked; None if unknown.
        after: what it had when it had still not answered.
        seconds: the time between.

    Returns:
        False for one that sleeps, is stopped, or does nothing but compute; also if nothing is known.
    """
    if before is None or after is None or seconds <= 0:
        return False
    ran, waited = (after.ran_s - before.ran_s) / seconds, (after.waited_s - before.waited_s) / seconds
    if ran >= _NEVER_RESTS:
        return False
    return after.is_blocked or waited >= _WAITS or ran >= _RUNS


# `schedstat` counts nanoseconds.
_NANO: Final = 1e-9


def of_process(pid: int) -> ProcessorTime | None:
    """What the main thread of a process had since its start; None if that is unknown."""
    if sys.platform != "linux":
        return _elsewhere(pid)
    folder = Path(f"/proc/{pid}")
    try:
        ran, waited, _ = (folder / "schedstat").read_bytes().split()
        state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return ProcessorTime(int(ran) * _NANO, int(waited) * _NANO, state == b"D")


def _elsewhere(pid: int) -> ProcessorTime | None:
    import psutil

    try:
        used = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return ProcessorTime(used.user + used.system)


LATE_S: Final = 0.5
"""A deadline that is noticed so much too late says that this process had to wait, not the server."""


class HealthPoll(msgspec.Struct, frozen=True):
    """The health requests to one instance.

    Attributes:
        instance: the server.
        lifecycle: gets the outcomes.
        figures: gets the number of tasks.
        dependencies: settings, clock, sleep.
        is_current: whether the instance is still the one that is supervised.
        on_hung: is called when the server has to be replaced.
        log: the log of its workspace.
        time_of: reads the processor time of a process; None if unknown.
    """

    instance: Instance
    lifecycle: Lifecycle
    figures: Figures
    dependencies: Dependencies
    is_current: Callable[[], bool]
    on_hung: Callable[[], None]
    log: Any
    time_of: Callable[[int], ProcessorTime | None] = of_process

    async def run(self) -> None:
        """Ask until the instance is no longer current."""
        settings, dependencies = self.dependencies.settings, self.dependencies
        while self.is_current():
            pause = settings.health_interval_s * dependencies.rng.uniform(0.9, 1.1)
            before = dependencies.now()
            await dependencies.sleep(pause)
            if dependencies.now() - before > pause + settings.health_timeout_s:
                continue  # this process was suspended: the server could not have answered in time
            await self._ask(settings.health_timeout_s)

    async def _ask(self, deadline_s: float) -> None:
        asked_at, had = self.dependencies.now(), self._time()
        try:
            health = launch.decode_health(await self.instance.check(deadline_s, asked_at))
        except UpstreamFailure as failure:
            seconds = self.dependencies.now() - asked_at
            if seconds > deadline_s + LATE_S:
                return  # the answer may have been there
            slow = failure.cause == "timeout" and is_slow(had, self._time(), seconds)
            self._missed("slow" if slow else failure.cause, slow=slow)
            return
        self.instance.latency_s = self.dependencies.now() - asked_at
        self.figures.tasks = 0 if health is None else health.tasks
        if self._counts():
            was = self.lifecycle.state
            self.lifecycle.answered()
            if self.lifecycle.state is not was:
                self.log.info("workspace.health", state=self.lifecycle.state.value, was=was.value)

    def _missed(self, cause: str, *, slow: bool) -> None:
        if not self._counts():
            return
        was, now = self.lifecycle.state, self.dependencies.now()
        self.lifecycle.missed(now, is_slow=slow)
        if self.lifecycle.state is not was:
            self.log.warning("workspace.health", state=self.lifecycle.state.value, cause=cause)
        if self.lifecycle.hung_for(now) >= self.dependencies.settings.hung_restart_s:
            self.on_hung()

    def _counts(self) -> bool:
        return self.is_current() and self.lifecycle.state is not State.STOPPING

    def _time(self) -> ProcessorTime | None:
        return None if self.instance.pid is None else self.time_of(self.instance.pid)
