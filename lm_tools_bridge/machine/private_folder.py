"""Private folders of processes: makes them, keeps their modes, and removes those of killed processes.

A lock on a file beside the folder shows whether its process lives; process ids may be reused. All functions
block. `shutil` and `tempfile` are loaded when they are needed: they load much that nothing else uses.

Landlock does not keep a confined script from chmod(2) outside of its folders.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
import threading
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.own_process import own_euid, own_uid

# Our own folders are far fewer; one that a program filled must not keep the caller walking.
MAX_FOLDERS: Final = 10_000


def make_tight(folder: Path) -> int:
    """Take all rights of others from what is ours below a folder, and give us ours.

    Returns:
        How many files and folders had other rights.
    """
    if sys.platform == "win32":
        return 0
    changed = int(_tighten(str(folder)))
    for path, folders, files in islice(os.walk(folder), MAX_FOLDERS):
        # folders first: `walk` enters them afterwards
        changed += sum(_tighten(f"{path}/{name}") for name in (*folders, *files))
    return changed


def _tighten(path: str) -> bool:
    with suppress(OSError):
        status = os.lstat(path)
        if status.st_uid != own_uid() or stat.S_ISLNK(status.st_mode):
            return False
        mode = stat.S_IMODE(status.st_mode)
        tight_mode = mode & 0o700 | (0o700 if stat.S_ISDIR(status.st_mode) else 0o600)
        if mode != tight_mode:
            Path(path).chmod(tight_mode)
            return True
    return False


TEMPORARY: Final = "lmtb-run"
"""The name that our folders in the system's temporary folder begin with."""
_LOCK: Final = ".lock"


def temporary_folder() -> PrivateFolder:
    """A new private folder in the system's temporary folder.

    Raises:
        FileNotFoundError: there is no temporary folder in which files can be written.
    """
    import tempfile  # noqa: PLC0415  most processes need no temporary folder

    return PrivateFolder(Path(tempfile.gettempdir()), TEMPORARY)


class PrivateFolder:
    """A folder below `parent` that only its owner can enter. Its methods block."""

    def __init__(self, parent: Path, name: str) -> None:
        self.path = parent / f"{name}-{secrets.token_hex(4)}"
        self._name = name
        self._lock = threading.Lock()
        self._lock_descriptor: int | None = None

    def open(self) -> None:
        """Create the folder, and remove the folders of dead processes. Idempotent.

        Raises:
            OSError: the folder cannot be created.
        """
        with self._lock:
            if self._lock_descriptor is not None:
                return
            file = self.path.with_suffix(_LOCK)
            descriptor = _lock_file(file)
            try:
                self.path.mkdir(mode=0o700)  # never one that somebody else made first
            except OSError:
                file.unlink(missing_ok=True)
                os.close(descriptor)
                raise
            self._lock_descriptor = descriptor
            remove_abandoned(self.path.parent, self._name)

    def close(self) -> None:
        """Remove the folder with everything in it. Idempotent."""
        with self._lock:
            if self._lock_descriptor is not None:
                remove(self.path)
                self.path.with_suffix(_LOCK).unlink(missing_ok=True)
                os.close(self._lock_descriptor)
                self._lock_descriptor = None


def remove_abandoned(parent: Path, name: str = "*") -> int:
    """Remove this user's private folders whose processes have ended, and return how many there were.

    Args:
        name: the name that they were made with; by default any.
    """
    with suppress(OSError):  # the folder vanishes
        return sum(map(_remove_if_abandoned, list(parent.glob(f"{name}-????????{_LOCK}"))))
    return 0


def remove(folder: Path) -> None:
    """Remove a folder with everything in it, as far as possible, also closed folders. Follows no link."""
    import shutil  # noqa: PLC0415  most processes remove no folder

    with suppress(OSError):
        if not _is_folder(str(folder)):
            folder.unlink()
            return
        folder.chmod(stat.S_IRWXU)
    for below, folders, _ in os.walk(folder):
        for path in (f"{below}/{name}" for name in folders):
            with suppress(OSError):
                if _is_folder(path):
                    Path(path).chmod(stat.S_IRWXU)  # before `walk` enters it
    shutil.rmtree(folder, ignore_errors=True)


def _is_folder(path: str) -> bool:
    """Whether it is a folder, and no link to one."""
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _lock_file(file: Path) -> int:
    """Create the lock file and lock it; returns the descriptor that holds the lock."""
    while True:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(
                file, os.O_RDWR | os.O_CREAT | file_calls.NO_LINK | file_calls.CLOSE_ON_EXEC, 0o600
            )
        except FileNotFoundError:
            continue  # another process removed the folder, which was empty
        if _lock(descriptor) and _is_at(descriptor, file):
            return descriptor
        os.close(descriptor)  # another process removed the file before the lock was taken


def _remove_if_abandoned(file: Path) -> bool:
    """Remove the folder of a lock file of this user if no process holds the lock."""
    try:
        descriptor = os.open(
            file, os.O_RDWR | file_calls.NO_LINK | file_calls.CLOSE_ON_EXEC | file_calls.NO_WAIT
        )
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_uid != own_euid() or not _lock(descriptor):
            return False  # another user's, or its process is alive
        if is_ours := _is_at(descriptor, file):
            remove(file.with_suffix(""))
            file.unlink(missing_ok=True)
        return is_ours
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except OSError:
        return False
