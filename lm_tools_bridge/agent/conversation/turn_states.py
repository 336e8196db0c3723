"""The states of a turn as a table: asking the model, running its calls, and the five ways to end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from lm_tools_bridge.agent.outcomes import Ending


class State(Enum):
    """What a turn is doing."""

    ASKING = auto()
    """The model is asked, or replies."""
    RUNNING = auto()
    """The calls of its reply run."""
    ENDED = auto()


class Event(Enum):
    """What happens in a turn."""

    REPLIED = auto()
    """A whole reply without calls."""
    CALLED = auto()
    """A whole reply with calls."""
    RAN = auto()
    """Every call of the reply has its result, and the model may reply again."""
    RAN_LAST = auto()
    """Every call has its result, and the model has had all its rounds."""
    REPEATED = auto()
    """The model repeated calls too often."""
    FAILED = auto()
    """The provider gave no whole reply."""
    CANCELLED = auto()
    """The person cancelled the turn."""


TABLE: Final[Mapping[tuple[State, Event], tuple[State, Ending | None]]] = {
    (State.ASKING, Event.REPLIED): (State.ENDED, Ending.COMPLETED),
    (State.ASKING, Event.CALLED): (State.RUNNING, None),
    (State.ASKING, Event.FAILED): (State.ENDED, Ending.PROVIDER_FAILED),
    (State.ASKING, Event.CANCELLED): (State.ENDED, Ending.CANCELLED),
    (State.RUNNING, Event.RAN): (State.ASKING, None),
    (State.RUNNING, Event.RAN_LAST): (State.ENDED, Ending.LIMIT_REACHED),
    (State.RUNNING, Event.REPEATED): (State.ENDED, Ending.REPEATED_CALLS),
    (State.RUNNING, Event.CANCELLED): (State.ENDED, Ending.CANCELLED),
}
"""State and event -> next state, and the ending if it is the last one. Other pairs cannot happen."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """Where a turn is: its state, the whole replies so far of those that it may have, and how it ended."""

    limit: int
    state: State = State.ASKING
    rounds: int = 0
    ending: Ending | None = None

    def after(self, event: Event) -> TurnState:
        """The turn after an event.

        Raises:
            KeyError: the event cannot happen in this state.
        """
        state, ending = TABLE[self.state, event]
        rounds = self.rounds + (event in {Event.REPLIED, Event.CALLED})
        return replace(self, state=state, ending=ending, rounds=rounds)

    def all_ran(self) -> Event:
        """The event when every call of a reply has its result."""
        return Event.RAN_LAST if self.rounds >= self.limit else Event.RAN
