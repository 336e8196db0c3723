"""Finds in a status what needs a person, the most urgent first, each with what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from host.terminal.tones import Tone
from manager.page.drawing.html import Action
from manager.status_reading.own_servers import running_twice
from manager.status_reading.responses import objects
from manager.status_reading.source_problems import DOWN, source_problems
from manager.status_reading.workspaces import merged_workspaces
from protocol.internal.request_state import short_approval_id

_ALARMING: Final = frozenset({"unhealthy", "crash_looping"})
_REPLACED: Final = frozenset({"changed", "other_version"})
_ANSWERS: Final = (
    ("Approve once", "once"),
    ("Always allow this tool, in every project", "always"),
    ("Deny", "deny"),
)
"""Labels of buttons, and what they answer."""
_URGENCY: Final = (Tone.BAD, Tone.WARN, Tone.BUSY, Tone.GOOD, Tone.OFF)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person. `words` are the last lines of what failed, `next_step` what helps."""

    tone: Tone
    text: str
    next_step: str
    project: str | None = None
    words: tuple[str, ...] = ()
    action: Action | None = None
    more_actions: tuple[Action, ...] = ()


def needs(status: Mapping[str, Any]) -> list[Need]:
    """What needs a person: calls that wait for approval first, then the most urgent."""
    found = [*_of_manager(status), *_of_workspaces(status)]
    found += [Need(Tone.WARN, text, "lmtb adopt") for text in running_twice(status)]
    return [*_approvals(status), *sorted(found, key=lambda need: _URGENCY.index(need.tone))]


def _approvals(status: Mapping[str, Any]) -> Iterator[Need]:
    for call in objects(status, "approvals"):
        identity, tool = str(call.get("id")), str(call.get("tool"))
        subject = f"{tool}, {short_approval_id(identity)}"
        once, always, deny = (
            Action("answer-approval", label, (("id", identity), ("answer", answer)), subject)
            for label, answer in _ANSWERS
        )
        words = tuple(str(call.get("question") or "").split("\n"))
        text = f"{tool} waits for your approval, called by {call.get('client') or 'an unnamed client'}."
        project = str(call.get("workspace"))
        yield Need(Tone.WARN, text, "lmtb approvals", project, words, once, (always, deny))


def _of_manager(status: Mapping[str, Any]) -> Iterator[Need]:
    degraded = status.get("degraded")
    for one in degraded if isinstance(degraded, list) else []:
        text = one.get("message") or one.get("reason") if isinstance(one, dict) else one
        yield Need(Tone.BAD, str(text), "lmtb doctor")
    installed = status.get("installation")
    if isinstance(installed, dict) and installed.get("state") in _REPLACED:
        restart = Action("restart-manager", "Restart")
        text = "The installed program has changed since the manager started."
        yield Need(Tone.WARN, text, "lmtb restart", action=restart)


def _of_workspaces(status: Mapping[str, Any]) -> Iterator[Need]:
    for row in merged_workspaces(status):
        project = str(row.get("workspace"))
        if row.get("state") in _ALARMING:
            tail = row.get("stderrTail")
            words = tuple(str(line) for line in tail[-3:]) if isinstance(tail, list) else ()
            why = row.get("lastError") or "it does not answer"
            yield Need(Tone.BAD, f"The server is {row['state']}: {why}", "lmtb doctor", project, words)
        retries = _retries(row)
        for problem in source_problems(row):
            tone = Tone.BAD if problem.is_fault else Tone.WARN
            action = next((retries[name] for name in retries if problem.text.startswith(f"{name} is ")), None)
            yield Need(tone, problem.text, problem.next_step, project, action=action)


def _retries(row: Mapping[str, Any]) -> dict[str, Action]:
    """For each source that is down: the button that tries it again."""
    down = [str(one.get("id")) for one in objects(row, "sources") if one.get("state") in DOWN]
    root = str(row.get("root"))
    return {name: Action("retry-source", "Retry", (("root", root), ("source", name))) for name in down}
