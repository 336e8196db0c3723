"""One process of a workspace server: what it inherits, how it is recognised, how its end is noticed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from manager.supervision.process import Process, ProcessSpec, child_environment, spawn, start_time, tail
from protocol import names

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups and descriptors of POSIX")
BOUND = 10.0


class Stage:
    """Starts programs in place of the workspace server; whatever is left at the end is killed."""

    def __init__(self, folder: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        self.log = folder / "server.log"
        self._program = folder / "program"
        self._listener = listener
        self._monkeypatch = monkeypatch
        self.started: list[Process] = []

    def start(self, script: str, orders: bytes = b"{}\n", environ: dict[str, str] | None = None) -> Process:
        """Start a shell script as if it were the interpreter."""
        self._program.write_text(f"#!/bin/sh\n{script}\n")
        self._program.chmod(0o755)
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(self._program))
            given = dict(os.environ) if environ is None else environ
            process = spawn(ProcessSpec(orders, self._listener, str(self.root), self.log, given, "i-7"))
        self.started.append(process)
        return process

    async def said(self) -> list[str]:
        """What it wrote, once it has written a line `end`."""
        async with asyncio.timeout(BOUND):
            while "end" not in (lines := self.log.read_text().splitlines()):
                await asyncio.sleep(0.01)
        return lines[: lines.index("end")]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Stage(tmp_path, listener, monkeypatch)
        yield made
    for process in made.started:
        if process.is_alive:
            os.killpg(process.pid, signal.SIGKILL)
        if process._popen is not None:
            process._popen.wait()
        process.release()


async def ended(process: Process) -> int | None:
    async with asyncio.timeout(BOUND):
        return await process.wait()


async def gone(pid: int) -> None:
    async with asyncio.timeout(BOUND):
        while start_time(pid) is not None:
            await asyncio.sleep(0.01)


# Starting ----------------------------------------------------------------------------------------------------


def test_only_named_variables_are_inherited() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "XDG_STATE_HOME": "/s",
        "AWS_SECRET_ACCESS_KEY": "x",
        "LMTB_TOKEN": "x",
        "PYTHONPATH": "/evil",
        "LD_PRELOAD": "/evil.so",
        "TERM": "() { :; }; echo",
    }
    assert child_environment(given) == {
        key: given[key] for key in ("PATH", "HOME", "LC_ALL", "XDG_STATE_HOME")
    }


async def test_it_gets_orders_root_and_socket_and_nothing_else(stage: Stage) -> None:
    """Design 4, 10: no secret in its arguments or environment, no descriptor too many."""
    stranger = os.open("/", os.O_RDONLY)
    os.set_inheritable(stranger, True)
    try:
        process = stage.start(
            'echo "$@"; pwd -P; cat; env | grep -v "^PATH=\\|^PWD=\\|^_=\\|^SHLVL=\\|^OLDPWD="; echo fds; ls /proc/$$/fd; echo end',
            b'{"secret":"hunter2"}\n',
            {"PATH": os.environ["PATH"], "AWS_SECRET_ACCESS_KEY": "x"},
        )
    finally:
        os.close(stranger)
    said = await stage.said()
    assert said[:3] == ["-I -m workspace_server i-7", str(stage.root.resolve()), '{"secret":"hunter2"}']
    assert said[3 : said.index("fds")] == [f"{names.INSTANCE_VARIABLE}=i-7"]
    descriptors = set(said[said.index("fds") + 1 :])
    assert str(stage._listener.fileno()) in descriptors
    assert len(descriptors - {"0", "1", "2", "10", "255", str(stage._listener.fileno())}) == 0
    assert await ended(process) == 0


async def test_it_leads_a_session_of_its_own(stage: Stage) -> None:
    process = stage.start("exec sleep 60")
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid


async def test_its_output_goes_to_a_private_log_that_grows(stage: Stage) -> None:
    await ended(stage.start("echo one; echo two >&2"))
    await ended(stage.start("echo three"))
    assert stage.log.read_text().splitlines() == ["one", "two", "three"]
    assert stat.S_IMODE(stage.log.stat().st_mode) == 0o600


async def test_a_long_log_is_put_aside_once(stage: Stage) -> None:
    stage.log.write_bytes(b"x" * (1024 * 1024 + 1))
    await ended(stage.start("echo new"))
    assert stage.log.read_text() == "new\n"
    assert stage.log.with_suffix(".old.log").stat().st_size == 1024 * 1024 + 1


async def test_a_log_that_is_a_link_is_not_written_through(stage: Stage, tmp_path: Path) -> None:
    """It is served all the same."""
    target = tmp_path / "precious"
    target.write_text("keep")
    stage.log.symlink_to(target)
    assert await ended(stage.start("echo overwritten")) == 0
    assert target.read_text() == "keep"


def test_a_root_that_is_gone_is_an_os_error(stage: Stage) -> None:
    stage.root.rmdir()
    with pytest.raises(FileNotFoundError):
        stage.start("true")


async def test_a_program_that_does_not_read_its_orders_is_no_fault(stage: Stage) -> None:
    process = stage.start("exec <&-; exit 3", orders=b"x" * 1_000_000)
    assert await ended(process) == 3


# Its end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
async def test_its_exit_code_is_known(stage: Stage, script: str, code: int) -> None:
    process = stage.start(script)
    assert await ended(process) == code
    assert (process.exit_code, process.is_alive) == (code, False)


async def test_its_end_is_seen_at_once_without_waiting(stage: Stage) -> None:
    process = stage.start("exec sleep 60")
    assert process.is_alive
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive


async def test_what_it_left_in_its_group_is_ended_with_it(stage: Stage) -> None:
    """Design 4: nothing is left running."""
    process = stage.start("sleep 60 & echo $!; echo end")
    orphan = int((await stage.said())[0])
    assert await ended(process) == 0
    await gone(orphan)


async def test_a_process_that_was_waited_for_is_never_signalled_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number, and its group's, may belong to a stranger by then."""
    process = stage.start("exit 4")
    await ended(process)
    signalled: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *which: signalled.append(which))
    monkeypatch.setattr(os, "killpg", lambda *which: signalled.append(which))
    process.terminate()
    process.kill_group()
    assert await ended(process) == 4
    assert signalled == []


async def test_terminate_asks_and_kill_group_does_not(stage: Stage) -> None:
    process = stage.start("trap 'echo asked' TERM; sleep 60 & echo $!; echo end; while :; do wait; done")
    child = int((await stage.said())[0])
    process.terminate()
    async with asyncio.timeout(BOUND):
        while "asked" not in stage.log.read_text():
            await asyncio.sleep(0.01)
    assert process.is_alive
    process.kill_group()
    assert await ended(process) == -signal.SIGKILL
    await gone(child)


async def test_a_wait_that_is_cancelled_can_be_taken_up_again(stage: Stage) -> None:
    process = stage.start("exec sleep 60")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    process.kill_group()
    assert await ended(process) == -9


# Recognition -------------------------------------------------------------------------------------------------


async def test_a_start_time_tells_processes_apart(stage: Stage) -> None:
    one, other = stage.start("exec sleep 60"), stage.start("exec sleep 60")
    assert start_time(one.pid) == one.started
    assert start_time(one.pid) == start_time(one.pid)
    assert start_time(os.getpid()) not in (None, one.started)
    other.kill_group()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(other.pid) is None, "a zombie does not live"
    await ended(other)
    assert start_time(other.pid) is None


async def test_a_living_process_is_adopted_and_its_end_noticed(stage: Stage) -> None:
    process = stage.start("exec sleep 60")
    adopted = Process.adopt(process.pid, process.started)
    assert adopted is not None
    assert adopted.is_alive
    adopted.kill_group()
    assert await ended(adopted) is None, "the code of a process that others started is not known"
    assert not adopted.is_alive


async def test_a_pid_used_again_or_not_at_all_is_not_adopted(stage: Stage) -> None:
    """Pid and start time."""
    process = stage.start("exec sleep 60")
    assert Process.adopt(process.pid, f"{process.started}0") is None
    process.kill_group()
    await ended(process)
    assert Process.adopt(process.pid, process.started) is None
    assert process.exit_code == -9


async def test_without_pidfds_everything_works_by_asking(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = stage.start("exec sleep 60")
    adopted = Process.adopt(process.pid, process.started)
    assert adopted is not None
    assert process.is_alive
    assert adopted.is_alive
    process.kill_group()
    assert await ended(adopted) is None
    assert await ended(process) == -9


async def test_memory_and_time_can_be_asked_while_it_lives(stage: Stage) -> None:
    process = stage.start("exec sleep 60")
    usage = process.usage()
    assert usage is not None
    assert usage[0] > 0
    process.kill_group()
    await ended(process)
    assert process.usage() is None


def test_pidfds_are_closed() -> None:
    open_before = psutil.Process().num_fds()
    with subprocess.Popen(["sleep", "60"]) as other:
        for _ in range(20):
            process = Process.adopt(other.pid, start_time(other.pid) or "")
            assert process is not None
            process.release()
            process.release()
            assert Process.adopt(other.pid, "another") is None
        assert psutil.Process().num_fds() == open_before
        other.kill()


# The log's end -----------------------------------------------------------------------------------------------


def test_the_tail_is_the_last_twenty_lines(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"\n".join(b"line %d" % n for n in range(10_000)) + b"\n\xff broken\n")
    lines = tail(log)
    assert len(lines) == 20
    assert lines[-2:] == ["line 9999", "\ufffd broken"]


def test_a_missing_log_has_no_tail(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log") == []


@pytest.mark.parametrize("is_released", [True, False])
async def test_one_that_nobody_waits_for_goes_on_and_is_reaped_when_it_has_ended(
    is_released: bool, stage: Stage
) -> None:
    process = stage.start("echo end; exec sleep 60")
    await stage.said()
    if is_released:
        process.release()
    pid = process.pid
    stage.started.clear()
    del process
    gc.collect()  # nobody warns of a process that nobody waited for
    assert start_time(pid) is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert psutil.pid_exists(pid)  # its end is there to be seen
    await ended(stage.start("exit 0"))
    assert not psutil.pid_exists(pid)
