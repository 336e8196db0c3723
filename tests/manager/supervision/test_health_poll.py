"""Health requests: what counts as a miss, on a clock that only the test moves."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from manager.configuration.settings import Settings
from manager.routing.state.lifecycle import SLOW_S, Lifecycle, State
from manager.state_file import Store
from manager.supervision import health_poll
from manager.supervision.dependencies import Dependencies
from manager.supervision.health_poll import HealthPoll, ProcessorTime, is_slow
from manager.supervision.instance import Figures, Instance
from manager.upstream.failures import Blame, UpstreamFailure

SETTINGS = Settings(health_interval_s=5, health_timeout_s=1, health_misses=3, hung_restart_s=30)


@dataclass
class Polled:
    """A server whose answers the test chooses: None for an answer, else the cause of the failure."""

    answers: list[str | None]
    takes_s: float = 1.0
    processor: list[ProcessorTime] = field(default_factory=list)
    now: float = 100.0
    replaced_at: list[float] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    pid: int = 1
    latency_s: float | None = None

    async def check(self, deadline_s: float, now: float) -> bytes:
        cause = self.answers.pop(0)
        if cause is None:
            return b"{}"
        self.now += self.takes_s
        raise UpstreamFailure(Blame.NOT_DELIVERED, cause)

    async def run(self, folder: Path) -> Lifecycle:
        """Ask until there are no answers left."""
        cycle = Lifecycle(misses_allowed=SETTINGS.health_misses)
        cycle.start(0.0)
        cycle.answered()

        async def sleep(seconds: float) -> None:
            self.states.append(cycle.state)
            self.now += seconds

        poll = HealthPoll(
            cast("Instance", self),
            cycle,
            Figures(),
            Dependencies(
                SETTINGS,
                cast("Store", None),
                folder,
                {},
                now=lambda: self.now,
                rng=random.Random(1),
                sleep=sleep,
            ),
            is_current=lambda: bool(self.answers),
            on_hung=lambda: self.replaced_at.append(self.now),
            log=self,
            time_of=self._time_of,
        )
        self.answers.append(None)
        await poll.run()
        return cycle

    def info(self, _event: str, *, state: str, **_fields: object) -> None:
        """Takes a line of the log."""
        self.logged.append(state)

    warning = info

    def _time_of(self, pid: int) -> ProcessorTime | None:
        return self.processor.pop(0) if self.processor else None


def waiting(count: int) -> list[ProcessorTime]:
    """The processor times of a server that others keep from running, before and after each request."""
    return [ProcessorTime(0.01 * number, 1.0 * number) for number in range(2 * count)]


async def test_a_server_on_a_busy_machine_is_never_unhealthy_nor_replaced(tmp_path: Path) -> None:
    polled = Polled(["timeout"] * 20, processor=waiting(21))
    await polled.run(tmp_path)
    assert set(polled.states) == {State.READY, State.SUSPECT}
    assert polled.replaced_at == []


async def test_a_server_that_hangs_is_unhealthy_after_three_misses_and_then_replaced(tmp_path: Path) -> None:
    polled = Polled(["timeout"] * 8, processor=[ProcessorTime(3.0)] * 40)
    await polled.run(tmp_path)
    assert polled.states[:5] == [State.READY, State.SUSPECT, State.SUSPECT, State.UNHEALTHY, State.UNHEALTHY]
    assert polled.replaced_at
    assert polled.replaced_at[0] >= 130.0


async def test_one_failed_request_never_takes_a_server_down(tmp_path: Path) -> None:
    polled = Polled(["timeout", None, "timeout", None, "connection_lost", None])
    await polled.run(tmp_path)
    assert set(polled.states) == {State.READY, State.SUSPECT}


@pytest.mark.parametrize("processor", [[], waiting(3)], ids=["silent", "slow"])
async def test_each_change_for_the_worse_is_logged_and_so_is_the_recovery(
    tmp_path: Path, processor: list[ProcessorTime]
) -> None:
    polled = Polled(["timeout", None], processor=processor)
    await polled.run(tmp_path)
    assert polled.logged == ["suspect", "ready"]


async def test_a_refused_connection_is_no_sign_of_a_busy_machine(tmp_path: Path) -> None:
    polled = Polled(["connection_refused"] * 4, processor=waiting(5))
    await polled.run(tmp_path)
    assert State.UNHEALTHY in polled.states


async def test_a_miss_that_this_process_noticed_late_does_not_count(tmp_path: Path) -> None:
    """It was kept from reading the answer."""
    polled = Polled(["timeout"] * 6, takes_s=3.0)
    await polled.run(tmp_path)
    assert set(polled.states) == {State.READY}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_a_process_grows_while_it_computes_and_not_while_it_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            before, began = health_poll.of_process(child.pid), time.monotonic()
            assert before is not None
            while (after := cast("Any", health_poll.of_process(child.pid))).ran_s == before.ran_s:
                pass
            used = (after.ran_s - before.ran_s) + (after.waited_s - before.waited_s)
            assert used <= time.monotonic() - began + 0.05
            os.kill(child.pid, signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            stopped = health_poll.of_process(child.pid)
            assert health_poll.of_process(child.pid) == stopped
            assert not is_slow(stopped, health_poll.of_process(child.pid), 1.0)
        finally:
            child.kill()
    assert health_poll.of_process(child.pid) is None


@pytest.mark.parametrize(
    ("ran", "waited", "blocked", "slow"),
    [
        (0.0, 0.0, False, False),  # asleep, or stopped
        (0.0001, 0.0002, False, False),
        (0.001, 0.9, False, True),  # others have the processors
        (0.0, 0.5, False, True),
        (0.3, 0.0, False, True),  # works
        (0.99, 0.0, False, False),  # an endless loop
        (0.0, 0.0, True, True),  # its memory is swapped out
    ],
)
def test_what_it_does_while_it_is_waited_for_tells(
    ran: float, waited: float, blocked: bool, slow: bool
) -> None:
    before = ProcessorTime(7.0, 3.0)
    assert is_slow(before, ProcessorTime(7.0 + ran, 3.0 + waited, blocked), 1.0) is slow


def test_a_server_of_which_nothing_is_known_is_not_slow() -> None:
    assert not is_slow(None, ProcessorTime(1.0), 1.0)
    assert not is_slow(ProcessorTime(1.0), None, 1.0)


def serving() -> Lifecycle:
    cycle = Lifecycle()
    cycle.start(0.0)
    cycle.answered()
    return cycle


def test_a_slow_server_keeps_its_calls_until_it_was_silent_for_too_long() -> None:
    cycle = serving()
    for now in range(5, int(SLOW_S), 5):
        cycle.missed(now, is_slow=True)
        assert (cycle.state, cycle.is_serving, cycle.hung_for(now)) == (State.SUSPECT, True, 0.0)
    for now in (SLOW_S + 5, SLOW_S + 10, SLOW_S + 15):
        cycle.missed(now, is_slow=True)
    assert cycle.state is State.UNHEALTHY
    assert cycle.hung_for(SLOW_S + 15) == 10.0


def test_an_answer_ends_the_silence() -> None:
    cycle = serving()
    cycle.missed(5.0, is_slow=True)
    cycle.answered()
    cycle.missed(SLOW_S + 6.0, is_slow=True)
    assert cycle.misses == 0


def test_misses_of_a_hanging_server_count_beside_slow_ones() -> None:
    cycle = serving()
    for slow in (False, True, False, True, False):
        assert cycle.state is not State.UNHEALTHY
        cycle.missed(5.0, is_slow=slow)
    assert cycle.state is State.UNHEALTHY
