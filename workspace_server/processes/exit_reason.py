"""Says in a sentence how a child process ended, with its last words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from host.text import redaction
from workspace_server.processes.child_process import ChildProcess

MAX_WORDS: Final = 200


def exit_reason(child: ChildProcess, hidden: Iterable[str] = ()) -> str | None:
    """How it ended, and its last line on standard error; None while it runs.

    Args:
        child: the process.
        hidden: values that are masked in the text.
    """
    code = child.returncode
    if code is None:
        return None
    words = "".join(child.stderr.lines(1)).strip()[:MAX_WORDS]
    if not words:
        return child.ending.words(code)
    shown = redaction.mask(words, hidden)
    return f"{child.ending.words(code)}; its last line on standard error was: {shown}"
