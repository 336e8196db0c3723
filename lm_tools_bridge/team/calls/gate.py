"""Admits calls from other members: each id once, limited in number for each caller and in all. Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Final, Literal

from lm_tools_bridge.team.calls.parts import CONFIRM_S, REMEMBERED_S, SILENCE_S
from lm_tools_bridge.team.names import is_call_id

CALLS_OF_ONE: Final = 16
"""Calls of one caller at a time."""
MOST_IDS: Final = 100_000
"""Ids of past calls that are remembered; each for `REMEMBERED_S` at most."""
Rejection = Literal["invalid", "repeated", "draining", "busy", "too_many"]


@dataclass(slots=True)
class Admitted:
    """A call that is accepted or runs."""

    caller: str
    heard: float
    runs: bool


class Gate:
    """The calls of other members at this host.

    Attributes:
        capacity: how many there may be at once.
        is_draining: whether new calls are refused.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_draining = False
        self._calls: dict[str, Admitted] = {}
        self._past: OrderedDict[str, float] = OrderedDict()
        self._of: Counter[str] = Counter()

    @property
    def in_flight(self) -> int:
        """How many calls are accepted or run."""
        return len(self._calls)

    def admit(self, identity: str, caller: str, now: float, *, at_once: bool) -> Rejection | None:
        """Accept a call, or say why not. An id is accepted once: a doubled message never runs twice."""
        if not is_call_id(identity):
            return "invalid"
        self._forget(now)
        if identity in self._calls or identity in self._past:
            return "repeated"
        if self.is_draining:
            return "draining"
        if self._of[caller] >= CALLS_OF_ONE:
            return "too_many"
        if len(self._calls) >= self.capacity:
            return "busy"
        self._calls[identity] = Admitted(caller, now, at_once)
        self._of[caller] += 1
        return None

    def go(self, identity: str, caller: str, now: float) -> bool:
        """Whether this confirmation makes the call run: it comes from the caller, for the first time."""
        call = self._calls.get(identity)
        if call is None or call.caller != caller or call.runs:
            return False
        call.runs, call.heard = True, now
        return True

    def hear(self, identity: str, caller: str, now: float) -> bool:
        """Whether a message about a call comes from its caller, which therefore is there."""
        call = self._calls.get(identity)
        if call is None or call.caller != caller:
            return False
        if call.runs:  # only a confirmation keeps what is not confirmed
            call.heard = now
        return True

    def end(self, identity: str, now: float) -> None:
        """The call is over; its id stays known."""
        if (call := self._calls.pop(identity, None)) is not None:
            self._of[call.caller] -= 1
            if not self._of[call.caller]:
                del self._of[call.caller]
            self._past[identity] = now

    def abandoned(self, now: float) -> list[str]:
        """Calls whose caller did not confirm them, or is silent for too long."""
        return [
            identity
            for identity, call in self._calls.items()
            if now - call.heard > (SILENCE_S if call.runs else CONFIRM_S)
        ]

    def _forget(self, now: float) -> None:
        while self._past:
            identity, at = next(iter(self._past.items()))
            if len(self._past) < MOST_IDS and now - at < REMEMBERED_S:
                return
            del self._past[identity]
