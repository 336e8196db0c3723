"""The stored record of one task, and its form on the wire (SEP-2663, `Task`). Pure.

`store.py` stores it, `archive.py` expires it, `running_task.py` runs its call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from lm_tools_bridge.protocol.extensions import tasks

POLL_MS: Final = 1000
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
