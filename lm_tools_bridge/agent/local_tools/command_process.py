"""Runs one shell command in a session of its own, and leaves nothing of it running."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.local_tools.command_output import CommandEnd, OutputBuffer
from lm_tools_bridge.agent.local_tools.command_watch import watched
from lm_tools_bridge.machine.process_ending import Judge, Verdict, environment, kill_all
from lm_tools_bridge.protocol import names
from lm_tools_bridge.text.harmless_variables import is_harmless, without_credentials

TERM_S: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""
DRAIN_S: Final = 0.25
"""Seconds to read on after the command has ended, if something it started keeps its output open."""
_CHUNK: Final = 64 * 1024
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


async def run_command(
    command: str, cwd: Path, limit_s: float, extra: Mapping[str, str], started: asyncio.Future[int] | None
) -> CommandEnd:
    """Run a command to its end, for at most `limit_s` seconds. Cancelling the task ends it.

    Args:
        extra: variables beside those of this program that are known to be no secrets.
        started: gets the process id, which is also the id of its session.

    Raises:
        OSError: it cannot be started.
    """
    async with watched() as watch:
        return await _watched_command(command, cwd, limit_s, extra, started=started, watch=watch)


async def _watched_command(
    command: str,
    cwd: Path,
    limit_s: float,
    extra: Mapping[str, str],
    *,
    started: asyncio.Future[int] | None,
    watch: Callable[[int], None],
) -> CommandEnd:
    mark = os.urandom(16).hex()
    process = await asyncio.create_subprocess_exec(
        _shell(),
        "-c",
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=cwd,
        env={**_passed_on(), **extra, names.CHILD_VARIABLE: mark},
        start_new_session=True,
    )
    watch(process.pid)
    if started is not None:
        started.set_result(process.pid)
    output, is_late = OutputBuffer(), False
    reading = asyncio.create_task(_read_output(process, output), name="output of a command")
    try:
        try:
            async with asyncio.timeout(limit_s):
                await process.wait()
        except TimeoutError:
            is_late = True
        else:
            await asyncio.wait({reading}, timeout=DRAIN_S)
    finally:
        await _end(process, mark)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return CommandEnd(output.text(), None if is_late else process.returncode, limit_s)


async def _read_output(process: asyncio.subprocess.Process, output: OutputBuffer) -> None:
    assert process.stdout is not None  # noqa: S101  narrows the type
    while chunk := await process.stdout.read(_CHUNK):
        output.add(chunk)


async def _end(process: asyncio.subprocess.Process, mark: str) -> None:
    """End the group, politely first, then whatever else the command started; not to be cancelled half-way."""
    ending = asyncio.create_task(_end_all(process, mark), name="end a command")
    cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def _end_all(process: asyncio.subprocess.Process, mark: str) -> None:
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), TERM_S)
    _signal_group(process.pid, signal.SIGKILL)
    await process.wait()
    await asyncio.to_thread(kill_all, _judge_of(f"{names.CHILD_VARIABLE}={mark}".encode()))


def _judge_of(mark: bytes) -> Judge:
    def judge(pid: int) -> Verdict:
        return "ours" if mark in (environment(pid) or b"").split(b"\0") else "not ours"

    return judge


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _shell() -> str:
    return next(
        (shell for shell in _SHELLS if Path(shell).exists()), "sh" if sys.platform != "win32" else "cmd"
    )


def _passed_on() -> dict[str, str]:
    """This program's variables that are known to be no secrets: a model reads the output."""
    return {
        name: value
        for name, value in os.environ.items()
        if is_harmless(name) and without_credentials(value) == value
    }
