"""Chooses which calls of a batch get a row of their own when calls are too many for that. Pure.

Failures, slow calls and calls with details keep theirs first. The others are counted by label, that is by
client, project and tool: the first of each label since the last batch gets a row, which says how many follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from manager.recorder.ended_call import EndedCall

WHOLE_PER_S: Final = 1000.0
"""Calls a second up to which each has a row."""
_SLOW_S: Final = 1.0


class Chosen:
    """Collects the calls since the last batch that get rows.

    Args:
        room: how many may have one each; as many failures and slow calls may come in addition.

    Attributes:
        calls: those with rows, in order.
        more: for the index of a call, how many others like it have no row.
    """

    def __init__(self, room: float) -> None:
        self._room = self._special_room = room
        self._samples: dict[object, int] = {}
        self.calls: list[EndedCall] = []
        self.more: dict[int, int] = {}

    def add(self, batch: Iterable[EndedCall]) -> None:
        """Add calls, which must live as long as this object."""
        calls, more, samples = self.calls, self.more, self._samples
        for call in batch:
            if len(calls) < self._room:
                calls.append(call)
                continue
            origin, outcome = call[0], call[4]
            key: object = id(origin.label)
            if outcome != "ok" or call[6] is not None or call[3] - origin.begun >= _SLOW_S:
                if self._special_room > 0:
                    self._special_room -= 1
                    calls.append(call)
                    continue
                key = (key, outcome)
            at = samples.get(key)
            if at is None:
                samples[key] = len(calls)
                calls.append(call)
            else:
                more[at] = more.get(at, 0) + 1
