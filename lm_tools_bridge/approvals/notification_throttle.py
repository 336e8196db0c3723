"""Decides when a person is notified of what waits: once for each thing, several together, rarely. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from manager.status_reading.attention import Attention

PAUSE_S: Final = 10.0
"""Shortest time between two notifications; what comes meanwhile is in the next one."""
MOST_PER_HOUR: Final = 20
"""Notifications an hour: a person turns off what tells more."""
FOR_APPROVALS: Final = 5
"""How many of them only calls that wait for approval may use."""
HOUR_S: Final = 3600.0
REMEMBERED_S: Final = 1800.0
"""How long a thing that no longer waits is remembered, so that one which comes and goes is told once."""
MOST_LINES: Final = 4
"""Lines of one notification; a last line counts the rest, which a desktop would cut without a word."""
TITLE: Final = "LM Tools Bridge"


class Notice(NamedTuple):
    """A notification: plain text."""

    title: str
    body: str


class Close(NamedTuple):
    """The last notification is out of date: nothing of it waits any more."""


class Throttle:
    """The state between two looks at what waits."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._untold: dict[str, Attention] = {}
        self._shown: frozenset[str] = frozenset()
        self._sent: deque[float] = deque(maxlen=MOST_PER_HOUR)

    def may_tell(self, now: float) -> bool:
        """Whether something waits that the person was not told of, and that can be told now."""
        if not self._untold or (self._sent and now - self._sent[-1] < PAUSE_S):
            return False
        is_approval = any(thing.kind == "approval" for thing in self._untold.values())
        most = MOST_PER_HOUR if is_approval else MOST_PER_HOUR - FOR_APPROVALS
        return sum(now - at < HOUR_S for at in self._sent) < most

    def next(self, waiting: Sequence[Attention], now: float) -> Notice | Close | None:
        """What to do about what waits now; `now` is in seconds of a monotonic clock."""
        keys = {thing.key for thing in waiting}
        self._seen = {key: at for key, at in self._seen.items() if now - at < REMEMBERED_S}
        is_untold = self._untold.keys() | (keys - self._seen.keys())
        self._untold = {thing.key: thing for thing in waiting if thing.key in is_untold}
        self._seen.update(dict.fromkeys(keys, now))
        if self.may_tell(now):
            return self._notice(now)
        if self._shown and not self._shown & keys:
            self._shown = frozenset()
            return Close()
        return None

    def _notice(self, now: float) -> Notice:
        things, self._untold = list(self._untold.values()), {}
        self._sent.append(now)
        self._shown = frozenset(thing.key for thing in things)
        lines = [f"{thing.text}: {thing.next_step}" for thing in things[:MOST_LINES]]
        more = len(things) - MOST_LINES
        title = f"{TITLE} needs you" if len(things) == 1 else f"{TITLE}: {len(things)} things need you"
        return Notice(title, "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])]))
