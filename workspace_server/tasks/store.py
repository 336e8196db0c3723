"""Defines the record of a task and stores tasks on disk: a file for the record, another for the result.

The result is written first, so that a record with status `completed` always has one. Methods of `Store`
block.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.protocol import tasks_extension as tasks
from workspace_server import log

# What clients are advised: a shorter interval costs them a request each, a longer one delays results.
POLL_MS: Final = 1000
# The message is shown on one line of a status; the whole error is in the result.
MAX_MESSAGE: Final = 500

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]
Holds = Literal["", "result", "passed", "error"]
"""What is stored with the record: nothing, members of a result that this server wrote, another server's whole
result, or a JSON-RPC error."""
TERMINAL: Final[frozenset[Status]] = frozenset({"completed", "cancelled", "failed"})


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One task. Times are seconds since 1970.

    Attributes:
        key: the random part of its id.
        ttl_s: its time to live after `created`, in seconds.
        message: a sentence about its state.
        holds: see `Holds`.
        digest: the SHA-256 of what is stored, in hexadecimal digits.
    """

    key: str
    created: float
    updated: float
    ttl_s: int
    status: Status = "working"
    message: str | None = None
    holds: Holds = ""
    digest: str = ""

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.status in TERMINAL


class _Error(msgspec.Struct):
    code: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended: `body` is JSON text of the kind that `holds` names; `message` is for a person.

    `outcome` is `ok`, `error`, or the reason of a refusal, for the manager's record of calls.
    """

    holds: Holds
    body: bytes
    message: str | None = None
    outcome: str = "ok"

    @property
    def code(self) -> int | None:
        """The code of the JSON-RPC error; None for a result."""
        return None if self.holds != "error" else msgspec.json.decode(self.body, type=_Error).code

    @property
    def status(self) -> Status:
        """The state of the task: a result with `isError` counts as completed."""
        return "failed" if self.holds == "error" else "completed"


def wire(record: Record, workspace: str) -> dict[str, Any]:
    """The members of `Task` that every state has."""
    members: dict[str, Any] = {"taskId": tasks.task_id(workspace, record.key), "status": record.status}
    if record.message:
        members["statusMessage"] = record.message
    return {
        **members,
        "createdAt": _iso(record.created),
        "lastUpdatedAt": _iso(record.updated),
        "ttlMs": record.ttl_s * 1000,
        "pollIntervalMs": POLL_MS,
    }


def created(record: Record, workspace: str) -> Mapping[str, Any]:
    """The result of the call that became this task."""
    return {"resultType": tasks.RESULT_TYPE, **wire(record, workspace)}


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# All tasks of a project could take 2 GiB of the disk. Results of tools are limited to less, or refused by
# clients.
MAX_BODY: Final = 8 * 1024 * 1024
# A record has ids, times and a message of `MAX_MESSAGE` characters. A larger file was not written by us.
_MAX_RECORD: Final = 16 * 1024
# The length of a key: other files in the folder are not tasks.
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
