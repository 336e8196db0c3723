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
        self._held: int | None = None

    def open(self) -> None:
        """Make the folder, and remove what earlier processes left of theirs. Idempotent.

        Raises:
            OSError: it cannot be made.
        """
        with self._lock:
            if self._held is not None:
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._held = _take(self.path.with_suffix(_LOCK))
            self.path.mkdir(mode=0o700, exist_ok=True)
            for lock in self.path.parent.glob(f"{self._name}-*{_LOCK}"):
                _sweep(lock)

    def close(self) -> None:
        """Remove the folder and all in it. Idempotent."""
        with self._lock:
            if self._held is not None:
                remove(self.path)
                self.path.with_suffix(_LOCK).unlink(missing_ok=True)
                os.close(self._held)
                self._held = None


def _take(file: Path) -> int:
    """Hold the lock on a file of a name nobody else has."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, file):
            return descriptor
        os.close(descriptor)  # somebody swept it before it was held


def _sweep(file: Path) -> None:
    """Remove a folder whose lock nobody holds."""
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
        return  # its process lives
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except OSError:
        return False
