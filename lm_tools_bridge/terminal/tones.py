"""Maps each state to a tone (good, busy, warn, bad, off), and each tone to a mark. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Tone(Enum):
    """How good or bad something is."""

    GOOD = "good"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


MARKS: Final = {Tone.GOOD: "✓", Tone.BUSY: "…", Tone.WARN: "!", Tone.BAD: "✗", Tone.OFF: "–"}
ASCII_MARKS: Final = {Tone.GOOD: "+", Tone.BUSY: "~", Tone.WARN: "!", Tone.BAD: "x", Tone.OFF: "-"}

_WORDS: Final = {
    Tone.GOOD: "ready connected trusted ok yes current active listed always callable enabled installed",
    Tone.BUSY: "starting connecting stopping draining restarting running",
    Tone.WARN: "backoff pending_trust auth_required suspect degraded new changed outdated warn other",
    Tone.BAD: "failed crash_looping unhealthy fail unusable not error",
    Tone.OFF: "stopped offline gone idle disabled no missing unknown removed cancelled",
}
_TONES: Final = {word: tone for tone, words in _WORDS.items() for word in words.split()}


def tone_of(state: str) -> Tone | None:
    """The tone of a state by its first word; None for a state that is not known."""
    word = state.split(maxsplit=1)[0].rstrip(",:;") if state else ""
    tone = _TONES.get(word)
    return Tone.WARN if tone is Tone.GOOD and state.endswith("(stale)") else tone
