"""Keeps a record of every decision: one JSON line in a file that only the user can read, without secrets."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.agent.interaction import Verdict
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.line_queue import LineQueue
from lm_tools_bridge.machine.own_process import own_euid
from lm_tools_bridge.machine.private_files import UnsafePathError, append_line
from lm_tools_bridge.text.redaction import HIDDEN, is_secret_name, mask

MAX_VALUE: Final = 500
"""Characters of one argument that are kept."""
_LONGEST_SECRET: Final = 500
"""Characters behind the kept ones in which the end of a secret is looked for."""
MOST_MEMBERS: Final = 50
"""Members of an object, and items of a list, that are kept."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Size of the file; a full one is kept once, as `NAME.1`."""
_IN_TEXT: Final = re.compile(
    r"(?i)((?:\b|_)(?:password|passwd|passphrase|secret|token|api[_-]?key|authorization|cookie)\w*[\"']?\s*[=:]\s*"
    r"(?:bearer\s+|basic\s+)?|--?(?:password|token|secret|api-?key)[= ]\s*|\b(?:bearer|basic)\s+)"
    r"(\"[^\"]*\"|'[^']*'|[^\s\"']+)"
)
_IN_ADDRESS: Final = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


class Audit:
    """The audit file. Lines are written by a thread, in order.

    Args:
        file: its path; the folder is made private.
        now: the time, for the lines.
        failed: told once, in words, if lines cannot be written.
    """

    def __init__(
        self,
        file: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._now = now
        self._failed = failed
        self._has_failed = False
        self._lines = LineQueue(self._append, lambda _: None)

    def write(
        self, tool: str, verdict: Verdict, arguments: Mapping[str, Any], seconds: float, exit_: str
    ) -> None:
        """Record one decision.

        Args:
            exit_: how the call ended: `ok`, `failed` or `not run`.
        """
        line = {
            "time": self._now().isoformat(timespec="milliseconds"),
            "user": _user(),
            "tool": tool,
            "decision": verdict.value,
            "duration_s": round(seconds, 3),
            "exit": exit_,
            "inputs": without_secrets(arguments),
        }
        self._lines.put(mask(json.dumps(line)))

    def close(self) -> None:
        """Write what waits, within a second."""
        self._lines.close()

    def _append(self, line: str) -> None:
        try:
            append_line(self._file, line, MOST_BYTES)
        except (OSError, UnsafePathError) as error:
            if not self._has_failed:
                self._has_failed = True
                self._failed(f"decisions cannot be recorded in {self._file}: {worded(error)}")


def without_secrets(value: Any) -> Any:
    """A JSON value for the record: secrets hidden by names and inside texts, long texts cut."""
    if isinstance(value, Mapping):
        return {
            str(key)[:MAX_VALUE]: HIDDEN if is_secret_name(str(key)) else without_secrets(item)
            for key, item in islice(value.items(), MOST_MEMBERS)
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value[:MOST_MEMBERS]]
    return _scrubbed(value) if isinstance(value, str) else value


def _scrubbed(text: str) -> str:
    """The beginning of a text. Only a little more of it is searched, so that a long text takes no time."""
    read = text[: MAX_VALUE + _LONGEST_SECRET]
    clean = _IN_ADDRESS.sub(rf"\1{HIDDEN}@", _IN_TEXT.sub(rf"\1{HIDDEN}", read))
    more = len(clean) + len(text) - len(read) - MAX_VALUE
    return f"{clean[:MAX_VALUE]}… ({more} more)" if more > 0 else clean


def _user() -> str:
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return str(own_euid())
