"""Hides how systems differ in file calls: flags, modes, appending, replacing.

A flag is 0 where a system lacks it: Windows refuses no link by a flag, and macOS cannot open a mere name.

Other processes may have a file open. Linux and macOS do not mind. Windows appends in two steps unless the
file is opened for nothing else, so that lines of two writers overwrite each other. It replaces no file
that anybody has open, programs that look for viruses included.

Standard library only and quick to import: short command line verbs use it. All functions block.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

CLOSE_ON_EXEC: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
"""What we start does not inherit the descriptor."""
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""Windows changes the ends of lines without it."""
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""A symbolic link in the last place of the path is refused (ELOOP)."""
NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
"""A pipe in the place of a file would wait for its other end, perhaps for ever."""
FOLDER: Final[int] = getattr(os, "O_DIRECTORY", 0)
"""Anything but a folder is refused (ENOTDIR)."""
NAME_ONLY: Final[int] = getattr(os, "O_PATH", 0)
"""The descriptor only names the file, which may be unreadable. Linux only."""
READ_FILE: Final[int] = os.O_RDONLY | NO_WAIT | CLOSE_ON_EXEC | BINARY
"""To read what others wrote, links included."""
READ_NO_LINK: Final[int] = READ_FILE | NO_LINK
READ_FOLDER: Final[int] = os.O_RDONLY | FOLDER | NO_LINK | CLOSE_ON_EXEC

REPLACE_WAIT_S: Final = 1.0
"""Scanners and indexers keep a new file open for 10 to 100 ms; who has it open longer uses it."""
# A scanner lets go after some of these; a hundred attempts cost next to no processor time.
_POLL_S: Final = 0.01
_HELD_BY_OTHERS: Final = frozenset({5, 32, 33})
"""Windows: ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION."""


def replace(
    source: Path,
    target: Path,
    folder: int | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Give a file the name of another one, which it replaces atomically.

    Args:
        folder: the descriptor of the folder that both paths start from; None for the current one.

    Raises:
        OSError: it cannot be replaced; with EBUSY, another program had it open for `REPLACE_WAIT_S`.
    """
    deadline = now() + REPLACE_WAIT_S
    while True:
        try:
            os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)
            return
        except OSError as error:
            if getattr(error, "winerror", None) not in _HELD_BY_OTHERS:
                raise
            if now() >= deadline:
                reason = "another program has the file open, or it may not be written; close it, then retry"
                raise OSError(errno.EBUSY, reason, str(target)) from error
        sleep(_POLL_S)


def open_to_append(path: Path, mode: int = 0o600) -> int:
    """Open a file, or make it, for lines that no other writer overwrites. The caller closes the descriptor.

    Every write of at most some kilobytes appends at once.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    if sys.platform == "win32":
        return _open_for_appending_only(path)
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINK | CLOSE_ON_EXEC
    return os.open(path, how, mode)


def restrict(descriptor: int, mode: int) -> None:
    """Set the mode of an open file. Windows has none: there the folder's access list protects the file."""
    if sys.platform != "win32":
        os.fchmod(descriptor, mode)


def real_path(descriptor: int, path: str | os.PathLike[str]) -> str:
    """The link-free path of an open file, as the kernel knows it.

    Args:
        descriptor: of the file.
        path: by which it was opened, for systems whose kernel does not tell.

    Raises:
        OSError: it is not known, or another file lies there by now.
    """
    if sys.platform == "linux":
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115  of every file that is shown
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    real = os.path.realpath(path)
    if not os.path.samestat(os.stat(real), os.fstat(descriptor)):  # noqa: PTH116  texts
        raise OSError(errno.ESTALE, "it was replaced while it was read", str(path))
    return real


# Values of CreateFileW. Without FILE_WRITE_DATA the kernel appends every write, wherever the file ends.
_APPEND_DATA, _READ_ATTRIBUTES, _SYNCHRONIZE = 0x4, 0x80, 0x10_0000
_SHARE_READ, _SHARE_WRITE, _SHARE_DELETE = 0x1, 0x2, 0x4
_OPEN_ALWAYS: Final = 4
_NORMAL, _OPEN_REPARSE_POINT = 0x80, 0x20_0000


def _open_for_appending_only(path: Path) -> int:
    if sys.platform != "win32":
        raise NotImplementedError("other systems append by O_APPEND")
    import _winapi  # noqa: PLC0415  of Windows
    import msvcrt  # noqa: PLC0415  of Windows

    handle = _winapi.CreateFile(
        str(path),
        _APPEND_DATA | _READ_ATTRIBUTES | _SYNCHRONIZE,
        _SHARE_READ | _SHARE_WRITE | _SHARE_DELETE,  # a log can be renamed while it is written
        0,
        _OPEN_ALWAYS,
        _NORMAL | _OPEN_REPARSE_POINT,
        0,
    )
    descriptor = msvcrt.open_osfhandle(handle, os.O_WRONLY | CLOSE_ON_EXEC)
    if os.fstat(descriptor).st_file_attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT:
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return descriptor
