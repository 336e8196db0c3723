"""Keeps one kind of server available: starts it once for all callers, replaces it, and stops it when idle."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from lm_tools_bridge.backoff import backoff
from lm_tools_bridge.code_intelligence.peer import MakeSync
from lm_tools_bridge.code_intelligence.server import ServerGone, ServerStatus
from lm_tools_bridge.code_intelligence.server_process.hang_check import memory_use
from lm_tools_bridge.code_intelligence.server_process.launch import USUAL, Launch, Timeouts
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from workspace_server import log

State = Literal["idle", "starting", "ready", "backoff", "crash_looping"]
"""As those of sources: `lm_tools_bridge/protocol/internal/source_states.py`."""
SHORT_PAUSE_S: Final = 2.5
"""A caller waits for the next start if the pause is no longer."""
_GIB: Final = 1024**3  # bytes
SETTLED_S: Final = 60.0
"""A server that lived this long starts with a clean record."""
LOOP_ENDS: Final = 5
"""Two ends in a row are chance, as with a kill and an update; five are a fault of its installation."""
LOOP_WAIT_S: Final = 60.0
"""The pause after each of more than five ends in a row."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a server is stopped though it works.

    Attributes:
        idle_s: after so many seconds without a request.
        memory_bytes: with everything it started, it may use so much memory.
        check_s: how often this is looked at, in seconds.
        wait_s: how long a caller waits for a server that starts, in seconds.
    """

    idle_s: float = 30 * 60.0
    memory_bytes: int = 4 * _GIB
    check_s: float = 15.0
    wait_s: float = 30.0


USUAL_LIMITS: Final = Limits()


class ServerSupervisor:
    """The process of one kind of server.

    Attributes:
        state: `idle` before the first use, and after an idle stop.
        error: why it does not run, or why the last one ended, for a person.
        restarts: how often one was started because the one before ended or failed.
        server: the one that runs.
    """

    def __init__(
        self,
        name: str,
        make_sync: MakeSync,
        *,
        limits: Limits = USUAL_LIMITS,
        timeouts: Timeouts = USUAL,
        chance: Callable[[], float] = random.random,
        measure: Callable[[int], int | None] = memory_use,
    ) -> None:
        """Start nothing yet.

        Args:
            name: of the kind.
            make_sync: makes the part of each server that follows the project.
            limits: when it is stopped.
            timeouts: of each server.
            chance: random numbers in [0, 1).
            measure: returns the memory of a process; called in a thread.
        """
        self.state: State = "idle"
        self.error: str | None = None
        self.restarts = 0
        self.server: RunningServer | None = None
        self._name = name
        self._make_sync = make_sync
        self._limits = limits
        self._timeouts = timeouts
        self._chance = chance
        self._measure = measure
        self._clock = asyncio.get_running_loop().time
        self._restarts = ServerRestarts()
        self._launch: Launch | None = None
        self._started_at = 0.0
        self._failed_at: float | None = None
        self._memory: int | None = None
        self._starting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def get(self, launch: Launch) -> RunningServer:
        """The running server; starts it where there is none. However many ask, one is started.

        Args:
            launch: what to run; a server that was started with another one is replaced.

        Raises:
            ServerGone: there is none, and it is not time for another try.
        """
        until = self._clock() + self._limits.wait_s
        while not self._closed and self._clock() <= until:
            if self.server is not None and self._launch != launch:
                self.stop()
            if self.server is not None:
                self.server.last_used = self._clock()
                return self.server
            await self._begin(launch)
            if self._starting is not None:
                await asyncio.wait({self._starting}, timeout=max(0.0, until - self._clock()))
            if self.server is None:
                break
        raise ServerGone(self._why_not())

    def stop(self) -> None:
        """Stop the server in the background; the next caller starts it again."""
        if self._starting is not None:
            self._starting.cancel()
        if self.server is not None:
            self._release(self.server)
            self.state = "idle"

    def forget_failures(self) -> None:
        """Let the next caller start it at once, however often it ended: somebody may have mended it."""
        self._restarts = ServerRestarts()

    def status(self) -> ServerStatus:
        """Where it stands."""
        server = self.server
        age_s = None if self._failed_at is None else self._clock() - self._failed_at
        if server is None:
            return ServerStatus(
                self._name, self.state, restarts=self.restarts, error=self.error, error_age_s=age_s
            )
        return ServerStatus(
            self._name, self.state, server.pid, self._memory, server.freshness(), server.open_documents,
            self.restarts, self.error, server.version, age_s,
        )  # fmt: skip

    async def close(self) -> None:
        """End the server and start no other. Idempotent."""
        self._closed = True
        starting = self._starting
        self.stop()
        if starting is not None:
            await asyncio.wait({starting})
        ending = tuple(self._ending)
        try:
            if ending:
                await asyncio.wait(ending)
        except asyncio.CancelledError:
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)
            raise

    async def _begin(self, launch: Launch) -> None:
        """Begin to start the server, unless that is under way or it must rest for long."""
        pause = self._restarts.pause(self._clock())
        if self._starting is not None or pause > SHORT_PAUSE_S:
            return
        if pause:
            await asyncio.sleep(pause)
        if self._starting is None and self.server is None and not self._closed:
            self._starting = asyncio.create_task(self._start(launch), name=f"start-{self._name}")

    async def _start(self, launch: Launch) -> None:
        replaces = self.state in ("backoff", "crash_looping")
        self.state = "starting"
        try:
            if self._ending:
                await asyncio.wait(tuple(self._ending))  # never two processes of one kind at once
            server = await RunningServer.start(
                launch, self._make_sync, on_end=self._note_end, timeouts=self._timeouts
            )
        except ServerGone as failure:
            self._note_failure(str(failure), 0.0)
        except Exception as fault:  # noqa: BLE001  a start that breaks is one that failed
            log.fault("language_server_start_failed", fault, server=self._name)
            self._note_failure(f"{self._name} does not start ({type(fault).__name__})", 0.0)
        else:
            self.server, self._launch, self._started_at = server, launch, self._clock()
            self.state, self._memory = "ready", None
            self.restarts += replaces
            self._watching = asyncio.create_task(self._watch(server), name=f"check-{self._name}")
            if server.ended is not None:
                self._note_end(server.ended)
        finally:
            self._starting = None
            if self.state == "starting":  # cancelled
                self.state = "idle"

    def _note_end(self, reason: str) -> None:
        """The server ended by itself; `_start` handles one that is still starting."""
        server = self.server
        if server is None or server.ended is None:
            return
        log.info("language_server_ended", server=self._name, reason=reason)
        self._release(server)
        self._note_failure(f"{self._name} {reason}", self._clock() - self._started_at)

    def _note_failure(self, reason: str, lived_s: float) -> None:
        self.error, self._failed_at = reason, self._clock()
        self._restarts.note_end(self._clock(), lived_s, self._chance())
        self.state = "crash_looping" if self._restarts.looping else "backoff"

    def _release(self, server: RunningServer) -> None:
        self.server = None
        if self._watching is not None and self._watching is not asyncio.current_task():
            self._watching.cancel()
        task = asyncio.create_task(self._end(server), name=f"stop-{self._name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, server: RunningServer) -> None:
        try:
            await server.close()
        except Exception as fault:  # noqa: BLE001  it is over, whatever went wrong on the way
            log.fault("language_server_stop_failed", fault, server=self._name)

    async def _watch(self, server: RunningServer) -> None:
        """Stop a server that is idle, and replace one that uses too much memory."""
        while self.server is server:
            await asyncio.sleep(self._limits.check_s)
            limits = self._limits_of(self._launch)
            if not server.in_flight and self._clock() - server.last_used >= limits.idle_s:
                log.info("language_server_idle", server=self._name)
                self.stop()
                return
            used = self._memory = await asyncio.to_thread(self._measure, server.pid)
            if used is not None and used > limits.memory_bytes:
                limit = limits.memory_bytes / _GIB
                server.fail(
                    f"was ended: it used {used / _GIB:.1f} GiB of memory; the limit is {limit:.1f} GiB"
                )

    def _limits_of(self, launch: Launch | None) -> Limits:
        """The limits, with what the user configured for this server."""
        if launch is None:
            return self._limits
        return replace(
            self._limits,
            idle_s=launch.idle_s or self._limits.idle_s,
            memory_bytes=launch.memory_limit_bytes or self._limits.memory_bytes,
        )

    def _why_not(self) -> str:
        if self._closed:
            return f"{self._name} was stopped"
        if self._starting is not None:
            return f"{self._name} is still starting; ask again"
        pause = self._restarts.pause(self._clock())
        again = f"; it is started again in {pause:.0f} s" if pause >= 1 else ""
        return f"{self.error or f'{self._name} was stopped'}{again}"


@dataclass(slots=True)
class ServerRestarts:
    """The ends of one server. Times are monotonic seconds.

    Attributes:
        ends: how often it ended in a row without having lived for a minute.
        not_before: when it may be started again.
    """

    ends: int = 0
    not_before: float = 0.0

    @property
    def looping(self) -> bool:
        """Whether it ended so often that trying again helps little."""
        return self.ends >= LOOP_ENDS

    def note_end(self, now: float, lived_s: float, chance: float) -> None:
        """Note an end, or a start that failed (`lived_s` is 0 then)."""
        if lived_s >= SETTLED_S:
            self.ends = 0
        self.ends += 1
        self.not_before = now + (LOOP_WAIT_S if self.looping else backoff(self.ends, chance))

    def pause(self, now: float) -> float:
        """Seconds until it may be started; 0 if at once."""
        return max(0.0, self.not_before - now)
