"""Limits how many issues a workspace reports, and how long each is. Pure.

Files of a project that nobody trusted can cause any number of issues, which every list and health answer
repeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from lm_tools_bridge.protocol.issues import Issue

MAX_ISSUES: Final = 200
MAX_TEXT: Final = 1_000
"""Characters of a message, and of its details."""


def limited(issues: Iterable[Issue]) -> list[Issue]:
    """The issues in their order, errors first; one in place of those beyond the limit."""
    found = sorted(issues, key=lambda issue: issue.order)
    shown = [_shortened(issue) for issue in found[:MAX_ISSUES]]
    if len(found) > MAX_ISSUES:
        text = (
            f"{len(found) - MAX_ISSUES} more problems are not listed; correct those that are, and list again"
        )
        shown.append(Issue("warning", "issues", "ISSUES_LEFT_OUT", text))
    return shown


def _shortened(issue: Issue) -> Issue:
    if len(issue.message) <= MAX_TEXT and len(issue.details or "") <= MAX_TEXT:
        return issue
    details = None if issue.details is None else _cut(issue.details)
    return replace(issue, message=_cut(issue.message), details=details)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
