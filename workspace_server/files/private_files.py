"""Files that belong to one user: private folders, whole-or-nothing writes, locks between processes.

Not a store of anything: what is in the files is its callers' business. All functions block; call them from a
thread. The manager has its own way of doing the same (the two houses do not know each other).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

LOCK_WAIT_S: Final = 12.0
_LOCK_LOOK_S: Final = 0.01


class Unsafe(Exception):
    """A path that must not be used: a link, somebody else's, open to others. The text says which and why."""


class Busy(Exception):
    """Another process keeps the lock; `path` is the lock's."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process keeps {path} locked")


def make_private(folder: Path) -> None:
    """See to it that `folder` exists and only this user can enter it (0700).

    Raises:
        Unsafe: it is a link, no folder, somebody else's, or stays open to others.
        OSError: it cannot be made.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if sys.platform == "win32":  # the profile's access list protects it
        return
    descriptor = _open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _status_of_ours(descriptor, folder).st_mode & 0o077:
            os.fchmod(descriptor, 0o700)
        if os.fstat(descriptor).st_mode & 0o077:
            raise Unsafe(f"{folder} stays open to other users")
    finally:
        os.close(descriptor)


def read(path: Path, limit: int, *, private: bool = True) -> bytes | None:
    """The content of a file; None when it does not exist. A link in its place is not followed.

    Args:
        limit: the most bytes it may have.
        private: whether it must be ours and closed to others.

    Raises:
        Unsafe: it is a link, no plain file, too large, somebody else's or open to others.
        OSError: it cannot be read.
    """
    try:
        descriptor = _open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = _status_of_ours(descriptor, path) if private else os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unsafe(f"{path} is not a regular file")
        if private and sys.platform != "win32" and status.st_mode & 0o077:
            raise Unsafe(f"{path} is open to other users; if nobody has read it: chmod 600 {path}")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Unsafe(f"{path} is larger than {limit} bytes")
    return content


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file, wholly or not at all; when this returns, the content is on the disk.

    A link in the place of the file is replaced, not followed.

    Raises:
        OSError: it cannot be written; the old file is untouched and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{token_hex(6)}")
    try:
        _write_new(beside, content, mode)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def create(path: Path, content: bytes) -> bool:
    """Make a private file that does not exist yet; False when it does.

    Raises:
        OSError: it cannot be written.
    """
    try:
        _write_new(path, content, 0o600)
    except FileExistsError:
        return False
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
        Busy: somebody else kept it for `wait_s` seconds.
        Unsafe, OSError: the file cannot be used.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl  # noqa: PLC0415  does not exist on every platform

    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        _status_of_ours(descriptor, path)
        patience = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= patience:
                    raise Busy(path) from None
                time.sleep(_LOCK_LOOK_S)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    # without O_NONBLOCK a pipe in the place of a file would hold us
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO}:
            raise Unsafe(f"{path} is a link or not what it should be; remove it") from None
        raise


def _status_of_ours(descriptor: int, path: Path) -> os.stat_result:
    status = os.fstat(descriptor)
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        raise Unsafe(f"{path} belongs to another user (uid {status.st_uid})")
    return status


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        if sys.platform != "win32":
            os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _flush_folder(folder: Path) -> None:
    """The new name reaches the disk, too. Where a file system cannot do that, the content still has."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
