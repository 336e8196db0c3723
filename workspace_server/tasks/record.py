"""What is known of one task, and how it looks on the wire. Pure.

`store.py` keeps it, `table.py` says how long, `running.py` is the work behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from protocol import tasks

POLL_MS: Final = 1000
MAX_MESSAGE: Final = 500

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]
Holds = Literal["", "result", "passed", "error"]
"""What is kept beside the record: nothing, members of a result that we author, a third party's whole result,
or a JSON-RPC error."""
TERMINAL: Final[frozenset[Status]] = frozenset({"completed", "cancelled", "failed"})


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One task. Times are seconds since 1970.

    Attributes:
        key: what nobody can guess of its id.
        ttl_s: for how long after `created` it can be asked about.
        message: a sentence about its state.
        holds: see `Holds`; `digest` is the SHA-256 of that, in hexadecimal digits.
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


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended: `body` is JSON text, and what of is said by `holds`; `message` is for a person."""

    holds: Holds
    body: bytes
    message: str | None = None

    @property
    def status(self) -> Status:
        """The state of its task: a result that is an error is a result."""
        return "failed" if self.holds == "error" else "completed"


def wire(record: Record, workspace: str) -> dict[str, Any]:
    """The members of `Task` that every state has."""
    told: dict[str, Any] = {"taskId": tasks.task_id(workspace, record.key), "status": record.status}
    if record.message:
        told["statusMessage"] = record.message
    return {
        **told,
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
