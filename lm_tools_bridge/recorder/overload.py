"""Chooses which calls of a batch get a row of their own when calls are too many for that. Pure.

Failures, slow calls and calls with details keep theirs first. The others are counted by label, that is by
client, project and tool: the first of each label since the last batch gets a row, which says how many follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lm_tools_bridge.token_bucket import TokenBucket
from manager.call_observer import EndedCall

WHOLE_PER_S: Final = 250.0
"""Calls a second that may have a row each for any length of time."""
BURST: Final = 1000.0
"""Calls that may have a row each at once."""
UNUSUAL: Final = 125
"""Failures, slow calls and calls with details that always may have a row in one batch."""
_SLOW_S: Final = 1.0


def allowance(rate: float, now: float) -> TokenBucket:
    """How many calls may have a row each: `rate` of them a second, and a burst at once."""
    return TokenBucket(rate, max(BURST, rate), now)


class Chosen(NamedTuple):
    """The calls that get rows.

    Attributes:
        calls: these calls, in order.
        more: for the index of a call, how many others like it have no row.
    """

    calls: Sequence[EndedCall]
    more: Mapping[int, int]


def choose(batch: Sequence[EndedCall], room: float, unusual: int = UNUSUAL) -> Chosen:
    """Choose among the calls since the last batch.

    Args:
        room: how many may have a row each.
        unusual: how many failures, slow calls and calls with details may have one in addition.
    """
    if len(batch) <= room:
        return Chosen(batch, {})
    first = int(room)
    calls, left = list(batch[:first]), unusual
    samples: dict[object, int] = {}
    counts: dict[object, int] = {}
    for call in batch[first:]:
        key: object = call.origin.label
        if call.outcome != "ok" or call.details is not None or call.ended_at - call.origin.begun >= _SLOW_S:
            if left > 0:
                left -= 1
                calls.append(call)
                continue
            key = (key, call.outcome)
        if key in counts:
            counts[key] += 1
        else:
            counts[key], samples[key] = 0, len(calls)
            calls.append(call)
    return Chosen(calls, {samples[key]: count for key, count in counts.items() if count})
