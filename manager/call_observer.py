"""Defines what a feature is told of each call that ends, and how it says which contents it wants."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

import msgspec

TASK: Final = "task"
"""The outcome of a call that goes on as a task, whose end is a call of its own."""
GOES_ON: Final = frozenset({TASK, "input_required"})
"""Outcomes of calls that go on in a later call."""
MAX_CONTENTS: Final = 256 * 1024
"""Bytes of a result that are copied for an observer, and of the arguments that it may keep: large ones
would fill the memory while they wait."""


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
        session: id of its session, a secret; None without a session.
        begun: monotonic seconds.
        sent: bytes of the arguments.
        trace: the client's `traceparent`, or a text that contains it; empty for none.
        made_trace: the number of the trace context that was made for it (`make_traceparent`); 0 for none.
        asked_s: seconds that the client took for the input that this call answers.
        arguments: the arguments as JSON text, if the contents of the call are observed.
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
        result: the first `MAX_CONTENTS` bytes of the answer, if the contents of the call are observed.
        is_cut: whether `result` lacks a part.
    """

    queue_s: float = 0.0
    start_s: float = 0.0
    retries: int = 0
    code: int | None = None
    result: bytearray | None = None
    is_cut: bool = False


class EndedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that has ended. Times are monotonic seconds.

    Attributes:
        sent_at, answered_at: when it was sent to its workspace server, and when that had answered; None for
            never.
        outcome: `ok`, or a word that says what went wrong or how the call goes on (`is_failure`).
        received: bytes of the result; None if there was none.
        details: None for a call with nothing unusual.
        timing: where its time went in the workspace server, as the server says
            (`lm_tools_bridge/protocol/internal/call_reports.py`); empty if it did not say.
    """

    origin: CallOrigin
    sent_at: float | None
    answered_at: float | None
    ended_at: float
    outcome: str
    received: int | None = None
    details: CallDetails | None = None
    timing: bytes = b""


ObserveCall = Callable[[EndedCall], object]
"""Takes a call that has ended. The event loop calls it: it must neither wait nor fail."""


class CallObserver(Protocol):
    """Is told of the calls that end."""

    @property
    def observe_call(self) -> ObserveCall:
        """Takes each call that has ended. It is read once, when the manager starts."""

    @property
    def workspaces_with_contents(self) -> Collection[str]:
        """Ids of the workspaces whose calls are told with arguments and results; mostly empty.

        Every call reads this. The answers of these workspaces are copied, which makes calls slower.
        """


class _NoObserver:
    """Stands for nobody."""

    workspaces_with_contents: Final[Collection[str]] = ()

    @staticmethod
    def observe_call(_: EndedCall) -> None:
        """Forget the call."""


NO_OBSERVER: Final[CallObserver] = _NoObserver()


def is_failure(outcome: str) -> bool:
    """Whether a call with this outcome failed."""
    return outcome != "ok" and outcome not in GOES_ON
