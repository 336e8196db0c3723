"""The messages of a call between managers: a request, its confirmation, and the parts of its answer. Pure.

The parts of an answer have sequence numbers, because NATS may lose messages and never says so. A host runs a
call only after the caller confirmed that it still waits (`go`), so a call that a caller gave up before it saw
`accepted` certainly did not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

CALL: Final = "Lmtb-Call"
"""Header: the id of the call."""
AT_ONCE: Final = "Lmtb-At-Once"
"""Header of a request that may run twice: it needs no confirmation."""
DEADLINE: Final = "Lmtb-Deadline"
"""Header of a request: seconds that it may take."""
PART: Final = "Lmtb-Part"
SEQUENCE: Final = "Lmtb-Seq"
STATUS: Final = "Lmtb-Status"
CONTENT_TYPE: Final = "Lmtb-Type"
REASON: Final = "Lmtb-Reason"
DO: Final = "Lmtb-Do"
SEEN: Final = "Lmtb-Seen"
"""Header of a control message: how many parts of the body the caller has taken."""

ACCEPT_S: Final = 2.0
"""Seconds within which a host accepts a call; otherwise the caller asks another one."""
CONFIRM_S: Final = 6.0
"""Seconds that a host keeps an accepted call which the caller does not confirm."""
BEAT_S: Final = 2.0
"""Seconds between the messages by which both ends of a call say that they are there."""
SILENCE_S: Final = 7.0
"""Seconds of silence after which the other end counts as gone."""
WINDOW: Final = 32
"""Parts of a body that a host sends ahead of what the caller has taken."""
PART_BYTES: Final = 64 * 1024
"""Far below what NATS servers take (1 MiB unless configured), and small enough that parts of several answers
take turns on a connection."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""The caller's gateway passes parts on as they come, so that this bounds what a host may send, not memory."""
LONGEST_CALL_S: Final = 600.0
"""Seconds that a call may take, whatever its caller asks for."""
REMEMBERED_S: Final = 3600.0
"""Seconds for which the id of a call stays known after its end."""


class Part(Enum):
    """A message from the host of a call to its caller."""

    ACCEPTED = "accepted"
    ALIVE = "alive"
    HEAD = "head"
    BODY = "body"
    END = "end"
    WHOLE = "whole"
    """An answer that fits into one part: its head, its body and its end."""
    REFUSED = "refused"
    """The call did not run."""
    FAILED = "failed"
    """The call may have run, and there is no answer."""


class Control(Enum):
    """A message from the caller to the host of a call."""

    GO = "go"
    SEEN = "seen"
    CANCEL = "cancel"


class Broken(Exception):
    """The parts of an answer do not fit together: something was lost, or the host is faulty or hostile."""


@dataclass(slots=True)
class Received:
    """Checks the parts of one answer as they arrive.

    Attributes:
        size: of the body so far, in bytes.
        parts: of the body so far.
        is_accepted: whether the host has the call.
        has_head: whether the answer has begun.
    """

    size: int = 0
    parts: int = 0
    is_accepted: bool = False
    has_head: bool = False

    def take(self, headers: Mapping[str, str], payload: bytes) -> Part:
        """Check the next message.

        Raises:
            Broken: it does not follow the last one, or the answer becomes too large.
        """
        try:
            part = Part(headers.get(PART))
        except ValueError:
            raise Broken("the host sent an unknown message") from None
        if part is Part.ACCEPTED:
            self.is_accepted = True
        elif part is Part.HEAD:
            self._begin(headers)
        elif part is Part.BODY:
            self._continue(headers, payload)
        elif part is Part.WHOLE:
            self._begin(headers)
            _check_size(payload)
        elif part is Part.END and (not self.has_head or headers.get(SEQUENCE) != str(self.parts)):
            raise Broken("a part of the answer was lost")
        return part

    def _begin(self, headers: Mapping[str, str]) -> None:
        status = headers.get(STATUS, "")
        is_number = len(status) == 3 and status.isascii() and status.isdigit()
        if self.has_head or not is_number or not 200 <= int(status) <= 599:
            raise Broken("the answer has an invalid head")
        self.has_head = True

    def _continue(self, headers: Mapping[str, str], payload: bytes) -> None:
        if not self.has_head or headers.get(SEQUENCE) != str(self.parts):
            raise Broken("a part of the answer was lost")
        _check_size(payload)
        self.parts += 1
        self.size += len(payload)
        if self.size > MAX_ANSWER_BYTES:
            raise Broken(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")


def _check_size(payload: bytes) -> None:
    if len(payload) > PART_BYTES:
        raise Broken(f"a part of the answer is larger than {PART_BYTES} bytes")


def seconds(text: str | None, default: float) -> float:
    """The number of seconds in a header, at most `LONGEST_CALL_S`."""
    try:
        value = float(text or "")
    except ValueError:
        return default
    return min(value, LONGEST_CALL_S) if value > 0 else default
