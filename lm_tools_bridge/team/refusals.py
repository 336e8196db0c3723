"""Words why a call to a member of the team has no answer, with the next step. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.team.calls.remote_call import TIMED_OUT

_STATUS: Final = "look at the team with: lmtb team status"
_BUSY: Final = frozenset({"full", "busy", "too_many", "draining"})
_RETRY_MS: Final = 2000
_LACKS: Final[Mapping[str, str]] = {
    "unknown": "no host of the team offers it now",
    "not_accepted": "the hosts that offer it now are not accepted",
    "dead": "none of its hosts is there",
    "gone": "its host has just left",
    "silent": "its hosts do not answer",
    "draining": "its hosts are shutting down",
    "full": "its hosts are busy",
    "busy": "its hosts are busy",
    "too_many": "too many calls are under way",
    "unknown_offer": "its host no longer offers it",
    "registry": "the registry of the team does not answer",
    "not_carried": "its host does not offer this method",
    "repeated": "its host has had a call of this id",
    "invalid": "its host does not understand the call",
}


def unreachable(problem: str | None) -> Refusal:
    """The team's servers cannot be reached."""
    text = "the team cannot be reached" if problem is None else f"the team cannot be reached: {problem}"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, next_step=_STATUS, delivered="no")


def no_host(offer: str, reason: str) -> Refusal:
    """No host took a call, which certainly did not run.

    Args:
        offer: its name.
        reason: a word; those of hosts may be anything.
    """
    text = f"the team's {offer} cannot be called: {_LACKS.get(reason, 'no host could take the call')}"
    if reason in _BUSY:
        return Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=_RETRY_MS)
    step = f"see its hosts with `lmtb team status`, and accept one with: lmtb team use {offer} --host HOST"
    step = step if reason == "not_accepted" else _STATUS
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, next_step=step, delivered="no")


def lost(offer: str, reason: str) -> Refusal:
    """A call may have run, and there is no answer.

    Args:
        offer: its name.
        reason: `TIMED_OUT`, or what happened, for people.
    """
    if reason == TIMED_OUT:
        text = f"the team's {offer} did not answer in time"
        return Refusal(Reason.CALL_TIMED_OUT, text, delivered="unknown")
    text = f"the answer of the team's {offer} was lost: {reason}"
    return Refusal(Reason.ANSWER_LOST, text, delivered="unknown")
