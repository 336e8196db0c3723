"""Runs a command at a pseudo-terminal, and measures how long it takes and how long it shows nothing."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_ENDED_S: Final = 0.05
"""How often it is checked whether a silent command has ended: what it started may keep its terminal open."""
_KEPT: Final = 64 * 1024


class Ran(NamedTuple):
    """What came of a command.

    Attributes:
        code: its exit code; None if it was stopped because it took too long.
        seconds: how long it took.
        silence: the longest time without output, from its start to its end.
        output: the end of what it showed.
    """

    code: int | None
    seconds: float
    silence: float
    output: str


def run(command: list[str], folder: Path, environ: Mapping[str, str], within_s: float) -> Ran:
    """Run a command whose output is a terminal and whose input is empty.

    Raises:
        OSError: it cannot be started.
    """
    ours, theirs = os.openpty()
    try:
        began = time.perf_counter()
        program = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        theirs = -1
        try:
            return _watch(program, ours, began, within_s)
        finally:
            program.kill()
            program.wait()
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)


def _watch(program: subprocess.Popen[bytes], terminal: int, began: float, within_s: float) -> Ran:
    last, silence, output, is_over = began, 0.0, b"", False
    while not is_over:
        ready, _, _ = select.select([terminal], [], [], _ENDED_S)
        shown = _read(terminal) if ready else b""
        now = time.perf_counter()
        is_over = not shown and (program.poll() is not None or now - began > within_s)
        if shown or is_over:
            last, silence = now, max(silence, now - last)
            output = (output + shown)[-_KEPT:]
    return Ran(program.poll(), last - began, silence, output.decode("utf-8", "replace"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: all programs of the terminal have ended
        return b""
