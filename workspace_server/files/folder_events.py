"""Asks the kernel which entries of some folders changed since the last question (inotify; Linux only).

The kernel queues an event before the system call that changes an entry returns, so an empty queue proves that
nothing changed. It does not see changes through another name of a file outside the folders, through a link,
or through memory that a program still has mapped. Blocks, but for `read`.
"""

from __future__ import annotations

import os
import select
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import file_calls

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_IGNORED, _IS_FOLDER = 0x8000, 0x4000_0000
_ONLY_FOLDERS, _NO_LINKS, _NOT_UNLINKED = 0x100_0000, 0x200_0000, 0x400_0000
_MASK: Final = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_FOLDERS | _NO_LINKS | _NOT_UNLINKED
)  # fmt: skip
_HEAD: Final = struct.Struct("iIII")
_BUFFER: Final = 256 * 1024
_MAX_READS: Final = 64
"""A queue that is still not empty after so many reads is filled as fast as it is read."""
SHARE: Final = 8
"""A queue takes this part of the watches that the user may have: editors and other queues need some, too."""
MAX_WATCHES: Final = 32_768
_SYSTEM_LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_watches")
_MOUNTS: Final = "/proc/self/mountinfo"


@dataclass(slots=True)
class Events:
    """What changed.

    Attributes:
        files: absolute paths of entries that are no folders.
        folders: absolute paths of folders that were created, deleted, moved, or changed themselves.
        is_lost: whether anything may have changed: the queue overflowed, or a file system was mounted.
    """

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    is_lost: bool = False


class FolderEvents:
    """A queue of the kernel. Make it with `open`. One user at a time."""

    def __init__(self, library: Any, queue: int, mounts: int, limit: int) -> None:
        self._library = library
        self._queue = queue
        self._mounts = mounts
        self._limit = limit
        self._paths: dict[int, str] = {}
        self._before: dict[int, str] = {}
        self._poll = select.poll()
        self._poll.register(queue, select.POLLIN)
        self._poll.register(mounts, select.POLLPRI)

    @classmethod
    def open(cls) -> FolderEvents | None:
        """A queue without folders; None where the system has none left, or another one."""
        if sys.platform != "linux":
            return None
        import ctypes  # noqa: PLC0415  takes milliseconds, and most servers never ask

        library = ctypes.CDLL(None, use_errno=True)
        queue = library.inotify_init1(file_calls.NO_WAIT | file_calls.CLOSE_ON_EXEC)
        if queue < 0:
            return None
        try:
            limit = min(MAX_WATCHES, int(_SYSTEM_LIMIT.read_text()) // SHARE)
            mounts = os.open(_MOUNTS, os.O_RDONLY | file_calls.CLOSE_ON_EXEC)
        except (OSError, ValueError):
            os.close(queue)
            return None
        return cls(library, queue, mounts, limit)

    def begin(self) -> Events:
        """What changed since the last question; then begin to name the folders anew, up to `end`."""
        events = self.read()
        self._before, self._paths = self._paths, {}
        return events

    def watch(self, folder: str) -> bool:
        """Queue the changes of this folder's entries from now on; False if that is not possible.

        A folder that is gone needs none: the one above has an event.
        """
        if len(self._paths) >= self._limit:
            return False
        number = self._library.inotify_add_watch(self._queue, os.fsencode(folder), _MASK)
        if number < 0:
            return not os.path.lexists(folder)
        # two paths to one folder would share its events
        return self._paths.setdefault(number, folder) == folder

    def end(self) -> None:
        """Queue nothing more of the folders that were named before `begin` only."""
        for number in self._before.keys() - self._paths.keys():
            self._library.inotify_rm_watch(self._queue, number)
        self._before = {}

    def read(self) -> Events:
        """What changed since the last question. Never waits."""
        events = Events()
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._mounts:
                events.is_lost = True
            else:
                self._read_queue(events)
        return events

    def close(self) -> None:
        """Give the queue back. Idempotent."""
        queue, self._queue = self._queue, -1
        if queue >= 0:
            os.close(queue)
            os.close(self._mounts)

    def _read_queue(self, events: Events) -> None:
        with suppress(BlockingIOError):
            for _ in range(_MAX_READS):
                for number, mask, name in _parsed(os.read(self._queue, _BUFFER)):
                    self._note(events, number, mask, name)
            events.is_lost = True

    def _note(self, events: Events, number: int, mask: int, name: str) -> None:
        folder = self._paths.get(number)
        if number < 0:  # the queue was full
            events.is_lost = True
        elif folder is None:  # no longer watched
            return
        elif name and not mask & _IS_FOLDER:
            events.files.add(f"{folder.rstrip('/')}/{name}")
        else:
            events.folders.add(f"{folder.rstrip('/')}/{name}" if name else folder)
            if mask & _IGNORED:
                del self._paths[number]


def _parsed(buffer: bytes) -> Iterator[tuple[int, int, str]]:
    """The events in a buffer: number of the folder, what happened, name of the entry."""
    at = 0
    while at < len(buffer):
        number, mask, _, length = _HEAD.unpack_from(buffer, at)
        at += _HEAD.size
        yield number, mask, os.fsdecode(buffer[at : at + length].rstrip(b"\0"))
        at += length
