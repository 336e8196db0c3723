"""Defines what is said of a call when it has ended, to whoever observes calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

TASK: Final = "task"
"""The outcome of a call that goes on as a task, whose end is a call of its own."""
GOES_ON: Final = frozenset({TASK, "input_required"})
"""Outcomes of calls that go on in a later record."""


class CallLabel(msgspec.Struct, frozen=True, gc=False):
    """What many calls have in common.

    Attributes:
        client: the client's `clientInfo` as JSON text; empty if it sent none.
        workspace: id of the workspace; empty if none was found.
        tool: name of the tool or prompt; empty for other methods.
        source: id of the source in the workspace server; empty if unknown.
        decided_by: which claim decided the workspace.
    """

    client: bytes
    era: str
    revision: str
    workspace: str
    method: str
    tool: str
    source: str
    decided_by: str


class CallOrigin(msgspec.Struct, frozen=True, gc=False):
    """What is known of a call when it begins.

    Attributes:
        session: id of its session, of which only a digest is stored.
        begun: monotonic seconds.
        sent: bytes of the arguments.
        trace: the client's `traceparent`, or a text that contains it; empty for none.
        made_trace: the number of the trace context that was made for it (`trace_context.made`); 0 for none.
        asked_s: seconds that the client took for the input that this call answers.
        arguments: the arguments as JSON text, if the contents of the call are recorded.
    """

    label: CallLabel
    session: str | None
    begun: float
    sent: int
    trace: str = ""
    made_trace: int = 0
    asked_s: float = 0.0
    arguments: bytes | None = None


class CallDetails(msgspec.Struct, gc=False):
    """What only some calls have.

    Attributes:
        queue_s, start_s: seconds of waiting for a connection and for the start of the server.
        retries: how often the call was sent again because it had not been delivered.
        code: the code of a JSON-RPC error.
        result: the beginning of the answer, if the contents of the call are recorded.
        is_cut: whether `result` lacks a part.
    """

    queue_s: float = 0.0
    start_s: float = 0.0
    retries: int = 0
    code: int | None = None
    result: bytearray | None = None
    is_cut: bool = False


EndedCall = tuple[CallOrigin, float | None, float | None, float, str, int | None, CallDetails | None, bytes]
"""A call that has ended: its origin, when it was sent, answered and over (monotonic seconds), its outcome,
the bytes of its result, details, and where its time went in the workspace server, as the server says
(`lm_tools_bridge/protocol/internal/call_timing.py`). The outcome is `ok`, or a word that says what
went wrong or how the call goes on (`is_failure`)."""
Record = Callable[[EndedCall], object]
"""Takes an ended call; never waits, never fails."""


def is_failure(outcome: str) -> bool:
    """Whether a call with this outcome failed."""
    return outcome != "ok" and outcome not in GOES_ON
