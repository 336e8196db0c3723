"""Tests of the supervisor of one workspace server, with real processes and, where time matters, a manual clock."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from lm_tools_bridge.machine.process_facts import start_time
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.configuration.settings import Settings
from manager.routing.state.lifecycle import State
from manager.state_file import InstanceRow, Store
from manager.supervision import launcher
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.supervisor import Supervisor

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"), pytest.mark.processes]
BOUND = 15.0
HANG = "exec sleep 60"


class GatedStore(Store):
    """A store that blocks the writes chosen by `blocks` until the test sets `go_on`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, set_aside_name=lambda: "x")
        self.blocks: Callable[[str, InstanceRow | None], bool] = lambda _what, _row: False
        self.blocked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def _gate(self, what: str, row: InstanceRow | None = None) -> None:
        if self.blocks(what, row):
            self.blocked.set()
            await self.go_on.wait()

    async def save_instance(self, row: InstanceRow) -> bool:
        is_saved = await super().save_instance(row)
        await self._gate("save", row)
        return is_saved

    async def drop_instance(self, workspace: str, instance: str) -> None:
        await self._gate("drop")
        await super().drop_instance(workspace, instance)


class SupervisedWorkspace:
    """A workspace folder, a state file and supervisors; no process may be left at the end."""

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
        """A supervisor; `now`, `rng` and `sleep` are dependencies, all other arguments settings."""
        injected = {name: given.pop(name) for name in ("now", "rng", "sleep") if name in given}
        settings = Settings(**{"grace_s": 5.0, "start_timeout_s": 10.0, **given})
        dependencies = Dependencies(settings, self.store, self.logs, os.environ, **injected)
        self.made.append(Supervisor("w-1", str(self.root), dependencies))
        return self.made[-1]

    def replace_server(self, script: str) -> None:
        """Start this shell script in place of the workspace server from now on."""
        program = self._folder / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        self._monkeypatch.setattr(sys, "executable", str(program))

    def processes(self) -> list[psutil.Process]:
        """The processes that run in the workspace folder."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, FileNotFoundError):
                if process.cwd() == str(self.root.resolve()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    async def stored_instances(self) -> list[InstanceRow]:
        """The instances that another manager would read from the state file."""
        other = Store(self._folder / "state.db", set_aside_name=lambda: "x")
        rows = (await other.open()).instances
        await other.close()
        return list(rows)


@pytest.fixture
async def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SupervisedWorkspace]:
    made = SupervisedWorkspace(tmp_path, monkeypatch)
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
    assert left == [], "processes were left running"
    assert await made.stored_instances() == [], "the state file lists instances that do not run"


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


async def test_fifty_callers_start_one_process_and_a_stop_ends_it(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor()
    found = [running(one) for one in await asyncio.gather(*(supervisor.ready() for _ in range(50)))]
    assert len({id(one) for one in found}) == 1
    instance = found[0]
    assert [one.pid for one in workspace.processes()] == [instance.pid]
    (row,) = await workspace.stored_instances()
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
    assert workspace.processes() == []
    assert await workspace.stored_instances() == []

    again = running(await supervisor.ready())
    assert again.pid != instance.pid
    assert supervisor.lifecycle.restarts == 0


@pytest.mark.always
async def test_a_killed_server_is_replaced_for_the_next_caller(workspace: SupervisedWorkspace) -> None:
    """The new one listens on the same port, so that no connection is refused meanwhile."""
    supervisor = workspace.supervisor(rng=random.Random(1))
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
    assert supervisor.figures.last_error == "was ended by SIGKILL"
    await until(lambda: len(workspace.processes()) == 1)
    assert [row.pid for row in await workspace.stored_instances()] == [second.pid]


async def test_a_server_that_exits_is_restarted_without_a_call(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor(rng=random.Random(1))
    first = running(await supervisor.ready())
    os.kill(first.pid or 0, signal.SIGKILL)
    await until(lambda: supervisor.is_serving and supervisor.instance is not first)


async def test_a_stop_during_the_start_leaves_nothing(workspace: SupervisedWorkspace) -> None:
    workspace.replace_server(HANG)
    supervisor = workspace.supervisor()
    caller = asyncio.create_task(supervisor.ready())
    await until(lambda: len(workspace.processes()) == 1)
    async with asyncio.timeout(BOUND):
        await supervisor.stop()
        refused(await caller)
    assert (supervisor.lifecycle.state, workspace.processes()) == (State.STOPPED, [])
    assert await workspace.stored_instances() == []
    assert supervisor.lifecycle.wait_before_start(time.monotonic()) == 0.0


async def test_a_stop_while_the_instance_is_being_stored_leaves_nothing(
    workspace: SupervisedWorkspace,
) -> None:
    """The process runs, and its pid is being written to the state file."""
    workspace.replace_server(HANG)
    workspace.store.blocks = lambda what, row: what == "save" and row is not None and row.pid != 0
    supervisor = workspace.supervisor()
    caller = asyncio.create_task(supervisor.ready())
    async with asyncio.timeout(BOUND):
        await workspace.store.blocked.wait()
        assert len(workspace.processes()) == 1
        await supervisor.stop()
        refused(await caller)
    assert workspace.processes() == []
    assert await workspace.stored_instances() == []


async def test_a_stop_while_an_exit_is_being_stored_prevents_the_restart(
    workspace: SupervisedWorkspace,
) -> None:
    supervisor = workspace.supervisor()
    first = running(await supervisor.ready())
    workspace.store.blocks = lambda what, _row: what == "drop"
    os.kill(first.pid or 0, signal.SIGKILL)
    async with asyncio.timeout(BOUND):
        await workspace.store.blocked.wait()
        stopping = asyncio.create_task(supervisor.stop())
        await asyncio.sleep(0)
        workspace.store.go_on.set()
        await stopping
    assert supervisor.lifecycle.state is State.STOPPED
    assert supervisor._starting is None or supervisor._starting.done()
    assert workspace.processes() == []


async def test_a_server_that_does_not_react_to_term_is_killed(
    workspace: SupervisedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TERM first, then KILL for the process group."""
    monkeypatch.setattr("manager.supervision.supervisor.KILL_AFTER_S", 0.2)
    supervisor = workspace.supervisor()
    instance = running(await supervisor.ready())
    os.kill(instance.pid or 0, signal.SIGSTOP)  # a stopped process cannot handle TERM
    async with asyncio.timeout(BOUND):
        await supervisor.stop()
    assert supervisor.last_exit == -9
    assert workspace.processes() == []


async def test_callers_wait_for_a_stop_and_then_start_a_new_server(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor()
    first = running(await supervisor.ready())
    stopping = asyncio.create_task(supervisor.stop())
    await asyncio.sleep(0)
    second = running(await supervisor.ready())
    await stopping
    assert second.pid != first.pid
    assert [one.pid for one in workspace.processes()] == [second.pid]


async def test_a_closed_supervisor_starts_nothing(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor()
    await supervisor.close()
    assert refused(await supervisor.ready(urgent=True))["cause"] == "stopped"


# A server that cannot start -----------------------------------------------------------------------------------


async def test_a_server_that_misses_the_start_timeout_is_killed_and_refused(
    workspace: SupervisedWorkspace,
) -> None:
    workspace.replace_server("echo warming up >&2; " + HANG)
    supervisor = workspace.supervisor(start_timeout_s=0.2)
    details = refused(await supervisor.ready())
    assert (details["cause"], details["stderrTail"]) == ("start_timeout", ["warming up"])
    await until(lambda: supervisor.lifecycle.restarts == 1)
    assert supervisor.figures.last_error == "start failed: did not answer in time"


async def test_a_log_that_hangs_delays_only_its_own_refusal(workspace: SupervisedWorkspace) -> None:
    """As on a disk that hangs: opening a FIFO without a writer takes for ever."""
    supervisor = workspace.supervisor(start_timeout_s=0.2)
    log = workspace.logs / "w-1.log"
    workspace.replace_server(f"rm {log}; mkfifo {log}; {HANG}")
    waiting = asyncio.create_task(supervisor.ready())
    await until(log.is_fifo)
    try:
        async with asyncio.timeout(BOUND):
            details = refused(await waiting)
    finally:
        os.close(os.open(log, os.O_RDWR | os.O_NONBLOCK))  # ends the thread
        log.unlink()
    assert (details["cause"], "stderrTail" in details) == ("start_timeout", False)


class Clock:
    """A clock that only `wait` advances."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    async def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds
        await asyncio.sleep(0)


class NoJitter(random.Random):
    """A generator that makes back-off pauses exact."""

    def random(self) -> float:
        return 0.5


async def test_five_failed_starts_are_a_crash_loop_with_stderr_in_the_refusal(
    workspace: SupervisedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-off between starts, then one start a minute, or immediately for a handshake."""
    workspace.replace_server("echo no such module >&2; echo x >> starts; exit 3")
    starts = workspace.root / "starts"
    clock = Clock()
    supervisor = workspace.supervisor(now=lambda: clock.now, rng=NoJitter())
    monkeypatch.setattr(supervisor, "_wait_for_wake", clock.wait)

    async with asyncio.timeout(BOUND):
        outcome = await supervisor.ready()
    details = refused(outcome)
    assert (details["cause"], set(details["stderrTail"])) == ("crash_looping", {"no such module"})
    assert clock.waits == [0.5, 1.0, 2.0, 4.0]
    assert starts.read_text().count("x") == 5
    assert (supervisor.lifecycle.state, supervisor.last_exit) == (State.CRASH_LOOPING, 3)
    assert await workspace.stored_instances() == []

    outcome = await supervisor.ready()
    assert isinstance(outcome, Refusal)
    assert outcome.retry_after_ms == 60_000
    assert starts.read_text().count("x") == 5, "a call does not start it"
    refused(await supervisor.ready(urgent=True))
    assert starts.read_text().count("x") == 6, "a handshake does, once"
    clock.now += 60.0
    refused(await supervisor.ready())
    assert starts.read_text().count("x") == 7, "a call starts it again after a minute"
    monkeypatch.undo()
    running(await supervisor.ready(urgent=True))
    assert supervisor.lifecycle.state is State.READY


async def test_a_handshake_ends_the_back_off_that_other_callers_wait_for(
    workspace: SupervisedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    workspace.replace_server("exit 3")
    supervisor = workspace.supervisor(now=lambda: clock.now, rng=NoJitter())
    patient = asyncio.create_task(supervisor.ready())
    await until(lambda: supervisor.lifecycle.restarts == 1)
    monkeypatch.undo()
    async with asyncio.timeout(BOUND):
        found = running(
            await supervisor.ready(urgent=True)
        )  # the clock stands still: the back-off alone would never end
        assert running(await patient) is found


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (OSError(errno.EADDRINUSE, "no free port between 1 and 2"), "port_exhausted"),
        (OSError(errno.EAGAIN, "no process"), "not_started"),
        (OSError(errno.EMFILE, "too many open files"), "not_started"),
    ],
)
async def test_a_start_without_a_process_is_no_crash(
    workspace: SupervisedWorkspace, monkeypatch: pytest.MonkeyPatch, fault: OSError, cause: str
) -> None:
    """However often it is tried; it works as soon as what it lacks is there."""

    def exhausted(*_: object) -> socket.socket:
        raise fault

    supervisor = workspace.supervisor()
    with monkeypatch.context() as patched:
        patched.setattr(launcher, "reserve", exhausted)
        for _ in range(7):
            details = refused(await supervisor.ready())
            assert details["cause"] == cause
            assert str(fault.strerror) in details["lastError"]
        assert supervisor.lifecycle.state is State.STOPPED
    running(await supervisor.ready())


async def test_a_missing_folder_is_a_failed_start_and_stores_nothing(
    workspace: SupervisedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    supervisor = workspace.supervisor(now=lambda: clock.now, rng=NoJitter())
    monkeypatch.setattr(supervisor, "_wait_for_wake", clock.wait)
    workspace.root.rmdir()
    assert refused(await supervisor.ready())["cause"] == "not_started"
    assert await workspace.stored_instances() == []
    assert supervisor.figures.last_error is not None
    assert "cannot be started" in supervisor.figures.last_error
    workspace.root.mkdir()


# A server that hangs ------------------------------------------------------------------------------------------


async def test_a_hanging_server_becomes_suspect_unhealthy_and_is_replaced(
    workspace: SupervisedWorkspace,
) -> None:
    """After the health misses it is killed and restarted."""
    supervisor = workspace.supervisor(
        health_interval_s=0.05,
        health_timeout_s=0.2,
        health_misses=2,
        hung_restart_s=0.5,
        rng=random.Random(1),
    )
    first = running(await supervisor.ready())
    states: list[State] = []

    def record_state() -> bool:
        if not states or states[-1] is not supervisor.lifecycle.state:
            states.append(supervisor.lifecycle.state)
        return supervisor.is_serving and supervisor.instance is not first

    os.kill(first.pid or 0, signal.SIGSTOP)
    await until(record_state)
    assert states[:3] == [State.READY, State.SUSPECT, State.UNHEALTHY]
    assert states[-1] is State.READY
    assert [one.pid for one in workspace.processes()] == [running(await supervisor.ready()).pid]


async def test_a_server_that_hung_briefly_becomes_ready_again(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor(health_interval_s=0.05, health_timeout_s=0.2, health_misses=2)
    instance = running(await supervisor.ready())
    os.kill(instance.pid or 0, signal.SIGSTOP)
    await until(lambda: supervisor.lifecycle.state is State.UNHEALTHY)
    assert refused(await supervisor.ready())["cause"] == "unhealthy"
    os.kill(instance.pid or 0, signal.SIGCONT)
    await until(lambda: supervisor.lifecycle.state is State.READY)
    assert running(await supervisor.ready()) is instance


async def test_a_handshake_replaces_an_unhealthy_server_at_once(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor(health_interval_s=0.05, health_timeout_s=0.1, health_misses=1)
    first = running(await supervisor.ready())
    os.kill(first.pid or 0, signal.SIGSTOP)
    await until(lambda: supervisor.lifecycle.state is State.UNHEALTHY)
    second = running(await supervisor.ready(urgent=True))
    assert second.pid != first.pid


async def test_health_misses_after_a_machine_suspend_do_not_count(workspace: SupervisedWorkspace) -> None:
    """The pause between two health requests was much longer than the interval."""
    clock = Clock()
    slept = 0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1
        clock.now += seconds + 3600.0  # the machine was suspended
        await asyncio.sleep(0.01)

    supervisor = workspace.supervisor(
        now=lambda: clock.now, sleep=sleep, health_timeout_s=0.05, health_misses=1
    )
    instance = running(await supervisor.ready())
    os.kill(instance.pid or 0, signal.SIGSTOP)
    await until(lambda: slept > 10)
    assert supervisor.lifecycle.state is State.READY
    os.kill(instance.pid or 0, signal.SIGCONT)


# Adoption -----------------------------------------------------------------------------------------------------


async def running_orphan(workspace: SupervisedWorkspace, **settings: Any) -> InstanceRow:
    """The stored instance of a running server whose manager has ended."""
    supervisor = workspace.supervisor(**settings)
    instance = running(await supervisor.ready())
    assert instance.process is not None
    assert instance.process._popen is not None
    workspace.children.append(instance.process._popen)
    (row,) = await workspace.stored_instances()
    await supervisor.close(keep=True)
    assert [one.pid for one in workspace.processes()] == [row.pid]
    return row


def with_changes(row: InstanceRow, **members: Any) -> InstanceRow:
    values = {name: getattr(row, name) for name in InstanceRow.__slots__}
    return InstanceRow(**{**values, **members})


async def test_a_running_server_is_adopted_and_restarted_when_it_exits(
    workspace: SupervisedWorkspace,
) -> None:
    """The process stays the same; when it exits, it is replaced."""
    row = await running_orphan(workspace)
    supervisor = workspace.supervisor(rng=random.Random(1))
    assert await supervisor.adopt(row) is True
    instance = running(await supervisor.ready())
    assert (instance.pid, instance.port, instance.id) == (row.pid, row.port, row.instance)
    assert await workspace.stored_instances() == [row]
    os.kill(row.pid, signal.SIGKILL)
    await until(lambda: supervisor.is_serving and supervisor.instance is not instance)


async def test_an_instance_stored_without_pid_is_identified_by_its_health_answer(
    workspace: SupervisedWorkspace,
) -> None:
    """The earlier manager died before it could store the pid."""
    row = await running_orphan(workspace)
    supervisor = workspace.supervisor()
    assert await supervisor.adopt(with_changes(row, pid=0, started="")) is True
    assert running(await supervisor.ready()).pid == row.pid
    assert await workspace.stored_instances() == [row]


async def test_a_dead_server_is_not_adopted(workspace: SupervisedWorkspace) -> None:
    row = await running_orphan(workspace)
    os.kill(row.pid, signal.SIGKILL)
    await until(lambda: workspace.processes() == [])
    supervisor = workspace.supervisor()
    assert await supervisor.adopt(row) is False
    assert (supervisor.lifecycle.state, await workspace.stored_instances()) == (State.STOPPED, [])


async def test_another_process_with_the_stored_pid_is_left_alone(workspace: SupervisedWorkspace) -> None:
    """The start time is compared besides the pid."""
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            row = InstanceRow("w-1", "i-1", other.pid, "boot:1", "n", "s", 1)
            await workspace.store.save_instance(row)
            assert await workspace.supervisor().adopt(row) is False
            assert other.poll() is None
            assert await workspace.stored_instances() == []
        finally:
            other.kill()


async def test_a_stored_server_that_does_not_answer_is_killed(workspace: SupervisedWorkspace) -> None:
    """It is ours by pid and start time, so it must not keep running unsupervised."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as hung:
        try:
            row = InstanceRow("w-1", "i-1", hung.pid, start_time(hung.pid) or "", "n", "s", 1)
            await workspace.store.save_instance(row)
            async with asyncio.timeout(BOUND):
                assert await workspace.supervisor().adopt(row) is False
            assert start_time(hung.pid) is None
            assert await workspace.stored_instances() == []
        finally:
            hung.kill()


async def test_a_server_with_another_nonce_is_not_adopted_nor_killed(workspace: SupervisedWorkspace) -> None:
    """The port belongs to another instance now, whose process is left alone."""
    row = await running_orphan(workspace, grace_s=0.5)
    supervisor = workspace.supervisor()
    assert await supervisor.adopt(with_changes(row, nonce="another", pid=0, started="")) is False
    assert supervisor.instance is None
    assert start_time(row.pid) is not None
    await until(lambda: workspace.processes() == [])  # it stops by itself: no manager blocks its lifeline


# Lifeline -----------------------------------------------------------------------------------------------------


async def test_a_server_outlives_its_manager_by_the_grace_period(workspace: SupervisedWorkspace) -> None:
    supervisor = workspace.supervisor(grace_s=0.4)
    instance = running(await supervisor.ready())
    assert instance.process is not None
    assert instance.process._popen is not None
    with pytest.raises(TimeoutError):
        await until(lambda: not supervisor.is_serving, within_s=1.0)
    workspace.children.append(instance.process._popen)
    await supervisor.close(keep=True)
    assert len(workspace.processes()) == 1
    await until(lambda: workspace.processes() == [], within_s=5.0)
    await workspace.store.drop_instance("w-1", instance.id)


async def test_a_server_that_no_later_manager_would_find_is_not_started(
    workspace: SupervisedWorkspace, tmp_path: Path
) -> None:
    """Neither the state file nor the file of unsaved writes can be written."""
    await workspace.store.close()
    (tmp_path / "file").touch()
    workspace.store = GatedStore(tmp_path / "file" / "state.db")
    await workspace.store.open()
    refusal = await workspace.supervisor(start_timeout_s=0.3).ready()
    assert isinstance(refusal, Refusal)
    assert "nothing can be saved" in str(refusal.details)
    assert workspace.processes() == []
