"""The states of sources of tools and of language servers, for all that show them or decide by them. Pure.

One table: a state has the same word and the same meaning in lists, refusals, `lmtb status`, `lmtb servers`,
`lmtb doctor` and on the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class StateMeaning(NamedTuple):
    """What a state means.

    Attributes:
        words: what comes after the name of the source.
        label: what a column of states shows; empty for the state's own word.
        is_healthy: nothing is wrong, and nobody has to do anything.
        is_starting: it has not answered yet, and is expected to.
        is_down: its tools cannot be called.
        is_broken: it does not recover by itself soon.
        is_unused: it is not listed and offers nothing.
    """

    words: str
    label: str = ""
    is_healthy: bool = False
    is_starting: bool = False
    is_down: bool = False
    is_broken: bool = False
    is_unused: bool = False


STATES: Final[Mapping[str, StateMeaning]] = {
    "idle": StateMeaning("is not started; its next use starts it", is_healthy=True),
    "starting": StateMeaning("has not answered yet", is_starting=True),
    "connecting": StateMeaning("has not answered yet", is_starting=True),
    "ready": StateMeaning("answers", is_healthy=True),
    "degraded": StateMeaning("answers, but a part of it does not work"),
    "backoff": StateMeaning("ended or failed and is started again", "retrying", is_down=True),
    "crash_looping": StateMeaning("ends again and again", "crashing", is_down=True, is_broken=True),
    "auth_required": StateMeaning(
        "does not accept the credentials, or has none", "needs login", is_down=True
    ),
    "failed": StateMeaning("cannot be started or reached", is_down=True, is_broken=True),
    "pending_trust": StateMeaning("waits for your trust", "needs trust", is_unused=True),
    "disabled": StateMeaning("is disabled", is_healthy=True, is_unused=True),
}
DOWN: Final = frozenset(word for word, state in STATES.items() if state.is_down)
BROKEN: Final = frozenset(word for word, state in STATES.items() if state.is_broken)
STARTING: Final = frozenset(word for word, state in STATES.items() if state.is_starting)
UNUSED: Final = frozenset(word for word, state in STATES.items() if state.is_unused)
HEALTHY: Final = frozenset(word for word, state in STATES.items() if state.is_healthy)


def label_of(state: object) -> str:
    """What a column of states shows; a state of another version as it is."""
    meaning = STATES.get(str(state))
    return str(state) if meaning is None else meaning.label or str(state)


def shown_state(state: str, error: str | None) -> str:
    """The state to show: a source that answers and has an error is degraded."""
    return "degraded" if state == "ready" and error else state
