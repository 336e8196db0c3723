"""Runs a program at a pseudo-terminal and answers its question, for the demo."""

from __future__ import annotations

import os
import select
import subprocess
import time
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 30.0


def answer_at_terminal(command: list[str], environ: dict[str, str], question: str, answer: str) -> str:
    """Run a program at its own pseudo-terminal, answer its question, and return its output.

    Raises TimeoutError if it does not end within `PATIENCE_S` seconds.
    """
    ours, theirs = os.openpty()
    program = subprocess.Popen(
        command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        printed, has_answered = b"", False
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([ours], [], [], 0.5)
            chunk = _read_terminal(ours) if ready else None
            if chunk == b"" or (chunk is None and program.poll() is not None):
                program.wait(PATIENCE_S)
                return printed.decode("utf-8", "replace").replace("\r\n", "\n").strip()
            printed += chunk or b""
            if not has_answered and question.encode() in printed:
                has_answered = True
                os.write(ours, answer.encode())
        raise TimeoutError(f"{Path(command[0]).name} did not end")
    finally:
        program.kill()
        program.wait()
        os.close(ours)


def _read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: on Linux, the other side of the terminal has been closed
        return b""
