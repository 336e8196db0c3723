"""Ends a running command if this program dies without a chance to do it, as after SIGKILL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

_SCRIPT: Final = 'read group || exit; read done || kill -s KILL -- "-$group"'
"""Reads the group, then waits: for a line, or for the end of the pipe, whose other end this program holds."""


@asynccontextmanager
async def watched() -> AsyncGenerator[Callable[[int], None]]:
    """A watch over a process group, which begins when its id is given, and ends with the block.

    Raises:
        OSError: there is no shell.
    """
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", _SCRIPT, stdin=asyncio.subprocess.PIPE, stdout=nowhere, stderr=nowhere,
        start_new_session=True, env={},
    )  # fmt: skip
    pipe = process.stdin
    assert pipe is not None  # noqa: S101  narrows the type

    def watch(group: int) -> None:
        pipe.write(f"{group}\n".encode())

    try:
        yield watch
    finally:
        # killed, not told: it must not act on a group whose id is free again
        with suppress(ProcessLookupError):
            process.kill()
        await _gone(process)


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Wait for the end, which comes at once, also while this task is cancelled."""
    waiting = asyncio.create_task(process.wait(), name="end a watch")
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
