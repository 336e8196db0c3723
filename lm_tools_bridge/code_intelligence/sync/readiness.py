"""Decides from a server's notifications whether it has read the project. Pure: the clock is an argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.specification import ReadySignal, ServerSpecification
from workspace_server.results import clean_text

BACKGROUND_INDEX: Final = "backgroundIndexProgress"
SILENCE_S: Final[Mapping[ReadySignal, float]] = {
    "first-answer": 0.0,
    "progress": 10.0,
    "background-index": 5.0,
    "quiescent": 30.0,
    "log-message": 30.0,
    "settled": 0.0,
}
"""How long a server that has something to read may say nothing before it counts as one that gives no sign."""
PAUSE_S: Final = 0.25
"""Progress that begins again this soon after its end is taken for the same."""
MAX_TOKENS: Final = 1000
"""Kinds of work under way: real servers have a few; one in error could begin work without end."""
_LONGEST: Final = 200
"""Characters of a title or message of progress, which answers repeat."""
_LONGEST_MESSAGE: Final = 400
"""Characters of what rust-analyzer is warning of, which may be several things, a line each."""
_CURES: Final[Mapping[str, str]] = {
    "rust-src": "rustup component add rust-src",
    "can't load standard library": "rustup component add rust-src",
    "proc-macro": "rustup component add rust-analyzer",
    "build scripts": "cargo check",
    "cargo metadata": "cargo fetch",
    'Failed to run `"cargo"': "https://rustup.rs",
}
"""What rust-analyzer's warnings are about, and what to run then; the first one that fits."""
_COUNTS: Final = re.compile(r"(\d{1,9}) ?(?:/|of) ?(\d{1,9})")

_STARTING: Final = "it has not begun to read the project"
_READING: Final = "it still reads the project; there may be more"
_SILENT: Final = "it gave no sign of having read the project"
_NO_SIGN: Final = "it gives no sign by which one could tell that it has read the whole project"


@dataclass(slots=True)
class _Work:
    """One `$/progress` that has begun."""

    title: str
    text: str = ""
    percentage: int | None = None


class Readiness:
    """Whether one server has read the project, as far as it says so.

    Args:
        specification: its kind, with the sign that it gives.
        now: monotonic seconds, as everywhere in this class.
    """

    def __init__(self, specification: ServerSpecification, now: float) -> None:
        self._name = specification.name
        self._signal = specification.ready
        self._title = specification.ready_title
        self._work: dict[str | int, _Work] = {}
        self._since = now  # when it began to have something to read
        self._ended_at: float | None = None
        self._quiescent: bool | None = None
        self._health = ""
        self._message = ""

    def note_request(self, now: float) -> None:
        """It was given its first file, or the project's configuration changed: it has something to read."""
        self._since = now

    def reconfigured(self, now: float) -> None:
        """It was told that the project's configuration changed; one that logs its reading reads again."""
        self._since = now
        if self._signal == "log-message":
            self._ended_at = None

    def take_notification(self, method: str, params: Any, now: float) -> None:
        """Take a notification of the server; what is not understood is ignored."""
        if not isinstance(params, Mapping):
            return
        if method == "$/progress":
            self._progress(params, now)
        elif method == "experimental/serverStatus" and isinstance(params.get("quiescent"), bool):
            self._quiescent = params["quiescent"]
            self._health = str(params.get("health", ""))[:_LONGEST]
            self._message = " ".join(_text(params.get("message"), _LONGEST_MESSAGE).split())
        elif method == "window/logMessage":
            is_sign = _text(params.get("message")).startswith(self._title)
            if is_sign and self._signal == "log-message":
                self._ended_at = now

    def state(self, now: float) -> Freshness:
        """How far answers about the whole project can be trusted now."""
        if self._signal == "first-answer":
            return self._fresh()
        if self._signal == "settled":
            return self._indexing() if self._work else Freshness(self._name, "unknown", _NO_SIGN)
        if self._signal == "quiescent":
            return self._by_status(now)
        if self._work and self._signal != "log-message":
            return self._indexing()
        if self._ended_at is not None:
            return self._fresh() if self._has_settled(now) else Freshness(self._name, "indexing", _READING)
        return self._silent(now)

    def changes_at(self, now: float) -> float | None:
        """When the state changes without a notification; None if it does not."""
        silence = SILENCE_S[self._signal]
        times = [self._since + silence] if silence else []
        if self._ended_at is not None:
            times.append(self._ended_at + PAUSE_S)
        return min((time for time in times if time > now), default=None)

    def _has_settled(self, now: float) -> bool:
        # a log message is about what has been read; progress may go on
        return self._signal == "log-message" or (
            self._ended_at is not None and now - self._ended_at >= PAUSE_S
        )

    def _by_status(self, now: float) -> Freshness:
        if self._quiescent is None:
            return self._silent(now)
        if not self._quiescent:
            return self._indexing()
        if self._health in {"error", "warning"}:
            article = "an" if self._health == "error" else "a"
            reason = f"it reports {article} {self._health}{': ' if self._message else ''}{self._message}"
            return Freshness(self._name, "partial", reason + _cure(self._message))
        return self._fresh()

    def _silent(self, now: float) -> Freshness:
        if now - self._since < SILENCE_S[self._signal]:
            return Freshness(self._name, "indexing", _STARTING)
        if self._signal == "background-index":
            reason = "it indexes nothing, and knows only the files open in it"
            return Freshness(self._name, "partial", reason)
        return Freshness(self._name, "unknown", _SILENT)

    def _indexing(self) -> Freshness:
        done = total = None
        reason = _READING
        for work in self._work.values():
            if counts := _COUNTS.search(work.text):
                done, total = int(counts[1]), int(counts[2])
            elif work.percentage is not None:
                reason = f"{_READING} ({work.percentage} %)"
        return Freshness(self._name, "indexing", reason, done, total)

    def _fresh(self) -> Freshness:
        return Freshness(self._name, "fresh")

    def _progress(self, params: Mapping[str, Any], now: float) -> None:
        token, value = params.get("token"), params.get("value")
        if not isinstance(token, (str, int)) or not isinstance(value, Mapping):
            return
        kind = value.get("kind")
        if kind == "begin" and self._counts(token, value) and len(self._work) < MAX_TOKENS:
            self._work[token] = _Work(_text(value.get("title")))
        work = self._work.get(token)
        if work is None:
            return
        if kind == "end":
            del self._work[token]
            self._ended_at = now
            return
        work.text = _text(value.get("message")) or work.text
        percentage = value.get("percentage")
        if isinstance(percentage, (int, float)) and 0 <= percentage <= 100:
            work.percentage = int(percentage)

    def _counts(self, token: str | int, begin: Mapping[str, Any]) -> bool:
        """Whether this progress is about reading the project."""
        if self._signal == "background-index":
            return token == BACKGROUND_INDEX
        if self._signal == "log-message":
            return False
        return _text(begin.get("title")).startswith(self._title)


def _cure(message: str) -> str:
    """The command that mends what rust-analyzer warns of, where one is known."""
    return next((f"; to mend it: {cure}" for sign, cure in _CURES.items() if sign in message), "")


def _text(value: Any, longest: int = _LONGEST) -> str:
    return clean_text(value[:longest]) if isinstance(value, str) else ""
