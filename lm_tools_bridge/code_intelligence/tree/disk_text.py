"""Reads a file's text as it is on disk, with the state by which a later change is noticed. Blocks."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tree.tree_changes import FileState
from lm_tools_bridge.code_intelligence.wire.positions import split_lines
from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.machine.file_calls import real_path

_MAX_HEAD: Final = 1000
"""Bytes: two lines that name an encoding are short."""
_OF_BYTES: Final = (
    "iso8859",
    "cp1",
    "cp4",
    "cp8",
    "koi8",
    "mac-",
    "latin",
    "ascii",
    "gb",
    "big5",
    "euc",
    "shift",
)
"""How Python's names of encodings of single bytes, or of languages of Asia, begin: no others name a text."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, and what text follows them."""
_CODING: Final = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""How a comment in the first two lines names the encoding, as in Python, Ruby and editors."""
_ATTEMPTS: Final = 3
"""A file is read again if it changed under the read; who writes it without a pause gets the last text."""


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
        encoding: of the bytes; empty if it is not known: positions are then only as good as a guess.
        state: of the file when it was read.
        real: its link-free path, as the kernel knew it then; empty if it was not read from a file.
        has_mark: whether it begins with a byte order mark.
    """

    text: str
    encoding: str
    state: FileState
    real: str = ""
    has_mark: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether every program reads the same: it is UTF-8 without a byte order mark."""
        return self.encoding == "utf-8" and not self.has_mark

    def lines(self) -> FileLines:
        """The lines, with where they are from."""
        return FileLines(self.text, self.real)


def read_file(path: Path) -> DiskText:
    """The text of a regular file of at most `MAX_SOURCE`, read again if it changes meanwhile.

    Raises:
        OSError: it cannot be read, is too large, or is not a regular file.
    """
    with regular_file.open_file(path) as descriptor:
        for _ in range(_ATTEMPTS):
            before = state_of(os.fstat(descriptor), path)
            content = regular_file.content_of(descriptor, path, regular_file.MAX_SOURCE)
            if state_of(os.fstat(descriptor), path) == before:
                break
        real = real_path(descriptor, path)
    text, mark, encoding = decoded(content)
    return DiskText(text, encoding, before, real, bool(mark))


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


def decoded(content: bytes) -> tuple[str, bytes, str]:
    """The text of a file, its byte order mark, and its encoding; an empty one if that is not known.

    Bytes of no known encoding become one character each, as in Latin-1, so that positions hold.
    """
    mark, by_mark = next(((mark, name) for mark, name in _MARKS if content.startswith(mark)), (b"", ""))
    for encoding in (by_mark or "utf-8", _named_encoding(content)):
        try:
            return content[len(mark) :].decode(encoding), mark, encoding
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), b"", ""


def _named_encoding(content: bytes) -> str:
    """The encoding that one of the first two lines names, if it is one of bytes; else UTF-8 again."""
    head = content[:_MAX_HEAD].split(b"\n", 2)[:2]
    name = next((match[1].decode("ascii") for line in head if (match := _CODING.match(line))), "utf-8")
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return "utf-8"
    return known if known.startswith(_OF_BYTES) else "utf-8"
