"""One operating-system process of a workspace server: start, identify, watch, signal, read its last output.

A process is identified by pid *and* start time, so that a reused pid is never mistaken for our process. A
pidfd reports the exit at once, where the system has pidfds. `supervisor.py` decides when to start and stop
a process; `fork_server.py` forks one instead of starting a new interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.own_process import end_before_others, restore_limit
from lm_tools_bridge.machine.process_ending import Ending, open_pidfd, reap_child
from lm_tools_bridge.machine.process_facts import start_time, usage_of
from lm_tools_bridge.protocol import names
from manager.disk.disk_lookups import DiskLookups, NoAnswer
from manager.supervision import environment

# The cause of a failed start is among the last lines, and a refusal stays readable.
TAIL_LINES: Final = 20


def open_log(log: Path) -> int:
    """Open the log file for a server's output and return its descriptor, which the caller closes."""
    try:
        return file_calls.open_to_append(log)
    except OSError:  # a full or read-only disk must not prevent the start
        return os.open(os.devnull, os.O_WRONLY)


def tail(log: Path) -> list[str]:
    """The last 20 lines of a log file; empty if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16 * 1024))
            return file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []


class LastOutput:
    """The last lines of a server's output, read in threads. Belongs to one event loop.

    Attributes:
        lines: as of the last `refresh`.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lookups = DiskLookups()
        self.lines: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Read the lines, unless the disk does not answer in time."""
        lines = await self._lookups.run("tail", lambda: tail(self._log))
        if not isinstance(lines, NoAnswer):
            self.lines = tuple(lines)


if sys.platform == "linux":
    import fcntl

# /proc/sys/fs/pipe-max-size of Linux by default: what every user may ask for.
_PIPE_BYTES: Final = 1024 * 1024
# Capacity of a new pipe, pipe(7).
_PIPE_DEFAULT: Final = 64 * 1024
# Only where the system has no pidfd: a server that ended is noticed half a second late.
_POLL_S: Final = 0.5
# The fork server reports an exit in milliseconds; if it ended too, the exit code stays unknown.
_REPORT_S: Final = 2.0
_DELETED: Final = " (deleted)"
_unreaped: Final[list[subprocess.Popen[bytes]]] = []
"""Child processes that no `Process` waits for any more. `spawn` reaps those that have exited."""


class ProcessSpec(msgspec.Struct, frozen=True):
    """How to start the process of a workspace server.

    Attributes:
        launch_line: the launch instructions for its standard input, one line of JSON.
        listener: the listening socket it inherits; it inherits no other descriptor.
        root: its working folder.
        log: file for its output. A pipe would break when the manager exits before the server.
        environ: the manager's environment, of which an allow-list is inherited.
        instance: marks the process and all its descendants (`leftovers.py`).
    """

    launch_line: bytes
    listener: socket.socket
    root: str
    log: Path
    environ: Mapping[str, str]
    instance: str

    @property
    def environment(self) -> dict[str, str]:
        """The complete environment of the process."""
        return {**environment.inherited(self.environ), names.INSTANCE_VARIABLE: self.instance}


class Process:
    """The process of a workspace server: spawned (`popen`), forked by the fork server, or adopted.

    Args:
        pidfd: an open pidfd of the process, if there is one.
        exited: receives the exit code of a forked process, or None if the code is unknown.
    """

    def __init__(
        self,
        pid: int,
        started: str,
        popen: subprocess.Popen[bytes] | None = None,
        *,
        pidfd: int | None = None,
        exited: asyncio.Future[int | None] | None = None,
    ) -> None:
        self.pid = pid
        self.started = started
        self._popen = popen
        self._reaper = None if popen is None else weakref.finalize(self, _unreaped.append, popen)
        self._exited = exited
        self._pidfd = open_pidfd(pid) if pidfd is None else pidfd
        self._poller: select.poll | None = None
        self.exit_code: int | None = None
        self.ending = Ending()
        self._gone = False

    @classmethod
    def adopt(cls, pid: int, started: str) -> Process | None:
        """The process with this pid, if it has this start time; else None."""
        process = cls(pid, started)
        # compared after the pidfd was opened: the pidfd cannot belong to a later process then
        if start_time(pid) != started:
            process.release()
            return None
        return process

    @property
    def is_alive(self) -> bool:
        """Whether the process runs. With a pidfd this costs about 1 µs."""
        if self._gone:
            return False
        if self._pidfd is not None:
            if self._poller is None:
                self._poller = select.poll()
                self._poller.register(self._pidfd, select.POLLIN)
            return not self._poller.poll(0)
        if self._popen is not None:
            return self._popen.poll() is None
        return start_time(self.pid) == self.started

    async def wait(self) -> int | None:
        """Wait for the exit and return the exit code (negative: the signal); None for an adopted process."""
        if self._gone:
            return self.exit_code  # another process may have the pid by now
        if self._pidfd is not None:
            await _readable(self._pidfd)
        else:
            while self.is_alive:  # noqa: ASYNC110  no event reports another process's exit here
                await asyncio.sleep(_POLL_S)
        if self._popen is not None:
            self._kill_group()  # before the leader is reaped, which would free the group id
            self.exit_code = self._popen.wait()
            if self._reaper is not None:
                self._reaper.detach()
        elif self._exited is not None:
            await asyncio.wait({self._exited}, timeout=_REPORT_S)
            self.exit_code = self._exited.result() if self._exited.done() else None
        else:  # a child if this process started it before it became this program
            self.exit_code = reap_child(self.pid, self._kill_group)
        self._gone = True
        self.release()
        return self.exit_code

    @property
    def folder(self) -> str | None:
        """Its working folder by its name of now; None if deleted, or if the system does not tell."""
        folder = self._folder_text()
        return None if folder is None or folder.endswith(_DELETED) else folder

    def is_folder_deleted(self, root: str) -> bool:
        """Whether its working folder `root` was deleted; a new one at the same path is another folder."""
        return self._folder_text() == root + _DELETED

    def _folder_text(self) -> str | None:
        try:
            return os.readlink(f"/proc/{self.pid}/cwd")  # noqa: PTH115  a text of the kernel
        except OSError:
            return None

    def terminate(self, *, at_once: bool = False) -> None:
        """Send SIGTERM. The server finishes its calls and stops its child processes.

        Args:
            at_once: send a second signal, so that it waits for neither.
        """
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
                if at_once:
                    os.kill(self.pid, signal.SIGINT)  # another number, so that both arrive

    def kill_group(self) -> None:
        """Send SIGKILL to the process group."""
        if self.is_alive:
            self._kill_group()

    def _kill_group(self) -> None:
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Close the pidfd. The process keeps running."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def usage(self) -> tuple[int, float] | None:
        """As `usage_of` this process."""
        return usage_of(self.pid)


def spawn(spec: ProcessSpec) -> Process:
    """Start a workspace server in a new interpreter; `-I` keeps its working folder off the import path.

    Raises:
        OSError: the process could not be started.
    """
    _unreaped[:] = [one for one in _unreaped if one.poll() is None]
    output = open_log(spec.log)
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-m", "workspace_server", spec.instance],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(spec.listener.fileno(),),
            start_new_session=True,
            cwd=spec.root,
            env=spec.environment,
        )
    finally:
        os.close(output)
    restore_limit(popen.pid)
    end_before_others(popen.pid)
    assert popen.stdin is not None  # noqa: S101  narrows the type: a pipe was asked for
    write_launch_line(popen.stdin, spec.launch_line)
    return Process(popen.pid, start_time(popen.pid) or "", popen)


def write_launch_line(pipe: IO[bytes], launch_line: bytes) -> None:
    """Write the launch instructions to a server's standard input and close it.

    A long line gets a larger pipe, so that writing does not wait for the server.
    """
    if sys.platform == "linux" and len(launch_line) >= _PIPE_DEFAULT:
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(launch_line)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def done() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, done)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
