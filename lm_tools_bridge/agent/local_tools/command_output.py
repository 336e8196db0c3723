"""Keeps the beginning of a command's output and words how the command ended. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final

MAX_OUTPUT: Final = 1024 * 1024
"""Bytes of output that are kept."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-_])")


class OutputBuffer:
    """The first `MAX_OUTPUT` bytes, and the count of the others."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = MAX_OUTPUT - len(self._kept)
        self._kept += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def text(self) -> str:
        """The text without control sequences, and how much is missing."""
        text = self._kept.decode("utf-8", "replace").replace("\r\n", "\n")
        text = _CONTROL.sub("", _SEQUENCE.sub("", text))
        if self.dropped:
            return f"{text.rstrip(chr(0xFFFD))}\n[truncated: {self.dropped} bytes dropped]"
        return text.removesuffix("\n")


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended. `code`: exit code, the negative signal number, or None if its time was over."""

    output: str
    code: int | None
    limit_s: float

    @property
    def failed(self) -> bool:
        """Whether it did anything but exit with 0."""
        return self.code != 0

    @property
    def text(self) -> str:
        """The output alone if it succeeded; else the output and how it ended."""
        if not self.failed:
            return self.output
        if self.code is None:
            ending = f"[ended after {self.limit_s:g} s, with everything it had started]"
        elif self.code < 0:
            ending = f"[ended by {_signal_name(-self.code)}]"
        else:
            ending = f"[exit code {self.code}]"
        return f"{self.output}\n{ending}" if self.output else ending


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
