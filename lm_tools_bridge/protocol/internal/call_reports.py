"""What a workspace server reports of a call: where its time went, and that its task has ended.

The report is a notification on the lifeline (`names.TASKS_ENDED`). The manager records it as a call.

The field is the last one of the response's head, or of its trailer if the head was sent before the call had
ended. The times come last in the field and have a fixed width, so that the heads of a tool's responses differ
in these bytes only. A word follows them if the answer is not the end of the call but a task.
The manager passes the value on unparsed; its recorder parses it later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from lm_tools_bridge.protocol import headers, names

_WIDTH: Final = 10
"""Digits of a time, which is then at most some hours; a longer one gets more digits."""
LONGEST: Final = 1061
"""Longest value in bytes; a source's id may have 1,024 of them."""
TASK: Final = b" task"
"""Ends the value if the call goes on as a task (SEP-2663)."""
_NAME: Final = f"{headers.TOOK}: ".encode()
_MOST_DIGITS: Final = 15
"""Of a time: more would be many years."""
_SOURCE: Final = re.compile(rb"[ -~]{1,1024}")


@lru_cache(maxsize=256)
def _decoded(source: bytes) -> str | None:
    return headers.decode_value(source.decode()) if _SOURCE.fullmatch(source) else None


def _is_time(word: bytes) -> bool:
    return word.isdigit() and len(word) <= _MOST_DIGITS


class CallTiming(NamedTuple):
    """What a workspace server says of one call.

    Attributes:
        source: id of the source, such as `stdio:git`.
        source_us: microseconds that the source of the tool took.
        approval_us: microseconds that the call waited for a person to approve it.
        is_task: whether the call goes on as a task.
    """

    source: str
    source_us: int
    approval_us: int
    is_task: bool = False

    @classmethod
    def from_value(cls, value: bytes) -> CallTiming | None:
        """Parse the value of the field; None if it is empty or invalid."""
        words = value.removesuffix(TASK).rsplit(b" ", 2)
        if len(words) < 3 or not _is_time(words[1]) or not _is_time(words[2]):
            return None
        source = _decoded(words[0])
        if source is None:
            return None
        return cls(source, int(words[1]), int(words[2]), value.endswith(TASK))

    @property
    def value(self) -> bytes:
        """The value of the field."""
        times = f"{self.source_us:0{_WIDTH}} {self.approval_us:0{_WIDTH}}"
        return f"{headers.encode_value(self.source)} {times}".encode() + (TASK if self.is_task else b"")

    @property
    def line(self) -> bytes:
        """The line of a head or a trailer, without a line end."""
        return _NAME + self.value


MAX_REPORTED: Final = 64
"""Tasks of one notification: with names of full length it stays far below the longest event of a lifeline."""
MAX_NAME: Final = 200
"""Longest name in characters: as long as the manager stores."""
# Senders cut an id to this, so that no name of a server makes a report too large for the lifeline.
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
