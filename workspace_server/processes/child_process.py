"""Owns one child process, from its start until it and everything it started have ended.

The child leads its own session and process group. Everything it starts inherits a mark in the environment, by
which `marked_processes.py` finds processes that left the group. `spawn.py` starts the child, `pipes.py` reads
and writes its pipes. The owner interprets the output and decides about restarts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from protocol import names
from workspace_server import log
from workspace_server.processes import marked_processes
from workspace_server.processes.exit_watch import ExitWatch
from workspace_server.processes.pipes import CHUNK, PipeWriteError, ReadEnd, WriteEnd
from workspace_server.processes.spawn import (
    ChildStartError,
    Command,
    Spawned,
    launcher_failure,
    spawn,
    start_error,
)
from workspace_server.processes.stderr_output import LineLimiter, StderrTail

__all__ = ["MARK", "ChildProcess", "ChildStartError", "Command", "PipeWriteError"]

MARK: Final = names.CHILD_VARIABLE
START_S: Final = 30.0
_DIES_S: Final = 2.0
_LOOK_S: Final = 0.02
_DISCARD_CHUNKS: Final = 64

# threads of their own: those of the loop may all wait for a disk that hangs
_sweepers: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="sweep")


class ChildProcess:
    """A process, leader of its own session and process group.

    Whoever starts one calls `stop` or `kill` at the end, also when it ended by itself.

    Attributes:
        pid: its number, certainly its own until `stop` has ended.
        marker: value of `LMTB_CHILD` in the environment of the process and all it starts.
        stderr: the last it wrote to standard error.
        returncode: exit code, negative for a signal; None while it runs.
    """

    def __init__(self, spawned: Spawned, name: str, marker: str) -> None:
        self.pid = spawned.popen.pid
        self.marker = marker
        self.stderr = StderrTail()
        self.returncode: int | None = None
        self._name = name
        self._popen = spawned.popen
        self._stdin = None if spawned.stdin is None else WriteEnd(spawned.stdin)
        self._stdout = ReadEnd(spawned.stdout)
        self._stderr = ReadEnd(spawned.stderr)
        self._status = None if spawned.status is None else ReadEnd(spawned.status)
        self._lines: LineLimiter | None = None
        self._ended = asyncio.Event()
        self._hurry = asyncio.Event()
        self._end: asyncio.Task[None] | None = None
        self._watch = ExitWatch(spawned.popen, self._has_ended)
        self._draining = asyncio.create_task(self._stderr.drain(self._heard), name=f"stderr of {name}")

    @classmethod
    async def start(
        cls,
        command: Command,
        *,
        stdin: bool | bytes = True,
        name: str = "",
        on_stderr: Callable[[str], None] | None = None,
    ) -> ChildProcess:
        """Start a process; on return the command itself is running.

        Must be called in the thread that the child may not outlive (the main thread): on Linux the child is
        killed when that thread ends.

        Args:
            command: what to run.
            stdin: True for a pipe, bytes for this content and then the end of the file, False for nothing.
            name: for logs and the names of tasks.
            on_stderr: gets its lines of standard error, cleaned, at most 100 per second.

        Raises:
            ChildStartError: missing, not executable, folder gone, limits not possible. Nothing is left of it.
        """
        # begins with the server's instance, so that the manager finds what one that was killed has left
        marker = f"{os.environ.get(names.INSTANCE_VARIABLE, '')}.{os.urandom(16).hex()}"
        child = cls(spawn(command, marker, stdin), name or command.argv[0], marker)
        if on_stderr is not None:
            child._lines = LineLimiter(on_stderr)
        try:
            problem = await child._begun()
        except BaseException:
            await child.kill()
            raise
        if problem is not None:
            await child.kill()
            raise start_error(command, problem)
        return child

    async def _begun(self) -> str | None:
        """Wait until the launcher has become the command; why it could not, or None."""
        if self._status is None:
            return None
        told = b""
        try:
            async with asyncio.timeout(START_S):
                while chunk := await self._status.read(CHUNK):
                    told += chunk
        except TimeoutError:
            return "it did not begin in time"
        self._status.close()
        return launcher_failure(told)

    async def write(self, data: bytes, timeout_s: float) -> None:
        """Write to standard input, whole or not at all in the eyes of other writers.

        Raises:
            PipeWriteError: not taken within `timeout_s` seconds, or nobody reads any more; then every
                later write fails as well.
        """
        if self._stdin is None:
            raise PipeWriteError("it has no standard input")
        await self._stdin.write(data, timeout_s)

    def close_stdin(self) -> None:
        """Let the child see the end of its standard input. Idempotent."""
        if self._stdin is not None:
            self._stdin.close()

    async def read(self, n: int = 4 * CHUNK) -> bytes:
        """Some of its standard output, nothing at the end or after `stop`. One reader at a time.

        What nobody reads stays in the pipe, and the child waits.
        """
        return await self._stdout.read(n)

    async def wait(self) -> int:
        """The exit code as soon as the process has ended, even if others still hold its pipes.

        What it wrote to standard error by then is in `stderr`. What it started may still run: `stop` ends it.
        """
        await self._ended.wait()
        assert self.returncode is not None  # noqa: S101  narrows the type: set before the event
        return self.returncode

    async def stop(self, *, polite_s: float = 2.0, term_s: float = 5.0) -> None:
        """End the process and everything it started; afterwards nothing of it is left.

        Its standard input is closed; after `polite_s` seconds its group gets TERM, after `term_s` more KILL,
        and then whatever still carries the mark. Each step is left out where nothing is left to do. Unread
        output is lost. Idempotent. If the caller is cancelled, courtesy ends: everything is killed at once,
        and only then the cancellation goes on.
        """
        if self._end is None:
            self._end = asyncio.create_task(self._finish(polite_s, term_s), name=f"stop {self._name}")
        cancelled: asyncio.CancelledError | None = None
        while not self._end.done():
            try:
                await asyncio.shield(self._end)
            except asyncio.CancelledError as cancel:
                cancelled = cancel
                self._hurry.set()
        if cancelled is not None:
            raise cancelled
        await self._end

    async def kill(self) -> None:
        """`stop` without courtesy; also ends the courtesy of a `stop` that is under way."""
        self._hurry.set()
        await self.stop(polite_s=0, term_s=0)

    def _has_ended(self, code: int) -> None:
        for _ in range(16):  # a grandchild may write without end
            chunk = self._stderr.read_now(CHUNK)
            if not chunk:
                break
            self._heard(chunk)
        self.returncode = code
        self._ended.set()

    def _heard(self, chunk: bytes) -> None:
        self.stderr.feed(chunk)
        lines = self._lines
        if lines is not None:
            self._tell(lambda: lines.feed(chunk))

    def _tell(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  whoever listens must not keep the pipe from being read
            self._lines = None
            log.fault("stderr_listener_failed", error, name=self._name)

    async def _finish(self, polite_s: float, term_s: float) -> None:
        try:
            self.close_stdin()
            discard = asyncio.create_task(self._discard(), name=f"discard output of {self._name}")
            try:
                await self._ask(polite_s, term_s)
            finally:
                discard.cancel()
                await asyncio.gather(discard, return_exceptions=True)
        finally:
            await self._destroy()

    async def _discard(self) -> None:
        """Read what nobody else reads, so that a child that wants to end need not wait for a reader."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for _ in range(_DISCARD_CHUNKS):
                if self._stdout.awaited or not self._stdout.read_now(CHUNK):
                    break

    async def _ask(self, polite_s: float, term_s: float) -> None:
        if self._hurry.is_set():
            return
        if self._stdin is not None:  # otherwise there was nothing that could have told it
            await self._within(polite_s, self._ended.wait())
        if self._ended.is_set() and not await self._group():
            return
        self._signal(signal.SIGTERM)
        await self._within(term_s, self._group_gone())

    async def _within(self, seconds: float, event: Coroutine[Any, Any, object]) -> None:
        """Wait for the event, the time, or somebody in a hurry."""
        name = f"courtesy for {self._name}"
        waiting = [asyncio.create_task(one, name=name) for one in (event, self._hurry.wait())]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _group(self) -> list[int]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_sweepers, marked_processes.find_group, self.pid)

    async def _group_gone(self) -> None:
        await self._ended.wait()
        while await self._group():  # noqa: ASYNC110  no event tells of the end of a group
            await asyncio.sleep(_LOOK_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:  # not reaped: the number is still ours
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def _destroy(self) -> None:
        try:
            self._signal(signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(_DIES_S):
                    await self._ended.wait()
            await asyncio.get_running_loop().run_in_executor(_sweepers, self._sweep)
        except asyncio.CancelledError:  # the loop ends: now or never
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(_DIES_S)
            self._sweep()
            raise
        finally:
            self._release()
        await asyncio.wait(self._tasks())

    def _sweep(self) -> None:
        session = self.pid if self._popen.returncode is None else None
        left = marked_processes.kill_marked(MARK, self.marker, session)
        if left:
            log.error("processes_left", name=self._name, pids=left)

    def _release(self) -> None:
        code = self._popen.poll()  # reaps it
        if not self._ended.is_set():
            self._has_ended(-signal.SIGKILL if code is None else code)  # None: the kernel holds on to it
        self._watch.close()
        for end in (self._stdin, self._stdout, self._stderr, self._status):
            if end is not None:
                end.close()  # which ends the tasks that wait for it
        if self._lines is not None:
            self._tell(self._lines.end)

    def _tasks(self) -> list[asyncio.Task[None]]:
        writing = None if self._stdin is None else self._stdin.unfinished
        return [task for task in (self._draining, writing) if task is not None]
