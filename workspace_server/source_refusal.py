"""Words the refusal of a call whose source is not running: the state, the cause, and what helps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lm_tools_bridge.protocol.errors import RETRY_STEP, Reason, Refusal
from lm_tools_bridge.protocol.internal.source_states import STATES
from workspace_server.results import clean_text

BACKOFF_MS: Final = 1000
LOOPING_MS: Final = 60_000
"""When a retry makes sense, if the source does not say. A crash looping server starts once a minute."""
_ASK: Final = "ask the user to"
_STATES: Final[Mapping[str, tuple[str, int | None]]] = {
    "backoff": ("", BACKOFF_MS),
    "crash_looping": ("", LOOPING_MS),
    "auth_required": (
        f"{_ASK} set a valid token, or to run lmtb servers login; a retry alone does not help",
        None,
    ),
    "failed": (
        f"{_ASK} correct its configuration; lmtb servers shows what is wrong. A retry alone does not help",
        None,
    ),
    "disabled": (
        f"{_ASK} enable it in its configuration file (enabled = true); a retry alone does not help",
        None,
    ),
}
"""State -> the next step where a person is needed, milliseconds until a retry makes sense."""
NOT_RUNNING: Final = frozenset(_STATES)
"""States in which a source answers no call."""


def not_running(source: str, state: str, error: str | None, retry_after_ms: int | None = None) -> Refusal:
    """The refusal for a call of a source in one of the states in which it answers no call.

    Args:
        source: its id.
        state: backoff, crash_looping, auth_required, failed or disabled.
        error: why it is in this state, if that is known.
        retry_after_ms: when it is tried again, if that is known.
    """
    step, usual_ms = _STATES[state]
    cause = f": {clean_text(error)}" if error else ""
    text = f'Source "{source}" {STATES[state].words} ({state}){cause}'
    again = None if usual_ms is None else retry_after_ms or usual_ms
    details = {"source": source, "state": state, "error": clean_text(error or f"it is {state}")}
    step = step or f"{RETRY_STEP}; lmtb servers shows the state of the source"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", again, details)
