"""Reads a file that is to be changed: its bytes, text, encoding and line ends. Blocks."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tree.disk_text import decoded
from workspace_server.files.file_gate import FileGate

MAX_FILE: Final = 8 * 1024 * 1024
"""Bytes: larger files are generated, and a change of them would be no edit of a symbol."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class Unchangeable(Exception):
    """A file cannot be changed; the message says why, for a model."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was read.

    Attributes:
        data: all of its bytes.
        mode: its permissions.
        text: without byte order mark.
        bom: the byte order mark, if there is one.
        encoding: of the text.
        changed_ns: when content or permissions changed last, in nanoseconds since 1970.
    """

    data: bytes
    mode: int
    text: str
    bom: bytes
    encoding: str
    changed_ns: int

    def encoded(self, text: str) -> bytes:
        """Another text in the same encoding."""
        return self.bom + text.encode(self.encoding)

    def with_own_line_ends(self, text: str) -> str:
        """A text to insert, with the line ends that most lines of the file have."""
        windows = self.text.count("\r\n")
        return _LINE_END.sub("\r\n", text) if windows > self.text.count("\n") - windows else text


def read_content(path: Path, gate: FileGate) -> FileContent:
    """Read a regular file that the gate lets through.

    Raises:
        Unchangeable: it is a link, no regular file, too large, or no text that is written back unchanged.
    """
    data, status = read_bytes(path, gate)
    text, bom, encoding = decoded(data)
    if not encoding:
        raise Unchangeable("its encoding is not known, so a change could destroy it")
    changed = max(status.st_ctime_ns, status.st_mtime_ns)
    return FileContent(data, stat.S_IMODE(status.st_mode), text, bom, encoding, changed)


def read_bytes(path: Path, gate: FileGate) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file, and its status.

    Raises:
        Unchangeable: it is a link, no regular file, too large, or cannot be read.
    """
    try:
        if path.is_symlink():
            raise Unchangeable("it is a link")
        descriptor = gate.open(path)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_size > MAX_FILE:
                raise Unchangeable(f"it is larger than {MAX_FILE // 1024 // 1024} MiB")
            return file.read(MAX_FILE + 1), status
    except OSError as error:
        raise Unchangeable((error.strerror or "it cannot be read").lower()) from None
