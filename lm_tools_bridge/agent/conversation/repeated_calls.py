"""Recognises calls that repeat an earlier one of the same turn. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from lm_tools_bridge.agent.messages import Call, Result
from lm_tools_bridge.protocol.errors import Reason

MAX_REPEATS: Final = 3
"""After so many repeats the turn ends."""
TRANSIENT: Final = frozenset(
    reason.code
    for reason in (
        Reason.WORKSPACE_SERVER_OFFLINE,
        Reason.WORKSPACE_SERVER_DIED,
        Reason.CALL_TIMED_OUT,
        Reason.OVERLOADED,
        Reason.SOURCE_UNAVAILABLE,
    )
)
"""Codes of refusals for transient reasons: such a call may be repeated."""


class RepeatedCalls:
    """The calls of one turn. Two are equal if tool and arguments are equal, whatever the order of the keys.

    Args:
        repeatable: names of tools whose calls may be repeated.
    """

    def __init__(self, repeatable: Collection[str] = ()) -> None:
        self._repeatable = frozenset(repeatable)
        self._results: dict[tuple[str, bytes], Result] = {}
        self.count = 0

    @property
    def too_many(self) -> bool:
        """Whether the turn should end."""
        return self.count >= MAX_REPEATS

    def suppressed(self, call: Call) -> Result | None:
        """The result of a call that is not to run again, None if it may run."""
        earlier = self._results.get(_signature(call))
        if earlier is None:
            return None
        self.count += 1
        text = (
            f"Redundant tool call suppressed: {call.name} was already called with these arguments in this "
            f"turn.\nIts result was:\n{earlier.text}"
        )
        return Result(call.id, call.name, text, earlier.is_error)

    def ran(self, call: Call, result: Result) -> None:
        """Remember a call with its result, unless it may be repeated."""
        if call.name not in self._repeatable and not (result.is_error and result.code in TRANSIENT):
            self._results[_signature(call)] = result


def _signature(call: Call) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.arguments or {}, order="sorted")
