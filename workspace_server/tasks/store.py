"""Reads and writes tasks on disk: two files per task, its record and its result. All methods block.

The result is written first, so that a record with status `completed` always has one.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.machine.files import private_files
from workspace_server import log
from workspace_server.tasks.record import Record

MAX_BODY: Final = 8 * 1024 * 1024
_MAX_RECORD: Final = 16 * 1024
_KEY_DIGITS: Final = 32
_UNREADABLE: Final = "what was kept of this task cannot be read"


class Store:
    """The tasks of one workspace.

    Args:
        folder: the folder of this workspace's tasks; created when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, ttl_s: int) -> list[Record]:
        """All records, unordered. An unreadable record becomes a failed task that lives `ttl_s` seconds."""
        try:
            paths = [path for path in self._folder.glob("*.task") if len(path.stem) == _KEY_DIGITS]
        except OSError:
            return []
        return [self._record(path, ttl_s) for path in paths]

    def save(self, record: Record, body: bytes | None = None) -> None:
        """Store a record, and its result if that is given.

        Raises:
            OSError, UnsafePathError: the disk rejects it.
        """
        private_files.make_private(self._folder.parent)
        private_files.make_private(self._folder)
        if body is not None:
            private_files.write(self._file(record.key, "body"), body)
        private_files.write(self._file(record.key, "task"), msgspec.json.encode(record))

    def body(self, record: Record) -> bytes | None:
        """The stored result of a task; None if it is missing or was changed."""
        with suppress(OSError, private_files.UnsafePathError):
            content = private_files.read(self._file(record.key, "body"), MAX_BODY)
            if content is not None and sha256(content).hexdigest() == record.digest:
                return content
        log.error("task_result_unreadable", file=str(self._file(record.key, "body")))
        return None

    def remove(self, keys: list[str]) -> None:
        """Remove tasks."""
        for key in keys:
            for kind in ("task", "body"):
                with suppress(OSError):
                    self._file(key, kind).unlink(missing_ok=True)

    def _record(self, path: Path, ttl_s: int) -> Record:
        try:
            record = msgspec.json.decode(private_files.read(path, _MAX_RECORD) or b"", type=Record)
            if record.key == path.stem:
                return record
        except (OSError, private_files.UnsafePathError, msgspec.DecodeError, UnicodeDecodeError):
            pass
        log.error("task_unreadable", file=str(path))
        at = _written(path)
        lost = Record(key=path.stem, created=at, updated=at, ttl_s=ttl_s)
        return replace(lost, status="failed", message=_UNREADABLE)

    def _file(self, key: str, kind: str) -> Path:
        return self._folder / f"{key}.{kind}"


def _written(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()
