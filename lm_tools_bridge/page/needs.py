"""Finds in a status what needs a person, the most urgent first, each with what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.page.html import Action, capitalized, plain_state, source_action
from lm_tools_bridge.protocol.internal.request_state import short_approval_id
from lm_tools_bridge.terminal.views import Tone
from manager.status_reading import merged_workspaces, objects, running_twice, source_problems

_ALARMING: Final = frozenset({"unhealthy", "crash_looping"})
_REPLACED: Final = frozenset({"changed", "other_version"})
_ANSWERS: Final = (
    ("Approve once", "once"),
    ("Always allow this tool, in every project{}", "always"),
    ("Deny", "deny"),
)
"""Labels of buttons, and what they answer."""
_LAST_WORDS: Final = 3  # enough for the last line of a traceback and what led to it
_URGENCY: Final = (Tone.BAD, Tone.WARN, Tone.BUSY, Tone.GOOD, Tone.OFF)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person. `words` are the last lines of what failed, `next_step` what helps.

    `page` is the part of the project's own page that says more.
    """

    tone: Tone
    text: str
    next_step: str
    project: str | None = None
    words: tuple[str, ...] = ()
    action: Action | None = None
    more_actions: tuple[Action, ...] = ()
    page: str | None = None


def needs(status: Mapping[str, Any]) -> list[Need]:
    """What needs a person: calls that wait for approval first, then the most urgent."""
    all_needs = [*_of_manager(status), *_of_workspaces(status)]
    all_needs += [Need(Tone.WARN, text, command) for text, command in running_twice(status)]
    return [*_approvals(status), *sorted(all_needs, key=lambda need: _URGENCY.index(need.tone))]


def _approvals(status: Mapping[str, Any]) -> Iterator[Need]:
    for call in objects(status, "approvals"):
        identity, tool = str(call.get("id")), str(call.get("tool"))
        subject = f"{tool}, {short_approval_id(identity)}"
        there = f" on {call['host']}" if call.get("host") else ""
        once, always, deny = (
            Action("answer-approval", label.format(there), (("id", identity), ("answer", answer)), subject)
            for label, answer in _ANSWERS
        )
        words = tuple(str(call.get("question") or "").split("\n"))
        client = call.get("client") or "an unnamed client"
        text = f"{tool} waits for your approval{there}, called by {client}."
        project = str(call.get("workspace"))
        yield Need(Tone.WARN, text, "lmtb approvals", project, words, once, (always, deny))


def _of_manager(status: Mapping[str, Any]) -> Iterator[Need]:
    degraded = status.get("degraded")
    for reason in degraded if isinstance(degraded, list) else []:
        text = reason.get("message") or reason.get("reason") if isinstance(reason, dict) else reason
        yield Need(Tone.BAD, capitalized(str(text)), "lmtb doctor")
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
            start = Action("start-server", "Start again", (("root", str(row.get("root"))),), project)
            text = f"The server {plain_state(row['state'])}: {why}"
            yield Need(Tone.BAD, text, "lmtb doctor", project, words, start)
        sources = {str(entry.get("id")): entry for entry in objects(row, "sources")}
        for problem in source_problems(row):
            tone = Tone.BAD if problem.is_fault else Tone.WARN
            source = sources.get(problem.source or "", {})
            action = source_action(source, str(row.get("root"))) if source else None
            words = last_words(source)
            page = None if problem.source else "trust" if problem.is_trust else "issues"
            text = _of_source(source) if source else problem.text
            yield Need(tone, text, problem.next_step, project, words, action, page=page)


def _of_source(source: Mapping[str, Any]) -> str:
    why = source.get("error") or "it did not say why"
    return f"{source.get('id')} {plain_state(source.get('state'))}: {why}"


def last_words(source: Mapping[str, Any]) -> tuple[str, ...]:
    """The last lines that a source which is down has written, unless its error quotes them."""
    written = source.get("stderr")
    last = tuple(str(line) for line in written[-_LAST_WORDS:]) if isinstance(written, list) else ()
    is_told = all(line in str(source.get("error")) for line in last)
    return () if is_told else last
