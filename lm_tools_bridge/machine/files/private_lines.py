"""Appends lines to a log file that only the user can read; a file that becomes too large is kept once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lm_tools_bridge.machine.files.private_files import make_private


def append_line(file: Path, line: str, most: int | None = None) -> None:
    """Append one line; the file has mode 0600 and its folder is made private. Blocks.

    Args:
        file: its path; a link is not followed.
        line: without its end.
        most: bytes, beyond which the file is renamed to `NAME.1`, in place of an older one; None: no limit.

    Raises:
        OSError, private_files.UnsafePathError: it cannot be written.
    """
    make_private(file.parent)
    descriptor = _open_file(file)
    try:
        if most is not None and os.fstat(descriptor).st_size + len(line) > most:
            os.close(descriptor)
            file.replace(file.with_name(f"{file.name}.1"))
            descriptor = _open_file(file)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
        os.write(descriptor, line.encode(errors="replace") + b"\n")
    finally:
        os.close(descriptor)


def _open_file(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
