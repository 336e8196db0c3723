"""Stopping a child: signals in order, within the deadlines, and no process is left."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from support.processes.child_processes import alive, everything, python, sh, until
from support.processes.timeouts import within
from workspace_server.processes import marked_processes
from workspace_server.processes.child_process import MARK, ChildProcess

_STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"


def test_child_that_ends_with_its_input_gets_no_signal(run: Any) -> None:
    """It may even have more to say than the pipe holds, though nobody reads."""

    async def scenario() -> tuple[int | None, float]:
        child = await ChildProcess.start(sh("cat >/dev/null; head -c 300000 /dev/zero; exit 5"))
        begun = time.monotonic()
        await child.stop(polite_s=20, term_s=20)
        return child.returncode, time.monotonic() - begun

    code, took = run(scenario())
    assert code == 5
    assert took < within(1)


def test_child_that_waits_gets_term(run: Any) -> None:
    async def scenario() -> int | None:
        child = await ChildProcess.start(sh("sleep 60"))
        await child.stop(polite_s=0.02, term_s=20)
        return child.returncode

    assert run(scenario()) == -signal.SIGTERM


def test_child_without_input_is_not_waited_for(run: Any) -> None:
    async def scenario() -> int | None:
        child = await ChildProcess.start(sh("sleep 60"), stdin=b"content")
        async with asyncio.timeout(within(1)):
            await child.stop(polite_s=60, term_s=60)
        return child.returncode

    assert run(scenario()) == -signal.SIGTERM


def test_child_that_ignores_term_is_killed(run: Any) -> None:
    async def scenario() -> tuple[int | None, float]:
        child = await ChildProcess.start(python(_STUBBORN))
        await child.read()
        begun = time.monotonic()
        await child.stop(polite_s=0.05, term_s=0.05)
        return child.returncode, time.monotonic() - begun

    code, took = run(scenario())
    assert code == -signal.SIGKILL
    assert 0.1 <= took < within(0.5)


@pytest.mark.parametrize(
    ("leader", "polite_s"), [("wait", 0), ("read line; exit 0", 20)], ids=["TERM", "end of input"]
)
def test_grandchildren_get_the_same_time_as_a_leader_that_ends_at_once(
    run: Any, leader: str, polite_s: float
) -> None:
    """A wrapper that dies of TERM must not cost the server below it its orderly end."""
    script = f"(trap 'sleep 0.1; echo tidy; exit 0' TERM; echo up; while :; do sleep 0.01; done) & {leader}"

    async def scenario() -> bytes:
        child = await ChildProcess.start(sh(script))
        assert await child.read() == b"up\n"
        reading = asyncio.create_task(everything(child))
        await child.stop(polite_s=polite_s, term_s=20)
        return await reading

    assert run(scenario()) == b"tidy\n"


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60 & echo $!; wait",
        "sleep 60 & echo $!; exit 0",
        "setsid sh -c 'echo $$; exec sleep 60' & wait",
        "(setsid sh -c 'echo $$; sleep 60; sleep 60' &); exit 0",
        "env -i sleep 60 & echo $!; exit 0",
        "trap '' TERM; sh -c 'echo $$; sleep 60' & wait",
    ],
    ids=["group", "orphan", "session", "daemon", "orphan without environment", "deaf"],
)
def test_nothing_is_left_after_stop(run: Any, script: str) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh(script))
        other = int((await child.read()).split()[0])
        assert alive(other)
        await child.stop(polite_s=0.02, term_s=0.02)
        await until(lambda: not alive(other))
        assert marked_processes.find_marked(MARK, child.marker) == []
        assert marked_processes.find_group(child.pid) == []

    run(scenario())


def test_only_its_own_descendants_are_ended(run: Any) -> None:
    async def scenario() -> None:
        one, other = await ChildProcess.start(sh("sleep 60")), await ChildProcess.start(sh("sleep 60"))
        await one.kill()
        assert alive(other.pid)
        assert other.returncode is None
        await other.kill()

    run(scenario())


def test_repeated_and_concurrent_stops_are_one_stop(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("sleep 60"))
        await asyncio.gather(*(child.stop(polite_s=0.02, term_s=1) for _ in range(5)))
        await child.stop()
        await child.kill()
        assert child.returncode == -signal.SIGTERM

    run(scenario())


def test_kill_shortens_a_running_stop(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(python(_STUBBORN))
        await child.read()
        stopping = asyncio.create_task(child.stop(polite_s=60, term_s=60))
        await asyncio.sleep(0)
        async with asyncio.timeout(within(1)):
            await child.kill()
            await stopping

    run(scenario())


def test_a_cancelled_stop_kills_everything_first(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(python(_STUBBORN))
        await child.read()
        stopping = asyncio.create_task(child.stop(polite_s=60, term_s=60))
        await asyncio.sleep(0.01)
        stopping.cancel()
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(within(1)):
                await stopping
        assert not alive(child.pid)
        assert child.returncode == -signal.SIGKILL

    run(scenario())


def test_reader_may_go_on_reading_while_the_child_is_stopped(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("trap '' TERM; while :; do echo x; sleep 0.001; done"))

        async def slow() -> None:
            while await child.read():
                await asyncio.sleep(0.005)

        reading = asyncio.create_task(slow())
        await child.stop(polite_s=0.05, term_s=0.05)
        await reading

    run(scenario())


@pytest.mark.parametrize("cancels", [1, 3, 6])
def test_a_loop_that_closes_during_a_stop_leaves_no_process(run: Any, cancels: int) -> None:
    """The loop cancels every task at its end, the stop's own included."""

    async def scenario() -> None:
        child = await ChildProcess.start(
            sh("trap '' TERM; setsid sh -c 'echo x; sleep 60' & while :; do sleep 1; done")
        )
        await child.read()
        stopping = asyncio.create_task(child.stop(polite_s=60, term_s=60))
        await asyncio.sleep(0.01)
        for _ in range(cancels):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([stopping])
        assert not alive(child.pid)
        assert child.returncode == -signal.SIGKILL
        assert marked_processes.find_marked(MARK, child.marker) == []

    run(scenario())


def test_waiting_readers_and_writers_are_woken_by_a_stop(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("sleep 60"))
        reading = asyncio.create_task(child.read())
        writing = asyncio.create_task(child.write(b"x" * 200_000, 60))
        await asyncio.sleep(0)
        async with asyncio.timeout(within(1)):
            await child.kill()
            done = await asyncio.gather(reading, writing, return_exceptions=True)
        assert done[0] == b""
        assert type(done[1]).__name__ == "PipeWriteError"

    run(scenario())
