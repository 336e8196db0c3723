"""Reads, writes and appends files of one user: private folders, atomic writes, locks between processes.

All functions block; call them from a thread. Standard library only and quick to import: short command line
verbs use it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.own_process import own_euid

# Holders keep a lock for one small file: this is enough for many in turn, and ends when a holder hangs.
# A free lock is noticed after a hundredth of a second, which costs a waiter next to no processor time.
LOCK_WAIT_S: Final = 12.0
_LOCK_POLL_S: Final = 0.01
_BESIDE: Final = re.compile(r"\A\..+\.[0-9a-f]{12}\Z")
"""The names of files that are still written."""


class UnsafePathError(Exception):
    """A path that must not be used: a symbolic link, another user's, open to others, or not absolute.

    Attributes:
        path: the path.
        reason: completes the sentence "<path> …".
        hint: the next step for a person.
    """

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(f"{path} {reason}. Next step: {hint}")
        self.path = path
        self.reason = reason
        self.hint = hint


class LockTimeout(Exception):
    """Another process kept the lock `path` for too long."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process keeps {path} locked")


def make_private(folder: Path) -> None:
    """Make sure that `folder` is a folder only this user can enter: created with parents (0700), or closed.

    On Windows the folder is only created; the profile's access list protects it.

    Raises:
        UnsafePathError: it is a symbolic link, no folder, another user's, or cannot be closed to others.
            It is left as it was found.
        OSError: it cannot be made (disk full, read-only).
    """
    _make_folders(folder)
    if sys.platform == "win32":
        return
    descriptor = _open_folder(folder)
    try:
        _close_to_others(descriptor, folder)
    finally:
        os.close(descriptor)


def read(path: Path, limit: int, *, private: bool = True, folder: int | None = None) -> bytes | None:
    """The content of a file; None when it does not exist. A link in its place is not followed.

    Args:
        limit: the most bytes it may have.
        private: whether it must be ours and closed to others.
        folder: the descriptor of the folder that `path` starts from; None for the current one.

    Raises:
        UnsafePathError: it is a link, no regular file, too large, another user's or open to others.
        OSError: it cannot be read.
    """
    try:
        descriptor = _open(path, os.O_RDONLY, folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = _own_status(descriptor, path) if private else os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafePathError(path, "is not a regular file", f"remove {path}")
        if private and sys.platform != "win32" and status.st_mode & 0o077:
            hint = f"if nobody has read it: chmod 600 {path}"
            raise UnsafePathError(path, "is open to other users", hint)
        content = file.read(limit + 1)
    if len(content) > limit:
        raise UnsafePathError(
            path, f"is larger than {limit} bytes", f"look at {path}, and shorten or remove it"
        )
    return content


def write(
    path: Path, content: bytes, mode: int = 0o600, *, durable: bool = True, folder: int | None = None
) -> None:
    """Replace a file atomically. A link is replaced, not followed.

    Args:
        durable: the content is on the disk when this returns; otherwise a loss of power may cost it.
        folder: the descriptor of the folder that `path` starts from; None for the current one.

    Raises:
        OSError: it cannot be written; the old file is untouched and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        _write_new(_open_new(beside, folder), content, mode, durable=durable)
        file_calls.replace(beside, path, folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
    if durable:
        _flush_folder(path.parent, folder)


def remove_unfinished(folder: Path, age_s: float = 60.0) -> int:
    """Remove what killed processes wrote beside the files of a folder (`write`); returns how many.

    Args:
        age_s: seconds since its last change after which nobody writes a file any more.
    """
    removed = 0
    for path in [path for path in folder.glob(".*") if _BESIDE.match(path.name)]:
        with suppress(OSError):
            status = path.lstat()
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == own_euid()
            if is_ours and abs(time.time() - status.st_mtime) > age_s:
                path.unlink()
                removed += 1
    return removed


def create(path: Path, content: bytes) -> bool:
    """Create a private file; False if there is one already.

    Raises:
        OSError: it cannot be written.
    """
    try:
        descriptor = _open_new(path)
    except FileExistsError:
        return False
    try:
        _write_new(descriptor, content, 0o600, durable=True)
    except OSError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)
    return True


@contextmanager
def locked(path: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock that a file stands for, against other processes and other threads of this one.

    The kernel releases it at the holder's death. The file is never deleted: whoever waits for it would lock a
    file without a name.

    Raises:
        LockTimeout: somebody else kept it for `wait_s` seconds.
        UnsafePathError, OSError: the file cannot be used.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = open_lock_file(path)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockTimeout(path) from None
                time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def open_lock_file(path: Path) -> int:
    """Open a regular file of this user, created with mode 0600, to lock it. The caller closes it.

    Raises:
        UnsafePathError: it is a link, no regular file or another user's.
        OSError: it cannot be opened.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        if not stat.S_ISREG(_own_status(descriptor, path).st_mode):
            raise UnsafePathError(path, "is not a regular file", f"remove {path}")
    except UnsafePathError:
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path, flags: int, folder: int | None = None) -> int:
    flags |= file_calls.READ_NO_LINK
    try:
        return os.open(path, flags, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}:
            raise UnsafePathError(path, "is not a regular file", f"remove {path}") from error
        raise


def _own_status(descriptor: int, path: Path) -> os.stat_result:
    status = os.fstat(descriptor)
    if status.st_uid != own_euid():
        hint = f"remove {path}, or run as its owner"
        raise UnsafePathError(path, f"belongs to another user (uid {status.st_uid})", hint)
    return status


def _make_folders(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folders(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _open_folder(path: Path) -> int:
    try:
        return os.open(path, file_calls.READ_FOLDER)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
            reason = "is not a folder but a symbolic link or a file"
            raise UnsafePathError(path, reason, f"remove {path}") from error
        if error.errno == errno.EACCES:
            hint = f"check owner and mode of {path}"
            raise UnsafePathError(path, "cannot be read by this user", hint) from error
        raise


def _close_to_others(descriptor: int, path: Path) -> None:
    if not _own_status(descriptor, path).st_mode & 0o077:
        return
    try:
        os.fchmod(descriptor, 0o700)
    except OSError as error:
        raise UnsafePathError(path, "is open to other users", f"chmod 700 {path}") from error
    if os.fstat(descriptor).st_mode & 0o077:  # some file systems accept a mode and do not keep it
        raise UnsafePathError(path, "stays open to other users", "choose a folder on another file system")


def _open_new(path: Path, folder: int | None = None) -> int:
    return _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder)


def _write_new(descriptor: int, content: bytes, mode: int, *, durable: bool) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file_calls.restrict(descriptor, mode)
        file.write(content)
        if durable:
            file.flush()
            os.fsync(descriptor)


def _flush_folder(path: Path, folder: int | None = None) -> None:
    """The new name reaches the disk, too. Where a file system cannot do that, the content still has."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | file_calls.FOLDER | file_calls.CLOSE_ON_EXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
    descriptor = file_calls.open_to_append(file)
    try:
        if most is not None and os.fstat(descriptor).st_size + len(line) > most:
            os.close(descriptor)
            file_calls.replace(file, file.with_name(f"{file.name}.1"))
            descriptor = file_calls.open_to_append(file)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o600:
            file_calls.restrict(descriptor, 0o600)
        os.write(descriptor, line.encode(errors="replace") + b"\n")
    finally:
        os.close(descriptor)
