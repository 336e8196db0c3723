"""Tests of a workspace server's process: what it inherits, how it is identified and how its exit is noticed."""

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

from lm_tools_bridge.machine.process_facts import start_time
from lm_tools_bridge.protocol import names
from manager.supervision.process import Process, ProcessSpec, spawn, tail
from support.processes.child_processes import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups and descriptors of POSIX")
BOUND = 10.0


class ProgramLauncher:
    """Starts shell scripts instead of the workspace server; `started` is killed at the end of the test."""

    def __init__(self, folder: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "project"
        self.root.mkdir()
        self.log = folder / "server.log"
        self._program = folder / "program"
        self._listener = listener
        self._monkeypatch = monkeypatch
        self.started: list[Process] = []

    def start(
        self, script: str, launch_line: bytes = b"{}\n", environ: dict[str, str] | None = None
    ) -> Process:
        """Start a shell script in place of the Python interpreter."""
        self._program.write_text(f"#!/bin/sh\n{script}\n")
        self._program.chmod(0o755)
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(self._program))
            given = dict(os.environ) if environ is None else environ
            process = spawn(ProcessSpec(launch_line, self._listener, str(self.root), self.log, given, "i-7"))
        self.started.append(process)
        return process

    async def output(self) -> list[str]:
        """The lines it wrote before a line `end`; waits for that line."""
        async with asyncio.timeout(BOUND):
            while "end" not in (lines := self.log.read_text().splitlines()):
                await asyncio.sleep(0.01)
        return lines[: lines.index("end")]


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgramLauncher]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = ProgramLauncher(tmp_path, listener, monkeypatch)
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


async def test_it_gets_only_launch_instructions_folder_and_socket(launcher: ProgramLauncher) -> None:
    """Its arguments and environment have no secret, and no other descriptor is inherited."""
    inheritable = os.open("/", os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    try:
        process = launcher.start(
            'echo "$@"; pwd -P; cat; env | grep -v "^PATH=\\|^PWD=\\|^_=\\|^SHLVL=\\|^OLDPWD="; echo fds; ls /proc/$$/fd; echo end',
            b'{"secret":"hunter2"}\n',
            {"PATH": os.environ["PATH"], "AWS_SECRET_ACCESS_KEY": "x"},
        )
    finally:
        os.close(inheritable)
    output = await launcher.output()
    assert output[:3] == ["-I -m workspace_server i-7", str(launcher.root.resolve()), '{"secret":"hunter2"}']
    assert output[3 : output.index("fds")] == [f"{names.INSTANCE_VARIABLE}=i-7"]
    descriptors = set(output[output.index("fds") + 1 :])
    assert str(launcher._listener.fileno()) in descriptors
    assert len(descriptors - {"0", "1", "2", "10", "255", str(launcher._listener.fileno())}) == 0
    assert await ended(process) == 0


async def test_it_leads_a_session_of_its_own(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec sleep 60")
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe can be set on Linux only")
async def test_long_launch_instructions_do_not_wait_until_the_server_reads(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec sleep 60", b"x" * 500_000)
    assert process.is_alive


async def test_its_output_goes_to_a_private_log_that_grows(launcher: ProgramLauncher) -> None:
    await ended(launcher.start("echo one; echo two >&2"))
    await ended(launcher.start("echo three"))
    assert launcher.log.read_text().splitlines() == ["one", "two", "three"]
    assert stat.S_IMODE(launcher.log.stat().st_mode) == 0o600


async def test_the_server_that_hands_over_still_writes_to_the_log(
    launcher: ProgramLauncher, tmp_path: Path
) -> None:
    """However long the log is, it is left to its rotation, which all writers survive."""
    launcher.log.write_bytes(b"x" * 5_000_000 + b"\n")
    leaving = launcher.start(f"echo end; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo last words")
    await launcher.output()
    await ended(launcher.start("echo new"))
    (tmp_path / "go").touch()
    await ended(leaving)
    assert tail(launcher.log)[-1] == "last words"


async def test_a_log_that_is_a_symlink_is_not_followed(launcher: ProgramLauncher, tmp_path: Path) -> None:
    """The server starts anyway, without a log."""
    target = tmp_path / "precious"
    target.write_text("keep")
    launcher.log.symlink_to(target)
    assert await ended(launcher.start("echo overwritten")) == 0
    assert target.read_text() == "keep"


def test_a_missing_workspace_folder_raises_an_os_error(launcher: ProgramLauncher) -> None:
    launcher.root.rmdir()
    with pytest.raises(FileNotFoundError):
        launcher.start("true")


async def test_a_program_may_ignore_its_launch_instructions(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec <&-; exit 3", launch_line=b"x" * 1_000_000)
    assert await ended(process) == 3


# Exit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
async def test_its_exit_code_is_known(launcher: ProgramLauncher, script: str, code: int) -> None:
    process = launcher.start(script)
    assert await ended(process) == code
    assert (process.exit_code, process.is_alive) == (code, False)


async def test_an_exit_is_seen_before_the_process_is_reaped(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec sleep 60")
    assert process.is_alive
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive


async def test_processes_left_in_its_group_are_killed(launcher: ProgramLauncher) -> None:
    process = launcher.start("sleep 60 & echo $!; echo end")
    orphan = int((await launcher.output())[0])
    assert await ended(process) == 0
    await gone(orphan)


async def test_a_reaped_process_is_never_signalled(
    launcher: ProgramLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pid and process group may belong to another process by then."""
    process = launcher.start("exit 4")
    await ended(process)
    signalled: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *which: signalled.append(which))
    monkeypatch.setattr(os, "killpg", lambda *which: signalled.append(which))
    process.terminate()
    process.kill_group()
    assert await ended(process) == 4
    assert signalled == []


async def test_terminate_can_be_ignored_and_kill_group_cannot(launcher: ProgramLauncher) -> None:
    process = launcher.start("trap 'echo asked' TERM; sleep 60 & echo $!; echo end; while :; do wait; done")
    child = int((await launcher.output())[0])
    process.terminate()
    async with asyncio.timeout(BOUND):
        while "asked" not in launcher.log.read_text():
            await asyncio.sleep(0.01)
    assert process.is_alive
    process.kill_group()
    assert await ended(process) == -signal.SIGKILL
    await gone(child)


async def test_a_cancelled_wait_can_be_repeated(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec sleep 60")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.wait()
    process.kill_group()
    assert await ended(process) == -9


# Identity ----------------------------------------------------------------------------------------------------


async def test_a_start_time_distinguishes_processes(launcher: ProgramLauncher) -> None:
    one, other = launcher.start("exec sleep 60"), launcher.start("exec sleep 60")
    assert start_time(one.pid) == one.started
    assert start_time(one.pid) == start_time(one.pid)
    assert start_time(os.getpid()) not in (None, one.started)
    other.kill_group()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(other.pid) is None, "a zombie does not live"
    await ended(other)
    assert start_time(other.pid) is None


async def test_a_running_process_is_adopted_and_its_exit_is_noticed(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec sleep 60")
    adopted = Process.adopt(process.pid, process.started)
    assert adopted is not None
    assert adopted.is_alive
    adopted.kill_group()
    assert await ended(adopted) == -9, "this process started it, before it became this program"
    assert not adopted.is_alive


@pytest.mark.parametrize("is_child", [True, False])
async def test_the_exit_of_an_adopted_process_is_noticed_without_waitid_and_pidfds(
    is_child: bool, launcher: ProgramLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS with Python 3.11 and 3.12."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "waitid", raising=False)
    if is_child:
        process = launcher.start("exec sleep 60")
        adopted = Process.adopt(process.pid, process.started)
    else:
        # it tells its pid itself, as soon as it leads a group that can be killed
        launcher.start("setsid sh -c 'echo $$; echo end; exec sleep 60' &")
        pid = int((await launcher.output())[0])
        adopted = Process.adopt(pid, start_time(pid) or "")
    assert adopted is not None
    adopted.kill_group()
    assert await ended(adopted) == (-9 if is_child else None)
    assert not adopted.is_alive


async def test_a_reused_or_unused_pid_is_not_adopted(launcher: ProgramLauncher) -> None:
    """The start time is compared besides the pid."""
    process = launcher.start("exec sleep 60")
    assert Process.adopt(process.pid, f"{process.started}0") is None
    process.kill_group()
    await ended(process)
    assert Process.adopt(process.pid, process.started) is None
    assert process.exit_code == -9


async def test_without_pidfds_processes_are_polled(
    launcher: ProgramLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = launcher.start("exec sleep 60")
    adopted = Process.adopt(process.pid, process.started)
    assert adopted is not None
    assert process.is_alive
    assert adopted.is_alive
    process.kill_group()
    assert await ended(process) == -9
    assert await ended(adopted) is None, "the code of a process that others wait for is not known"


async def test_memory_and_cpu_time_are_known_while_it_runs(launcher: ProgramLauncher) -> None:
    process = launcher.start("exec sleep 60")

    def memory() -> int:
        usage = process.usage()
        assert usage is not None
        return usage[0]

    await until(lambda: memory() > 0)  # none while the child has not executed its program
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


# Log tail ----------------------------------------------------------------------------------------------------


def test_the_log_tail_is_the_last_twenty_lines(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"\n".join(b"line %d" % n for n in range(10_000)) + b"\n\xff broken\n")
    lines = tail(log)
    assert len(lines) == 20
    assert lines[-2:] == ["line 9999", "\ufffd broken"]


def test_a_missing_log_has_no_tail(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log") == []


@pytest.mark.parametrize("is_released", [True, False])
async def test_a_process_without_owner_runs_on_and_is_reaped_after_its_exit(
    is_released: bool, launcher: ProgramLauncher
) -> None:
    process = launcher.start("echo end; exec sleep 60")
    await launcher.output()
    if is_released:
        process.release()
    pid = process.pid
    launcher.started.clear()
    del process
    gc.collect()  # no ResourceWarning of the Popen
    assert start_time(pid) is not None
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert psutil.pid_exists(pid)  # a zombie until it is reaped
    await ended(launcher.start("exit 0"))
    assert not psutil.pid_exists(pid)
