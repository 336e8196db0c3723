"""Runs one script in a process of its own; sets its environment, confinement and stop times.

The caller enforces the deadline: a cancelled call sends TERM to the process, and KILL some seconds later.
`outcome.py` interprets the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_folder import PrivateFolder, remove, temporary_folder
from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server import log
from workspace_server.call_context import Toolbox
from workspace_server.processes import confinement
from workspace_server.processes.child_process import ChildProcess, ChildStartError, Command
from workspace_server.processes.confinement import Confinement
from workspace_server.sources.scripts import bridge, prelude
from workspace_server.sources.scripts.outcome import MAX_RESULT, MAX_STDOUT, Ended, outcome
from workspace_server.sources.scripts.script_confinement import (
    cache_folder,
    planted_files,
    remove_planted,
    script_confinement,
    script_variables,
)
from workspace_server.sources.scripts.slots import Slots
from workspace_server.tool import CallOutcome, Tool, ToolError

PRELUDE: Final = prelude.__file__
LIBRARY: Final = str(Path(__file__).parent / "library")
ARGUMENTS: Final = "arguments.json"
RESULT: Final = "result.json"
# Time for a script to remove what it made; the caller waits for its end.
TERM_S: Final = 5.0
DRAIN_S: Final = 0.25
"""Seconds to read on after the script has ended, if a process it started keeps its output open."""
# Characters: the end of a traceback names the error.
_MAX_TRACE: Final = 4_000
_STOPPING: Final = Refusal(Reason.SOURCE_UNAVAILABLE, "the server is stopping", delivered="unknown")

Environment = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the environment variables of every script, without those that its manifest adds."""


@dataclass(frozen=True, slots=True)
class Job:
    """One script to run.

    Attributes:
        tool: the called tool.
        argv: program and arguments; for a Python script what `python` returns.
        cwd: working folder, absolute.
        env: environment variables that the tool's manifest adds.
    """

    tool: Tool
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


def python(script: Path, folder: Path, libraries: Sequence[Path]) -> tuple[str, ...]:
    """The command that runs a Python script, isolated from the user's environment and the workspace.

    `folder` comes first on the import path, then the libraries.
    """
    paths = (str(script), str(folder), *map(str, libraries), LIBRARY)
    return (sys.executable, "-I", "-B", "-X", "utf8", PRELUDE, *paths)


class Runner:
    """Runs scripts, each with a private folder that is removed after the call.

    Args:
        folder: parent of the private folders; created when needed, removed by `close`. If its path is too
            long for a Unix socket below it, they are in the system's temporary folder instead.
        root: the workspace.
        environment: returns the environment variables of every script.
        confined: whether `script_confinement` limits the scripts.
        term_s: seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        environment: Environment,
        *,
        confined: bool,
        term_s: float = TERM_S,
    ) -> None:
        longest = len(os.fsencode(folder)) + len(f"/000000/{bridge.SOCKET}")
        self._temporary = None if longest <= bridge.MAX_PATH else temporary_folder()
        self._folder = folder if self._temporary is None else self._temporary.path
        self._root = root
        self._environment = environment
        self._confined = confined
        self._term_s = term_s
        self._running: set[asyncio.Task[Ended]] = set()
        self._serial = 0
        self._closed = False
        self._probe: asyncio.Task[tuple[str, ...]] | None = None

    @property
    def protection(self) -> tuple[str, ...] | None:
        """The layers that confine scripts, empty for none; None until the system was probed for them."""
        if not self._confined:
            return ()
        return self._probe.result() if self._probe is not None and self._probe.done() else None

    async def run(
        self, job: Job, arguments: Mapping[str, object], toolbox: Toolbox | None, slots: Slots
    ) -> CallOutcome:
        """Run a script and return its result. Scripts that it calls use `slots`.

        Raises:
            ToolError: the script could not be started.
        """
        if self._closed:
            return _STOPPING
        stdin = json.dumps(arguments, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        work = asyncio.create_task(self._work(job, stdin, toolbox, slots), name=f"script {job.tool.name}")
        self._running.add(work)
        try:
            # a cancellation here cancels `work`, and still waits for its end
            ended = await work
        except asyncio.CancelledError:
            if self._closed and not _is_cancelled():
                return _STOPPING
            raise
        finally:
            self._running.discard(work)
        if ended.code != 0:
            trace = "\n".join(ended.stderr)[-_MAX_TRACE:]
            log.info("script_failed", tool=job.tool.name, exit_code=ended.code, stderr=trace)
        return outcome(job.tool, ended)

    async def close(self) -> None:
        """End all scripts and remove their folders. Idempotent."""
        self._closed = True
        tasks = [*self._running, *([] if self._probe is None else [self._probe])]
        for task in self._running:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._temporary is None:
            await asyncio.to_thread(remove, self._folder)
        else:
            await asyncio.to_thread(self._temporary.close)

    async def _work(self, job: Job, stdin: bytes, toolbox: Toolbox | None, slots: Slots) -> Ended:
        self._serial += 1
        folder = self._folder / str(self._serial)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, remove, folder)
            try:
                await asyncio.to_thread(_prepare, folder, stdin, self._temporary)
                if toolbox is not None:
                    await stack.enter_async_context(bridge.serve(folder, toolbox, slots))
            except OSError as error:
                raise ToolError(
                    f"the call cannot be prepared: {error.strerror or 'the disk fails'}"
                ) from None
            command = await self._command(job, folder)
            planted = await asyncio.to_thread(planted_files, self._root) if self._confined else frozenset()
            try:
                ended = await self._run(command, stdin, job.tool.name)
            finally:
                if self._confined:
                    await asyncio.to_thread(self._remove_planted, job.tool.name, planted)
            result = await asyncio.to_thread(_read_result, folder / RESULT)
        return replace(ended, result=result)

    async def _command(self, job: Job, folder: Path) -> Command:
        base = await self._environment()
        caches = script_variables(cache_folder(self._root, base)) if self._confined else {}
        env = {
            **base,
            **caches,
            **job.env,
            "LMTB_TOOL_NAME": job.tool.name,
            "LMTB_TOOL_ARGS_FILE": str(folder / ARGUMENTS),
            "LMTB_TOOL_RESULT_FILE": str(folder / RESULT),
        }
        # without the variables of the manifest: a script must not choose its own limits
        limits = await self._limits(folder, base) if self._confined else None
        return Command(job.argv, env, str(job.cwd), limits)

    async def _limits(self, folder: Path, base: Mapping[str, str]) -> Confinement:
        if self._probe is None:
            self._probe = asyncio.create_task(
                asyncio.to_thread(confinement.available_layers), name="script-protection"
            )
        layers = await asyncio.shield(self._probe)
        try:
            limits = await asyncio.to_thread(script_confinement, self._root, folder, base)
        except OSError as error:
            raise ToolError(f"the folder of its caches cannot be made: {worded(error)}") from None
        return limits if "fixed-files" in layers else replace(limits, pinned=(), fixed=())

    def _remove_planted(self, tool: str, before: frozenset[str]) -> None:
        for name in remove_planted(self._root, before):
            log.error("script_file_removed", tool=tool, file=f".git/{name}")

    async def _run(self, command: Command, stdin: bytes, name: str) -> Ended:
        try:
            child = await ChildProcess.start(command, stdin=stdin, name=name)
        except ChildStartError as failed:
            raise ToolError(str(failed)) from None
        reading = asyncio.create_task(_read_output(child), name=f"output of {name}")
        try:
            code = await child.wait()
            await asyncio.wait({reading}, timeout=DRAIN_S)
        finally:
            try:
                await child.stop(polite_s=0, term_s=self._term_s)
            finally:
                await asyncio.wait({reading})  # ends, because the pipe is closed
        output, dropped = reading.result()
        return Ended(code, output, dropped, tuple(child.stderr.lines(20)))


def _is_cancelled() -> bool:
    """Whether the current task itself was cancelled, not only the task that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _prepare(folder: Path, stdin: bytes, temporary: PrivateFolder | None) -> None:
    """Create the private folder of one call and write the arguments to it."""
    if temporary is not None:
        temporary.open()
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder / ARGUMENTS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(stdin)


def _read_result(file: Path) -> bytes | None:
    """The content of the result file; None if the script wrote none."""
    try:
        descriptor = os.open(file, file_calls.READ_NO_LINK)
        with os.fdopen(descriptor, "rb") as content:
            return content.read(MAX_RESULT + 1)
    except OSError:
        return None


async def _read_output(child: ChildProcess) -> tuple[bytes, int]:
    """Read standard output to its end: the first `MAX_STDOUT` bytes, and the number of bytes after them."""
    output, dropped = bytearray(), 0
    while chunk := await child.read():
        room = MAX_STDOUT - len(output)
        output += chunk[:room]
        dropped += max(0, len(chunk) - room)
    return bytes(output), dropped
