"""Says how a child process ended, with its last words, and kills what still holds its output open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from lm_tools_bridge.text import redaction
from workspace_server.processes.child_process import ChildProcess

MAX_WORDS: Final = 200
LAST_WORDS_S: Final = 0.1
"""Seconds between the end of a process and that of its output, in either order."""


def exit_reason(child: ChildProcess, hidden: Iterable[str] = ()) -> str | None:
    """How it ended, and its last line on standard error; None while it runs.

    Args:
        child: the process.
        hidden: values that are masked in the text.
    """
    code = child.returncode
    if code is None:
        return None
    return child.ending.words(code) + last_words(child, hidden)


def last_words(child: ChildProcess, hidden: Iterable[str] = ()) -> str:
    """The last line on standard error, for the end of a sentence; empty if there was none."""
    words = "".join(child.stderr.lines(1)).strip()[:MAX_WORDS]
    return f"; its last line on standard error was: {redaction.mask(words, hidden)}" if words else ""


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
