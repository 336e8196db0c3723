"""One operating-system process of a workspace server: start, recognise, watch, signal.

A process is recognised by its pid *and* its start time, so that a pid used again is never taken for ours.
Its end is noticed at once through a pidfd where the system has them. When to start or stop one is
`supervisor.py`; one that is forked instead of started anew comes from `fork_server.py`.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from host.pidfd import open_pidfd
from protocol import names

_PASSED_ON: Final = (
    "HOME", "LOGNAME", "USER", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "SYSTEMROOT",
    "USERPROFILE", "TEMP", "DBUS_SESSION_BUS_ADDRESS", "CREDENTIALS_DIRECTORY",
)  # fmt: skip
SECRETS: Final = "LMTB_SECRET_"
_LOG_LIMIT: Final = 1024 * 1024
_POLL_S: Final = 0.5
_REPORT_S: Final = 2.0
TAIL_LINES: Final = 20
_going_on: Final[list[subprocess.Popen[bytes]]] = []
"""Children of ours whose end nobody waits for any more: kept until somebody sees that they ended."""


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a workspace server inherits: named variables only.

    Secrets of the store (`LMTB_SECRET_…`) are among them; the server gives its own children none of these.
    """
    return {
        name: value
        for name, value in environ.items()
        if (name in _PASSED_ON or name.startswith(("LC_", "LMTB_SECRET_"))) and not value.startswith("()")
    }


def start_time(pid: int) -> str | None:
    """A text that no two processes of one pid share, or None when there is no such (living) process."""
    if sys.platform != "linux":
        return _start_time_elsewhere(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else f"{boot}:{int(fields[19])}"


def _start_time_elsewhere(pid: int) -> str | None:
    import psutil  # noqa: PLC0415  slow to load, and rarely needed

    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


@dataclass(frozen=True, slots=True)
class Start:
    """What a workspace server begins with.

    Attributes:
        orders: the launch line for its standard input.
        listener: the listening socket it inherits; nothing else is inherited.
        root: its working folder.
        log: file for its output; it outlives us, so a pipe would not do.
        environ: our environment, of which named variables are passed on.
        instance: marks the process and all it starts (see `leftovers.py`).
    """

    orders: bytes
    listener: socket.socket
    root: str
    log: Path
    environ: Mapping[str, str]
    instance: str

    @property
    def environment(self) -> dict[str, str]:
        """Its whole environment."""
        return {**child_environment(self.environ), names.INSTANCE_VARIABLE: self.instance}


class Process:
    """A workspace server's process: one we started (`popen`), had forked, or one a former manager started.

    Args:
        pidfd: a descriptor of the process, where there is one already.
        exited: where its exit code arrives if somebody else waits for it, None when it cannot be known.
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
        self._unseen = None if popen is None else weakref.finalize(self, _going_on.append, popen)
        self._exited = exited
        self._pidfd = open_pidfd(pid) if pidfd is None else pidfd
        self._poller: select.poll | None = None
        self.exit_code: int | None = None
        self._gone = False

    @classmethod
    def adopt(cls, pid: int, started: str) -> Process | None:
        """The process of this pid if it is still the one that started then."""
        process = cls(pid, started)
        # read after the pidfd was opened, so that the descriptor cannot belong to a successor
        if start_time(pid) != started:
            process.release()
            return None
        return process

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; asks the kernel, costs about a microsecond with a pidfd."""
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
        """Wait for its end and return the exit code (negative: the signal), None for one we did not start."""
        if self._gone:
            return self.exit_code  # its number may belong to somebody else by now
        if self._pidfd is not None:
            await _readable(self._pidfd)
        else:
            while self.is_alive:  # noqa: ASYNC110  no event tells of a foreign process's end here
                await asyncio.sleep(_POLL_S)
        if self._popen is not None:
            self._sweep_group()  # while the unreaped leader still keeps the group's number ours
            self.exit_code = self._popen.wait()
            if self._unseen is not None:
                self._unseen.detach()
        elif self._exited is not None:
            await asyncio.wait({self._exited}, timeout=_REPORT_S)
            self.exit_code = self._exited.result() if self._exited.done() else None
        self._gone = True
        self.release()
        return self.exit_code

    def terminate(self) -> None:
        """Ask it to stop; it stops its own children in order."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill_group(self) -> None:
        """End it and everything in its process group at once."""
        if self.is_alive:
            self._sweep_group()

    def _sweep_group(self) -> None:
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Close the descriptor that watches it; where it still runs, it goes on without us."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def usage(self) -> tuple[int, float] | None:
        """Resident bytes and CPU seconds, or None when it cannot be asked."""
        import psutil  # noqa: PLC0415  slow to load, and rarely needed

        try:
            process = psutil.Process(self.pid)
            times = process.cpu_times()
            return process.memory_info().rss, times.user + times.system
        except psutil.Error:
            return None


def spawn(start: Start) -> Process:
    """Start a workspace server in a fresh interpreter; `-I` keeps its working folder off the import path.

    Raises:
        OSError: it could not be started.
    """
    _going_on[:] = [one for one in _going_on if one.poll() is None]
    output = open_log(start.log)
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-m", "workspace_server", start.instance],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(start.listener.fileno(),),
            start_new_session=True,
            cwd=start.root,
            env=start.environment,
        )
    finally:
        os.close(output)
    assert popen.stdin is not None  # noqa: S101  narrows the type: a pipe was asked for
    give_orders(popen.stdin, start.orders)
    return Process(popen.pid, start_time(popen.pid) or "", popen)


def give_orders(pipe: IO[bytes], orders: bytes) -> None:
    """Write the orders to a server's standard input, and close it."""
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(orders)


def open_log(log: Path) -> int:
    """A descriptor for a server's output, which the caller closes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".old.log"))
        return os.open(log, flags, 0o600)
    except OSError:  # a disk that cannot be written must not keep the server from working
        return os.open(os.devnull, os.O_WRONLY)


def tail(log: Path) -> list[str]:
    """The last lines a workspace server wrote."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16 * 1024))
            return file.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []


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
