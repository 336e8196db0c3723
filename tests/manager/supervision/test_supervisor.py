"""One workspace's server and its only owner: real processes, and a clock of the test's where time matters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from manager.routing.state.lifecycle import State
from manager.settings import Settings
from manager.store import InstanceRow, Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.process import start_time
from manager.supervision.supervisor import Supervisor
from protocol.errors import Reason, Refusal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
BOUND = 15.0
HANG = "exec sleep 60"


class GatedStore(Store):
    """A store whose writes of one kind wait for the test."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, set_aside_name=lambda: "x")
        self.holds: Callable[[str, InstanceRow | None], bool] = lambda _what, _row: False
        self.held = asyncio.Event()
        self.go_on = asyncio.Event()

    async def _gate(self, what: str, row: InstanceRow | None = None) -> None:
        if self.holds(what, row):
            self.held.set()
            await self.go_on.wait()

    async def save_instance(self, row: InstanceRow) -> None:
        await super().save_instance(row)
        await self._gate("save", row)

    async def drop_instance(self, workspace: str, instance: str) -> None:
        await self._gate("drop")
        await super().drop_instance(workspace, instance)


class Yard:
    """A project, a state file and supervisors; nothing is left running at the end."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "proj"
        self.root.mkdir()
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.store = GatedStore(folder / "state.db")
        self.made: list[Supervisor] = []
        self.children: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._monkeypatch = monkeypatch

    def supervisor(self, **given: Any) -> Supervisor:
        """A supervisor; `now`, `rng` and `sleep` are the world's, all else are settings."""
        world = {name: given.pop(name) for name in ("now", "rng", "sleep") if name in given}
        settings = Settings(**{"grace_s": 5.0, "start_timeout_s": 10.0, **given})
        dependencies = Dependencies(settings, self.store, self.logs, os.environ, **world)
        self.made.append(Supervisor("w-1", str(self.root), dependencies))
        return self.made[-1]

    def instead_of_the_server(self, script: str) -> None:
        """From now on this shell script is started in place of the workspace server."""
        program = self._folder / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        self._monkeypatch.setattr(sys, "executable", str(program))

    def processes(self) -> list[psutil.Process]:
        """What runs in the project's folder."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, FileNotFoundError):
                if process.cwd() == str(self.root.resolve()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    async def ledger(self) -> list[InstanceRow]:
        """What another manager would find on the disk."""
        other = Store(self._folder / "state.db", set_aside_name=lambda: "x")
        rows = (await other.open()).instances
        await other.close()
        return list(rows)


@pytest.fixture
async def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Yard]:
    made = Yard(tmp_path, monkeypatch)
    await made.store.open()
    yield made
    made.store.go_on.set()
    async with asyncio.timeout(BOUND):
        for supervisor in made.made:
            await supervisor.close()
    left = made.processes()
    for child in made.children:
        child.wait(BOUND)
    for process in left:
        process.kill()
    await made.store.close()
    assert left == [], "something was left running"
    assert await made.ledger() == [], "the ledger and the process table disagree"


async def until(check: Callable[[], bool], within_s: float = BOUND) -> None:
    async with asyncio.timeout(within_s):
        while not check():
            await asyncio.sleep(0.01)


def running(outcome: Instance | Refusal) -> Instance:
    assert isinstance(outcome, Instance), outcome
    return outcome


def refused(outcome: Instance | Refusal) -> dict[str, Any]:
    assert isinstance(outcome, Refusal), outcome
    assert outcome.reason is Reason.WORKSPACE_SERVER_OFFLINE
    details = dict(outcome.details or {})
    assert outcome.message == f"resolved MCP server is offline: {details['cause']}"
    assert (outcome.delivered, details["workspace"]) == ("no", "w-1")
    return details


# Start and stop ----------------------------------------------------------------------------------------------


async def test_fifty_callers_start_one_process_and_a_stop_ends_it(yard: Yard) -> None:
    """Design 4."""
    supervisor = yard.supervisor()
    found = [running(one) for one in await asyncio.gather(*(supervisor.ready() for _ in range(50)))]
    assert len({id(one) for one in found}) == 1
    instance = found[0]
    assert [one.pid for one in yard.processes()] == [instance.pid]
    (row,) = await yard.ledger()
    assert instance.process is not None
    assert row == InstanceRow(
        "w-1",
        instance.id,
        instance.process.pid,
        instance.process.started,
        instance.nonce,
        instance.secret,
        instance.port,
    )
    assert (supervisor.lifecycle.state, supervisor.is_serving) == (State.READY, True)
    assert 21000 <= instance.port <= 29999

    await supervisor.stop()
    assert (supervisor.lifecycle.state, supervisor.instance, supervisor.is_serving) == (
        State.STOPPED,
        None,
        False,
    )
    assert yard.processes() == []
    assert await yard.ledger() == []

    again = running(await supervisor.ready())
    assert again.pid != instance.pid
    assert supervisor.lifecycle.restarts == 0


async def test_a_killed_server_is_replaced_before_the_next_call_is_answered(yard: Yard) -> None:
    """And the next one listens on the same port, so that nobody is refused meanwhile."""
    supervisor = yard.supervisor(rng=random.Random(1))
    first = running(await supervisor.ready())
    os.kill(first.pid or 0, signal.SIGKILL)
    os.waitid(os.P_PID, first.pid or 0, os.WEXITED | os.WNOWAIT)
    second = running(await supervisor.ready())
    assert second.pid != first.pid
    assert (second.port, second.nonce == first.nonce, second.secret == first.secret) == (
        first.port,
        False,
        False,
    )
    assert supervisor.last_exit == -9
    assert supervisor.lifecycle.restarts == 1
    assert supervisor.figures.last_error == "exited with code -9"
    await until(lambda: len(yard.processes()) == 1)
    assert [row.pid for row in await yard.ledger()] == [second.pid]


async def test_a_server_that_ends_is_started_again_without_being_asked(yard: Yard) -> None:
    supervisor = yard.supervisor(rng=random.Random(1))
    first = running(await supervisor.ready())
    os.kill(first.pid or 0, signal.SIGKILL)
    await until(lambda: supervisor.is_serving and supervisor.instance is not first)


async def test_a_stop_during_the_start_leaves_nothing(yard: Yard) -> None:
    yard.instead_of_the_server(HANG)
    supervisor = yard.supervisor()
    caller = asyncio.create_task(supervisor.ready())
    await until(lambda: len(yard.processes()) == 1)
    async with asyncio.timeout(BOUND):
        await supervisor.stop()
        refused(await caller)
    assert (supervisor.lifecycle.state, yard.processes()) == (State.STOPPED, [])
    assert await yard.ledger() == []
    assert supervisor.lifecycle.wait_before_start(time.monotonic()) == 0.0


async def test_a_stop_between_start_and_ledger_leaves_nothing(yard: Yard) -> None:
    """The process runs, and the ledger is just being told so."""
    yard.instead_of_the_server(HANG)
    yard.store.holds = lambda what, row: what == "save" and row is not None and row.pid != 0
    supervisor = yard.supervisor()
    caller = asyncio.create_task(supervisor.ready())
    async with asyncio.timeout(BOUND):
        await yard.store.held.wait()
        assert len(yard.processes()) == 1
        await supervisor.stop()
        refused(await caller)
    assert yard.processes() == []
    assert await yard.ledger() == []


async def test_a_stop_while_an_exit_is_being_noted_starts_nothing_anew(yard: Yard) -> None:
    supervisor = yard.supervisor()
    first = running(await supervisor.ready())
    yard.store.holds = lambda what, _row: what == "drop"
    os.kill(first.pid or 0, signal.SIGKILL)
    async with asyncio.timeout(BOUND):
        await yard.store.held.wait()
        stopping = asyncio.create_task(supervisor.stop())
        await asyncio.sleep(0)
        yard.store.go_on.set()
        await stopping
    assert supervisor.lifecycle.state is State.STOPPED
    assert supervisor._starting is None or supervisor._starting.done()
    assert yard.processes() == []


async def test_a_server_that_ignores_the_request_to_stop_is_killed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design 4: TERM, then KILL for the group."""
    monkeypatch.setattr("manager.supervision.supervisor.KILL_AFTER_S", 0.2)
    supervisor = yard.supervisor()
    instance = running(await supervisor.ready())
    os.kill(instance.pid or 0, signal.SIGSTOP)  # it cannot even hear the TERM
    async with asyncio.timeout(BOUND):
        await supervisor.stop()
    assert supervisor.last_exit == -9
    assert yard.processes() == []


async def test_callers_wait_for_a_stop_and_then_start_anew(yard: Yard) -> None:
    supervisor = yard.supervisor()
    first = running(await supervisor.ready())
    stopping = asyncio.create_task(supervisor.stop())
    await asyncio.sleep(0)
    second = running(await supervisor.ready())
    await stopping
    assert second.pid != first.pid
    assert [one.pid for one in yard.processes()] == [second.pid]


async def test_after_the_end_nothing_is_started(yard: Yard) -> None:
    supervisor = yard.supervisor()
    await supervisor.close()
    assert refused(await supervisor.ready(urgent=True))["cause"] == "stopped"


# A server that cannot start -----------------------------------------------------------------------------------


async def test_a_server_that_does_not_answer_in_time_is_killed_and_the_caller_told(yard: Yard) -> None:
    yard.instead_of_the_server("echo warming up >&2; " + HANG)
    supervisor = yard.supervisor(start_timeout_s=0.2)
    details = refused(await supervisor.ready())
    assert (details["cause"], details["stderrTail"]) == ("start_timeout", ["warming up"])
    await until(lambda: supervisor.lifecycle.restarts == 1)
    assert supervisor.figures.last_error == "start failed: did not answer in time"


class Clock:
    """Only waiting lets time pass."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    async def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds
        await asyncio.sleep(0)


class Even(random.Random):
    """Chance that spreads nothing."""

    def random(self) -> float:
        return 0.5


async def test_five_starts_that_fail_are_a_crash_loop_with_the_last_words_in_the_refusal(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-off in between, then one try a minute, or at once for a handshake."""
    yard.instead_of_the_server("echo no such module >&2; echo x >> starts; exit 3")
    starts = yard.root / "starts"
    clock = Clock()
    supervisor = yard.supervisor(now=lambda: clock.now, rng=Even())
    monkeypatch.setattr(supervisor, "_wait_for_wake", clock.wait)

    async with asyncio.timeout(BOUND):
        outcome = await supervisor.ready()
    details = refused(outcome)
    assert (details["cause"], set(details["stderrTail"])) == ("crash_looping", {"no such module"})
    assert clock.waits == [0.5, 1.0, 2.0, 4.0]
    assert starts.read_text().count("x") == 5
    assert (supervisor.lifecycle.state, supervisor.last_exit) == (State.CRASH_LOOPING, 3)
    assert await yard.ledger() == []

    outcome = await supervisor.ready()
    assert isinstance(outcome, Refusal)
    assert outcome.retry_after_ms == 60_000
    assert starts.read_text().count("x") == 5, "a call does not start it"
    refused(await supervisor.ready(urgent=True))
    assert starts.read_text().count("x") == 6, "a handshake does, once"
    clock.now += 60.0
    refused(await supervisor.ready())
    assert starts.read_text().count("x") == 7, "a call does after a minute"
    monkeypatch.undo()
    running(await supervisor.ready(urgent=True))
    assert supervisor.lifecycle.state is State.READY


async def test_a_handshake_lifts_the_back_off_of_a_start_that_others_wait_for(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    yard.instead_of_the_server("exit 3")
    supervisor = yard.supervisor(now=lambda: clock.now, rng=Even())
    patient = asyncio.create_task(supervisor.ready())
    await until(lambda: supervisor.lifecycle.restarts == 1)
    monkeypatch.undo()
    async with asyncio.timeout(BOUND):
        found = running(
            await supervisor.ready(urgent=True)
        )  # the clock stands: without it, nothing would start
        assert running(await patient) is found


async def test_a_root_that_is_gone_is_a_failed_start_that_leaves_no_trace(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    supervisor = yard.supervisor(now=lambda: clock.now, rng=Even())
    monkeypatch.setattr(supervisor, "_wait_for_wake", clock.wait)
    yard.root.rmdir()
    assert refused(await supervisor.ready())["cause"] == "crash_looping"
    assert await yard.ledger() == []
    assert supervisor.figures.last_error is not None
    assert "cannot be started" in supervisor.figures.last_error
    yard.root.mkdir()


# A server that hangs ------------------------------------------------------------------------------------------


async def test_a_hanging_server_is_suspected_given_up_and_replaced(yard: Yard) -> None:
    """Design 4: three misses, then it is killed and started anew."""
    supervisor = yard.supervisor(
        health_interval_s=0.05,
        health_timeout_s=0.2,
        health_misses=2,
        hung_restart_s=0.5,
        rng=random.Random(1),
    )
    first = running(await supervisor.ready())
    states: list[State] = []

    def note() -> bool:
        if not states or states[-1] is not supervisor.lifecycle.state:
            states.append(supervisor.lifecycle.state)
        return supervisor.is_serving and supervisor.instance is not first

    os.kill(first.pid or 0, signal.SIGSTOP)
    await until(note)
    assert states[:3] == [State.READY, State.SUSPECT, State.UNHEALTHY]
    assert states[-1] is State.READY
    assert [one.pid for one in yard.processes()] == [running(await supervisor.ready()).pid]


async def test_a_server_that_hung_for_a_moment_goes_on(yard: Yard) -> None:
    supervisor = yard.supervisor(health_interval_s=0.05, health_timeout_s=0.2, health_misses=2)
    instance = running(await supervisor.ready())
    os.kill(instance.pid or 0, signal.SIGSTOP)
    await until(lambda: supervisor.lifecycle.state is State.UNHEALTHY)
    assert refused(await supervisor.ready())["cause"] == "unhealthy"
    os.kill(instance.pid or 0, signal.SIGCONT)
    await until(lambda: supervisor.lifecycle.state is State.READY)
    assert running(await supervisor.ready()) is instance


async def test_a_handshake_replaces_an_unhealthy_server_at_once(yard: Yard) -> None:
    supervisor = yard.supervisor(health_interval_s=0.05, health_timeout_s=0.1, health_misses=1)
    first = running(await supervisor.ready())
    os.kill(first.pid or 0, signal.SIGSTOP)
    await until(lambda: supervisor.lifecycle.state is State.UNHEALTHY)
    second = running(await supervisor.ready(urgent=True))
    assert second.pid != first.pid


async def test_a_suspended_machine_is_no_reason_to_suspect_a_server(yard: Yard) -> None:
    """The pause between two health requests was much longer than asked for."""
    clock = Clock()
    slept = 0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1
        clock.now += seconds + 3600.0  # the lid was closed
        await asyncio.sleep(0.01)

    supervisor = yard.supervisor(now=lambda: clock.now, sleep=sleep, health_timeout_s=0.05, health_misses=1)
    instance = running(await supervisor.ready())
    os.kill(instance.pid or 0, signal.SIGSTOP)
    await until(lambda: slept > 10)
    assert supervisor.lifecycle.state is State.READY
    os.kill(instance.pid or 0, signal.SIGCONT)


# Adoption -----------------------------------------------------------------------------------------------------


async def left_behind(yard: Yard, **settings: Any) -> InstanceRow:
    """A server whose manager went away."""
    supervisor = yard.supervisor(**settings)
    instance = running(await supervisor.ready())
    assert instance.process is not None
    assert instance.process._popen is not None
    yard.children.append(instance.process._popen)
    (row,) = await yard.ledger()
    await supervisor.close(keep=True)
    assert [one.pid for one in yard.processes()] == [row.pid]
    return row


def altered(row: InstanceRow, **members: Any) -> InstanceRow:
    values = {name: getattr(row, name) for name in InstanceRow.__slots__}
    return InstanceRow(**{**values, **members})


async def test_a_living_server_is_adopted_and_owned_like_an_own_one(yard: Yard) -> None:
    """Same process, and when it ends it is replaced."""
    row = await left_behind(yard)
    supervisor = yard.supervisor(rng=random.Random(1))
    assert await supervisor.adopt(row) is True
    instance = running(await supervisor.ready())
    assert (instance.pid, instance.port, instance.id) == (row.pid, row.port, row.instance)
    assert await yard.ledger() == [row]
    os.kill(row.pid, signal.SIGKILL)
    await until(lambda: supervisor.is_serving and supervisor.instance is not instance)


async def test_a_start_that_was_cut_off_is_recognised_by_its_answer(yard: Yard) -> None:
    """The former manager died before it could enter the pid."""
    row = await left_behind(yard)
    supervisor = yard.supervisor()
    assert await supervisor.adopt(altered(row, pid=0, started="")) is True
    assert running(await supervisor.ready()).pid == row.pid
    assert await yard.ledger() == [row]


async def test_a_dead_server_is_not_adopted(yard: Yard) -> None:
    row = await left_behind(yard)
    os.kill(row.pid, signal.SIGKILL)
    await until(lambda: yard.processes() == [])
    supervisor = yard.supervisor()
    assert await supervisor.adopt(row) is False
    assert (supervisor.lifecycle.state, await yard.ledger()) == (State.STOPPED, [])


async def test_a_stranger_with_the_old_pid_is_left_alone(yard: Yard) -> None:
    """Pid and start time."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            row = InstanceRow("w-1", "i-1", stranger.pid, "boot:1", "n", "s", 1)
            await yard.store.save_instance(row)
            assert await yard.supervisor().adopt(row) is False
            assert stranger.poll() is None
            assert await yard.ledger() == []
        finally:
            stranger.kill()


async def test_an_old_server_that_does_not_answer_is_ended(yard: Yard) -> None:
    """Design 4: what is alive but not well must not stay behind unnoticed."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as hung:
        try:
            row = InstanceRow("w-1", "i-1", hung.pid, start_time(hung.pid) or "", "n", "s", 1)
            await yard.store.save_instance(row)
            async with asyncio.timeout(BOUND):
                assert await yard.supervisor().adopt(row) is False
            assert hung.wait(BOUND) == -9
            assert await yard.ledger() == []
        finally:
            hung.kill()


async def test_a_server_with_another_nonce_is_not_ours(yard: Yard) -> None:
    """The port is answered by somebody else, whose process is none of our business."""
    row = await left_behind(yard, grace_s=0.5)
    supervisor = yard.supervisor()
    assert await supervisor.adopt(altered(row, nonce="another", pid=0, started="")) is False
    assert supervisor.instance is None
    assert start_time(row.pid) is not None
    await until(lambda: yard.processes() == [])  # by itself: nobody holds its lifeline


# Lifeline -----------------------------------------------------------------------------------------------------


async def test_a_server_lives_as_long_as_its_manager_and_the_grace(yard: Yard) -> None:
    """Design 4."""
    supervisor = yard.supervisor(grace_s=0.4)
    instance = running(await supervisor.ready())
    assert instance.process is not None
    assert instance.process._popen is not None
    with pytest.raises(TimeoutError):
        await until(lambda: not supervisor.is_serving, within_s=1.0)
    yard.children.append(instance.process._popen)
    await supervisor.close(keep=True)
    assert len(yard.processes()) == 1
    await until(lambda: yard.processes() == [], within_s=5.0)
    await yard.store.drop_instance("w-1", instance.id)
