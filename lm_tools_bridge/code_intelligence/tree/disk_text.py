"""Reads a file's text as it is on disk, with the state by which a later change is noticed. Blocks."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lm_tools_bridge.code_intelligence.tree.tree_changes import FileState
from lm_tools_bridge.code_intelligence.wire.positions import split_lines
from workspace_server.files.file_gate import real_path

MAX_BYTES: Final = 16 * 1024 * 1024
"""Language servers take minutes for larger files, or give up."""
_BOM: Final = b"\xef\xbb\xbf"
_ATTEMPTS: Final = 3

Encoding = Literal["utf-8", "latin-1"]


class FileLines(list[str]):
    """The lines of a file as LSP counts them.

    Attributes:
        real: the link-free path that they were read from; empty if they are of no file.
    """

    def __init__(self, text: str, real: str = "") -> None:
        super().__init__(split_lines(text))
        self.real = real


@dataclass(frozen=True, slots=True)
class DiskText:
    """The text of a file.

    Attributes:
        text: without a byte order mark, as editors send it.
        encoding: `latin-1` if the bytes are not UTF-8: positions are then only as good as this guess.
        state: of the file when it was read.
        real: its link-free path, as the kernel knew it then; empty if it was not read from a file.
    """

    text: str
    encoding: Encoding
    state: FileState
    real: str = ""

    def lines(self) -> FileLines:
        """The lines, with where they are from."""
        return FileLines(self.text, self.real)


def read_file(path: Path) -> DiskText:
    """The text of a regular file of at most `MAX_BYTES`, read again if it changes meanwhile.

    Raises:
        OSError: it cannot be read, is too large, or is not a regular file.
    """
    # a pipe with the name of a source file must not stop us
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            before = state_of(os.fstat(descriptor), path)
            content = _content(descriptor, path)
            if state_of(os.fstat(descriptor), path) == before:
                break
        real = real_path(descriptor, path)
    finally:
        os.close(descriptor)
    text, encoding = _decoded(content.removeprefix(_BOM))
    return DiskText(text, encoding, before, real)


def current_state(path: Path) -> FileState | None:
    """The state of the file now; None if it is gone or cannot be read."""
    try:
        return state_of(path.stat(), path)
    except OSError:
        return None


def state_of(status: os.stat_result, path: Path) -> FileState:
    """The state in a `stat` result.

    Raises:
        OSError: it is not a regular file.
    """
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino


def _content(descriptor: int, path: Path) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts: list[bytes] = []
    size = 0
    while part := os.read(descriptor, MAX_BYTES + 1 - size):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise OSError(errno.EFBIG, f"larger than {MAX_BYTES // (1024 * 1024)} MiB", str(path))
    return b"".join(parts)


def _decoded(content: bytes) -> tuple[str, Encoding]:
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"
