"""Takes the lock that ensures one manager per user; the kernel holds it.

The kernel releases a lock on an open file when its holder dies, so nothing left behind can block a start, and
of several simultaneous starts exactly one wins. The file's content only explains who holds the lock; no
decision depends on the pid in it.

After its holder's end the file still says which base folders that one had (`environment`).

The file is never deleted: otherwise one manager could lock a file without a name and another its successor.
If somebody else deletes it, its holder locks the name again (`Lock.renew`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.private_files import open_lock_file

# The description is one short line; a bound, because other programs of the user can write the file.
_MAX_DESCRIPTION_BYTES = 4096


class LockHolder(msgspec.Struct, frozen=True):
    """Another manager holds the lock. Members that it has not written (yet) are None."""

    pid: int | None = None
    address: str | None = None
    version: str | None = None
    started_at: str | None = None

    def __str__(self) -> str:
        """One line for people: who holds the lock."""
        facts = [
            f"pid {self.pid}" if self.pid else "",
            f"at {self.address}" if self.address else "",
            f"version {self.version}" if self.version else "",
            f"since {self.started_at}" if self.started_at else "",
        ]
        return "a manager of this user is already running: " + (
            ", ".join(filter(None, facts)) or "starting up"
        )


class Lock:
    """The held lock; keep it for the life of the process."""

    def __init__(self, path: Path, descriptor: int, environment: Mapping[str, str]) -> None:
        self._path = path
        self._descriptor = descriptor
        self._environment = environment
        self._about: dict[str, Any] = {"pid": os.getpid(), "environment": dict(environment)}

    @classmethod
    def acquire(
        cls, path: Path, held: int | None = None, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Lock | LockHolder:
        """Takes the lock on `path` (mode 0600, in an existing private folder), or returns its holder.

        `environment` is written into it, for programs that are started without these variables.

        `held` is a descriptor that this process had with the lock before it became this program; it is kept
        if it still is the lock of `path`, and closed otherwise. Never waits. Raises UnsafePathError where
        `path` is a symbolic link, no plain file or another user's, and OSError where it cannot be opened.
        """
        while True:
            descriptor, held = (open_lock_file(path) if held is None else held), None
            if not _try_lock(descriptor):
                try:
                    return _read_holder(descriptor)
                finally:
                    os.close(descriptor)
            if _is_still(path, descriptor):
                lock = cls(path, descriptor, environment)
                lock._write_description(lock._about)
                return lock
            os.close(descriptor)  # deleted between opening and locking: the name belongs to another file now

    @staticmethod
    def holder(path: Path) -> LockHolder | None:
        """Who holds the lock on `path`; None if nobody does, or it cannot be opened. Changes nothing."""
        try:
            descriptor = os.open(path, os.O_RDWR | file_calls.NO_LINK)
        except OSError:
            return None
        try:
            return None if _try_lock(descriptor) else _read_holder(descriptor)
        finally:
            os.close(descriptor)

    def describe(self, *, address: str, version: str, started_at: str) -> None:
        """Writes who holds the lock: `address` as a URL, `started_at` in ISO 8601. Never raises OSError."""
        self._about |= {"address": address, "version": version, "startedAt": started_at}
        self._write_description(self._about)

    def renew(self) -> bool:
        """Lock the file's name again if it was removed; False if another manager was quicker.

        Raises what `acquire` raises.
        """
        if _is_still(self._path, self._descriptor):
            return True
        fresh = Lock.acquire(self._path, environment=self._environment)
        if isinstance(fresh, LockHolder):
            return False
        os.close(self._descriptor)
        self._descriptor = fresh._descriptor
        self._write_description(self._about)
        return True

    def hand_over(self) -> int:
        """Give up the descriptor, which stays open and keeps the lock. Afterwards `release` does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def release(self) -> None:
        """Releases the lock. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write_description(self, about: dict[str, Any]) -> None:
        line = json.dumps(about).encode() + b"\n"
        with suppress(OSError):  # a full disk must not keep the manager from serving
            # One write, then truncate: a reader in between still finds a complete first line.
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, line)
            os.ftruncate(self._descriptor, len(line))


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> LockHolder:
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        about = json.loads(os.read(descriptor, _MAX_DESCRIPTION_BYTES).split(b"\n", 1)[0])
    except (OSError, ValueError, RecursionError):
        return LockHolder()
    if not isinstance(about, dict):
        return LockHolder()
    pid = about.get("pid")
    texts = (about.get(key) for key in ("address", "version", "startedAt"))
    return LockHolder(
        pid if isinstance(pid, int) else None, *(text if isinstance(text, str) else None for text in texts)
    )


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # Windows locks also block reads: lock one byte far behind the description, which stays readable.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
