"""Manages a private folder for this process, and removes those of processes that died.

A lock on a file beside the folder shows whether its process lives; process ids may be reused.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from pathlib import Path
from typing import Final

from workspace_server.sources.scripts.execution.bundle_store import remove

_LOCK: Final = ".lock"


class PrivateFolder:
    """A folder below `run_dir` that only its owner can enter. Its methods block."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self.path = run_dir / f"{name}-{secrets.token_hex(4)}"
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
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_descriptor = _lock_file(self.path.with_suffix(_LOCK))
            self.path.mkdir(mode=0o700, exist_ok=True)
            for lock in self.path.parent.glob(f"{self._name}-*{_LOCK}"):
                _remove_if_unlocked(lock)

    def close(self) -> None:
        """Remove the folder with everything in it. Idempotent."""
        with self._lock:
            if self._lock_descriptor is not None:
                remove(self.path)
                self.path.with_suffix(_LOCK).unlink(missing_ok=True)
                os.close(self._lock_descriptor)
                self._lock_descriptor = None


def _lock_file(file: Path) -> int:
    """Create the lock file and lock it; returns the descriptor that holds the lock."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, file):
            return descriptor
        os.close(descriptor)  # another process removed the file before the lock was taken


def _remove_if_unlocked(file: Path) -> None:
    """Remove the folder of a lock file if no process holds the lock."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, file):
            remove(file.with_suffix(""))
            file.unlink(missing_ok=True)
    except OSError:
        return  # its process is alive
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except OSError:
        return False
