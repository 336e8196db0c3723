"""Owns one child process: starts it, sends TERM and later KILL, and ends everything it started.

The child leads its own session and process group. Everything it starts inherits a mark in the environment, by
which `marked_processes.py` finds processes that left the group. `spawn.py` starts the child, `pipes.py` reads
and writes its pipes. The owner interprets the output and decides about restarts.
It can ask how the child ended, in words.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from lm_tools_bridge.machine.process_ending import Ending, exit_code_unreaped, open_pidfd
from lm_tools_bridge.protocol import names
from lm_tools_bridge.text import redaction
from workspace_server import log
from workspace_server.processes import marked_processes
from workspace_server.processes.pipes import (
    CHUNK,
    LOOKED_AT,
    LineLimiter,
    PipeWriteError,
    ReadEnd,
    StderrTail,
    WriteEnd,
    cause_line,
)
from workspace_server.processes.spawn import (
    ChildStartError,
    Command,
    Spawned,
    launcher_failure,
    spawn,
    start_error,
)

__all__ = ["MARK", "ChildProcess", "ChildStartError", "Command", "PipeWriteError"]

MARK: Final = names.CHILD_VARIABLE
# A start takes milliseconds; a program on a network disk that is gone would block it for ever.
START_S: Final = 30.0
# After KILL a process ends at once, unless the kernel waits for a disk: that must not hold up our own end.
_DIES_S: Final = 2.0
# The system reports no event when a process group ends, so we look for it.
_POLL_S: Final = 0.02
# Chunks that are thrown away between two looks, so that a child that writes without end cannot hold the loop.
_DISCARD_CHUNKS: Final = 64

# a pool of its own: the loop's default threads may all be blocked on a hung disk
_killers: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="kill-marked")


class ChildProcess:
    """A running process that leads its own session and process group.

    The caller must call `stop` or `kill` in the end, even if the process exited by itself.

    Attributes:
        pid: process id; not reused before `stop` has returned.
        marker: value of `LMTB_CHILD` in the environment of the process and of everything it starts.
        stderr: the end of its standard error.
        returncode: exit code, negative for a signal; None while the process runs.
        ending: says in words how it ended.
    """

    def __init__(self, spawned: Spawned, name: str, marker: str) -> None:
        self.pid = spawned.popen.pid
        self.marker = marker
        self.stderr = StderrTail()
        self.returncode: int | None = None
        self.ending = Ending()
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
        self._draining = asyncio.create_task(
            self._stderr.drain(self._on_stderr_chunk), name=f"stderr of {name}"
        )

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

        Call it from the main thread: on Linux the child is killed when the thread that started it ends.

        Args:
            command: what to run.
            stdin: True for a pipe, bytes for this content followed by end of file, False for `/dev/null`.
            name: name for logs and tasks.
            on_stderr: receives cleaned lines of standard error, at most 100 per second.

        Raises:
            ChildStartError: program or folder is missing, or a limit cannot be set. No process remains.
        """
        # starts with the server's instance id, so that the manager finds the children of a killed server
        marker = f"{os.environ.get(names.INSTANCE_VARIABLE, '')}.{os.urandom(16).hex()}"
        child = cls(spawn(command, marker, stdin), name or command.argv[0], marker)
        child._lines = None if on_stderr is None else LineLimiter(on_stderr)
        try:
            problem = await child._wait_for_exec()
        except BaseException:
            await child.kill()
            raise
        if problem is not None:
            await child.kill()
            raise start_error(command, problem)
        return child

    async def _wait_for_exec(self) -> str | None:
        """Wait until the launcher has executed the command; the reason if it failed, else None."""
        if self._status is None:
            return None
        report = b""
        try:
            async with asyncio.timeout(START_S):
                while chunk := await self._status.read(CHUNK):
                    report += chunk
        except TimeoutError:
            return f"it did not start within {START_S:g} s"
        self._status.close()
        return launcher_failure(report)

    async def write(self, data: bytes, timeout_s: float) -> None:
        """Write to standard input; concurrent writes never interleave.

        Raises:
            PipeWriteError: the child did not read the data within `timeout_s` seconds, or closed the pipe.
                Every later write fails, too.
        """
        if self._stdin is None:
            raise PipeWriteError("it has no standard input")
        await self._stdin.write(data, timeout_s)

    def close_stdin(self) -> None:
        """Close the child's standard input. Idempotent."""
        if self._stdin is not None:
            self._stdin.close()

    async def read(self, n: int = 4 * CHUNK) -> bytes:
        """Read up to `n` bytes of standard output; empty at its end or after `stop`. One reader at a time.

        Output that nobody reads stays in the pipe and blocks the child once the pipe is full.
        """
        return await self._stdout.read(n)

    async def wait(self) -> int:
        """Wait until the process exits and return its exit code, even if others still hold its pipes.

        `stderr` is complete then. Processes it started may still run; `stop` ends them.
        """
        await self._ended.wait()
        assert self.returncode is not None  # noqa: S101  narrows the type: set before the event
        return self.returncode

    async def stop(self, *, polite_s: float = 2.0, term_s: float = 5.0) -> None:
        """End the process and everything it started.

        Closes standard input; after `polite_s` seconds sends SIGTERM to the group, after `term_s` more
        SIGKILL, then kills every process with the mark. Skips steps with nothing left to end. Unread output
        is lost. Idempotent. If the caller is cancelled, everything is killed at once.
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
        """Kill at once; also shortens a `stop` that is already running."""
        self._hurry.set()
        await self.stop(polite_s=0, term_s=0)

    def _has_ended(self, code: int) -> None:
        for _ in range(16):  # bounded: a grandchild may write for ever
            if not (chunk := self._stderr.read_now(CHUNK)):
                break
            self._on_stderr_chunk(chunk)
        self.returncode = code
        self._ended.set()

    def _on_stderr_chunk(self, chunk: bytes) -> None:
        self.stderr.feed(chunk)
        if (lines := self._lines) is not None:
            self._call_listener(lambda: lines.feed(chunk))

    def _call_listener(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  a faulty listener must not stop the pipe from being read
            self._lines = None
            log.fault("stderr_listener_failed", error, name=self._name)

    async def _finish(self, polite_s: float, term_s: float) -> None:
        try:
            self.close_stdin()
            discard = asyncio.create_task(self._discard(), name=f"discard output of {self._name}")
            try:
                await self._terminate(polite_s, term_s)
            finally:
                discard.cancel()
                await asyncio.gather(discard, return_exceptions=True)
        finally:
            await self._destroy()

    async def _discard(self) -> None:
        """Read output that nobody else reads, so that an exiting child does not block on a full pipe."""
        while True:
            await asyncio.sleep(_POLL_S)
            for _ in range(_DISCARD_CHUNKS):
                if self._stdout.has_waiter or not self._stdout.read_now(CHUNK):
                    break

    async def _terminate(self, polite_s: float, term_s: float) -> None:
        if self._hurry.is_set():
            return
        if self._stdin is not None:  # without a standard input the child got no request to exit
            await self._wait_or_hurry(polite_s, self._ended.wait())
        if self._ended.is_set() and not await self._group():
            return
        self._signal(signal.SIGTERM)
        await self._wait_or_hurry(term_s, self._group_gone())

    async def _wait_or_hurry(self, seconds: float, event: Coroutine[Any, Any, object]) -> None:
        """Wait for the event, at most `seconds`, or until `kill` is called."""
        name = f"grace period of {self._name}"
        waiting = [asyncio.create_task(awaitable, name=name) for awaitable in (event, self._hurry.wait())]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _group(self) -> list[int]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_killers, marked_processes.find_group, self.pid)

    async def _group_gone(self) -> None:
        await self._ended.wait()
        while await self._group():  # noqa: ASYNC110  the system reports no event when a group ends
            await asyncio.sleep(_POLL_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:  # not reaped: the pid is still ours
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def _destroy(self) -> None:
        try:
            self._signal(signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(_DIES_S):
                    await self._ended.wait()
            await asyncio.get_running_loop().run_in_executor(_killers, self._kill_marked)
        except asyncio.CancelledError:  # the loop is closing: this is the last chance
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(_DIES_S)
            self._kill_marked()
            raise
        finally:
            self._release()
        await asyncio.wait(self._tasks())

    def _kill_marked(self) -> None:
        session = self.pid if self._popen.returncode is None else None
        left = marked_processes.kill_marked(MARK, self.marker, session)
        if left:
            log.error("processes_left", name=self._name, pids=left)

    def _release(self) -> None:
        code = self._popen.poll()  # reaps it
        if not self._ended.is_set():
            self._has_ended(
                -signal.SIGKILL if code is None else code
            )  # None: the kernel has not freed it yet
        self._watch.close()
        for end in (self._stdin, self._stdout, self._stderr, self._status):
            if end is not None:
                end.close()  # ends the tasks that wait for it
        if self._lines is not None:
            self._call_listener(self._lines.end)

    def _tasks(self) -> list[asyncio.Task[None]]:
        writing = None if self._stdin is None else self._stdin.unfinished
        return [task for task in (self._draining, writing) if task is not None]


class ExitWatch:
    """Calls `ended(exit code)` once; a negative code is the signal that ended the process.

    It does not reap the child: an unreaped child keeps its pid, so signals to its group cannot hit others.
    """

    def __init__(self, popen: subprocess.Popen[bytes], ended: Callable[[int], None]) -> None:
        self._popen = popen
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._descriptor = open_pidfd(popen.pid)
        self._timer: asyncio.TimerHandle | None = None
        if self._descriptor is None:
            self._poll()
        else:
            self._loop.add_reader(self._descriptor, self._look)

    def close(self) -> None:
        """Watch no longer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _poll(self) -> None:
        if not self._look():
            self._timer = self._loop.call_later(_POLL_S, self._poll)

    def _look(self) -> bool:
        code = exit_code(self._popen)
        if code is None:
            return False
        self.close()
        self._ended(code)
        return True


def exit_code(popen: subprocess.Popen[bytes]) -> int | None:
    """How the process ended, or None while it runs. It stays unreaped where the system can do that."""
    if popen.returncode is None:
        with suppress(ChildProcessError, NotImplementedError):
            return exit_code_unreaped(popen.pid)
    return popen.poll()


# Characters of a child's last line: the message that quotes it stays readable.
MAX_WORDS: Final = 200
LAST_WORDS_S: Final = 0.1
"""Seconds between the end of a process and that of its output, in either order."""


def exit_reason(child: ChildProcess, hidden: Iterable[str] = ()) -> str | None:
    """How it ended, and what it wrote about that on standard error; None while it runs.

    Args:
        child: the process.
        hidden: values that are masked in the text.
    """
    code = child.returncode
    if code is None:
        return None
    return child.ending.words(code) + last_words(child, hidden)


def last_words(child: ChildProcess, hidden: Iterable[str] = ()) -> str:
    """The line on standard error that tells why, for the end of a sentence; empty if there was none."""
    words = cause_line(child.stderr.lines(LOOKED_AT))[:MAX_WORDS]
    return f"; it wrote on standard error: {redaction.mask(words, hidden)}" if words else ""


async def reason_of_end(child: ChildProcess, hidden: Iterable[str] = ()) -> str:
    """Why the output of a process ended: as `exit_reason` says, or that it closed its output."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_S):
            await child.wait()
    return exit_reason(child, hidden) or "closed its output"


async def kill_after_exit(child: ChildProcess) -> None:
    """Wait for the end of a process, then kill what it left running: its output would otherwise never end."""
    await child.wait()
    await asyncio.sleep(LAST_WORDS_S)
    await child.kill()
