"""Keeps the calls that wait for a person, and takes one answer for each, whoever gives it first.

It decides which answer came first. The manager hears every change on the lifeline and shows the calls; a call
whose client can be asked ends with a question, any other call waits here. Nothing survives this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

MOST: Final = 64
"""Most calls of a workspace that wait for a person at a time."""

Answered = Literal["approved", "denied", "gone", "late"]
"""What became of an answer. `late`: another answer came first. `gone`: the call does not wait any more."""


@dataclass(slots=True, eq=False)
class PendingApproval:
    """A call that waits for a person.

    Attributes:
        id: names it (`lm_tools_bridge.protocol.internal.request_state.approval_id`).
        question: what is asked: the tool and its arguments, safe to show, `shortened`.
        caller: the calling session; empty for a stateless client.
        since, until: seconds since 1970.
        waits: whether the call waits here. Otherwise its client was asked, and repeats it.
        answer: the answer from elsewhere; None if the wait ends without one.
    """

    id: str
    tool: str
    client: str
    question: str
    caller: str
    since: float
    until: float
    waits: bool
    answer: asyncio.Future[bool | None] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = asyncio.get_running_loop().create_future()

    @property
    def approved(self) -> bool | None:
        """The answer from elsewhere, if there is one."""
        return self.answer.result() if self.answer.done() else None

    def as_json(self) -> dict[str, Any]:
        """What the manager is told."""
        return {
            "id": self.id,
            "tool": self.tool,
            "client": self.client,
            "question": self.question,
            "since": self.since,
            "until": self.until,
            "waits": self.waits,
            "approved": self.approved,
        }


class PendingApprovals:
    """The calls of one workspace that wait for a person, the oldest first.

    Attributes:
        changes: how often they changed.
    """

    def __init__(self, most: int = MOST) -> None:
        self.changes = 0
        self._most = most
        self._by_id: dict[str, PendingApproval] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listeners: set[Callable[[], None]] = set()
        self._is_closed = False

    def add(self, pending: PendingApproval) -> bool:
        """Add a call until its time is over; False if its id is taken, too many wait, or we stop."""
        if self._is_closed or len(self._by_id) >= self._most or pending.id in self._by_id:
            return False
        self._by_id[pending.id] = pending
        self._timers[pending.id] = asyncio.get_running_loop().call_later(
            max(0.0, pending.until - pending.since), self.withdraw, pending.id
        )
        self._changed()
        return True

    def answer(self, identity: str, *, approve: bool) -> Answered:
        """Take a person's answer. A call has one: the first."""
        pending = self._by_id.get(identity)
        if pending is None:
            return "gone"
        if pending.answer.done():
            return "late"
        pending.answer.set_result(approve)
        if pending.waits:
            self.withdraw(identity)
        else:
            self._changed()
        return "approved" if approve else "denied"

    def answer_of(self, identity: str) -> bool | None:
        """The answer from elsewhere; None if there is none."""
        pending = self._by_id.get(identity)
        return None if pending is None else pending.approved

    def withdraw(self, identity: str) -> None:
        """Remove a call; it takes no more answers. Idempotent."""
        pending = self._by_id.pop(identity, None)
        if pending is None:
            return
        self._timers.pop(identity).cancel()
        if not pending.answer.done():
            pending.answer.set_result(None)
        self._changed()

    def withdraw_sessions(self) -> None:
        """Remove the calls whose clients had sessions: the manager that asked them is gone."""
        for pending in list(self._by_id.values()):
            if pending.caller:
                self.withdraw(pending.id)

    def close(self) -> None:
        """Remove all calls, and take no more. Idempotent."""
        self._is_closed = True
        for identity in list(self._by_id):
            self.withdraw(identity)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change. Returns a function that removes it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def as_json(self) -> list[dict[str, Any]]:
        """What the manager is told of all of them."""
        return [pending.as_json() for pending in self._by_id.values()]

    def _changed(self) -> None:
        self.changes += 1
        for listener in tuple(self._listeners):
            listener()
