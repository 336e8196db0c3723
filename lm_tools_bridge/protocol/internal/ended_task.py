"""Defines what a workspace server reports to its manager of a call that went on as a task and has ended.

The report is a notification on the lifeline (`names.TASKS_ENDED`). The manager records it as a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from lm_tools_bridge.protocol import names

MAX_REPORTED: Final = 64
"""Tasks of one notification: with names of full length it stays far below the longest event of a lifeline."""
MAX_NAME: Final = 200
"""Longest name in characters: as long as the manager stores."""
MAX_SOURCE: Final = 1024
_LARGEST: Final = 2**53 - 1
"""Largest number that every reader of JSON knows exactly."""
_Name = Annotated[str, Meta(max_length=MAX_NAME)]
_Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Seconds = Annotated[float, Meta(ge=0)]


class EndedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A call that went on as a task. Only decoding checks the limits.

    Attributes:
        tool: the name that its client used.
        source: id of the tool's source.
        client, client_version, revision: what its client said of itself.
        trace: the `traceparent` of its client; empty for none.
        begun, ended: when the call came and when it ended, in seconds of the machine's monotonic clock, which
            both programs read.
        source_s, approval_s: as in `call_timing.CallTiming`, in seconds.
        sent, received: bytes of the arguments and of what the task holds; None for a cancelled one.
        outcome: `ok`, `error`, `cancelled`, or the reason of a refusal.
        code: of a JSON-RPC error.
    """

    tool: _Name
    source: Annotated[str, Meta(max_length=MAX_SOURCE)]
    client: _Name
    client_version: _Name
    revision: _Name
    trace: _Name
    begun: _Seconds
    ended: _Seconds
    source_s: _Seconds
    approval_s: _Seconds
    sent: _Count
    received: _Count | None
    outcome: Annotated[str, Meta(pattern=r"^[a-z_]{1,40}\Z")]
    code: Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)] | None


class _Params(msgspec.Struct):
    tasks: Annotated[list[EndedTask], Meta(max_length=MAX_REPORTED)]


class _Notification(msgspec.Struct):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


_notification: Final = msgspec.json.Decoder(_Notification).decode
_params: Final = msgspec.json.Decoder(_Params).decode


def params_of(tasks: Sequence[EndedTask]) -> Mapping[str, Any]:
    """The parameters of the notification about at most `MAX_REPORTED` tasks."""
    return {"tasks": msgspec.to_builtins(tasks)}


def from_notification(message: bytes) -> Sequence[EndedTask]:
    """The tasks that a notification reports; empty for other and for invalid ones."""
    try:
        notification = _notification(message)
        return _params(notification.params).tasks if notification.method == names.TASKS_ENDED else ()
    except (msgspec.DecodeError, RecursionError):
        return ()
