"""The files of saved sessions in a private folder: few, small, written atomically. All functions block."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.saved_sessions.session_text import Heading, heading_of
from lm_tools_bridge.machine import private_files

LARGEST: Final = 4 * 1024 * 1024
"""Bytes of one session."""
MOST: Final = 200
"""Sessions that are kept, of all folders together."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""Bytes of all sessions together."""
_SUFFIX: Final = ".jsonl"
_LONGEST_HEADING: Final = 65_536

Identity = tuple[int, int]
"""Tells whether a file is still the one that was read or written: its inode and its time of change."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A saved session: its id and its heading."""

    id: str
    heading: Heading


class SessionFiles:
    """The sessions of one user."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def found(self) -> tuple[list[SessionFile], list[Path]]:
        """All sessions, the last one first, and the regular files that are none because they are damaged.

        Raises:
            OSError: the folder cannot be read.
        """
        files: list[SessionFile] = []
        damaged: list[Path] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if self._folder.exists() else ():
            heading = _heading(path)
            if heading is not None:
                files.append(SessionFile(path.name.removesuffix(_SUFFIX), heading))
            elif path.is_file() and not path.is_symlink():
                damaged.append(path)
        return sorted(files, key=lambda file: file.heading.saved, reverse=True), damaged

    def path(self, session_id: str) -> Path:
        """Where a session is."""
        return self._path(session_id)

    def read(self, session_id: str) -> bytes | None:
        """The content of a session, None if there is none of this id.

        Raises:
            UnsafePathError, OSError: it cannot be read.
        """
        return private_files.read(self._path(session_id), LARGEST)

    def write(self, session_id: str, content: bytes) -> None:
        """Save a session in the place of its older state; the oldest sessions make room for a new one.

        Raises:
            UnsafePathError, OSError: it cannot be written; the older state is still there.
        """
        private_files.make_private(self._folder)
        path = self._path(session_id)
        is_new = not path.exists()
        private_files.write(path, content, durable=False)
        if is_new:
            self._remove_oldest(keep=path)

    def identity(self, session_id: str) -> Identity | None:
        """What tells whether another process has changed a session; None if there is no file."""
        try:
            status = os.lstat(self._path(session_id))
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _path(self, session_id: str) -> Path:
        return self._folder / (session_id.replace("/", "_") + _SUFFIX)

    def _remove_oldest(self, keep: Path) -> None:
        with suppress(OSError):
            private_files.remove_unfinished(self._folder)
            sizes = {path: path.lstat() for path in self._folder.glob(f"*{_SUFFIX}")}
            newest = sorted(sizes, key=lambda path: sizes[path].st_mtime_ns, reverse=True)
            total = 0
            for number, path in enumerate(newest, start=1):
                total += sizes[path].st_size
                if (number > MOST or total > MOST_BYTES) and path != keep:
                    path.unlink(missing_ok=True)


def _heading(path: Path) -> Heading | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file, suppress(OSError):
        return heading_of(file.readline(_LONGEST_HEADING))
    return None
