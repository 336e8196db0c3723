"""Adds the calls that wait for a person to the daemon, and the verb `lmtb approvals`."""

from __future__ import annotations

from typing import Final

from manager.features import DaemonPart, DaemonStart, Verb

VERBS: Final = (
    Verb(
        "approvals",
        "lm_tools_bridge.approvals.verb",
        "Answer the calls that wait for your approval.",
        section="The manager",
        after="token",
    ),
)


def make_part(start: DaemonStart) -> DaemonPart:
    """The board of waiting calls, and the notifications about them."""
    from lm_tools_bridge.approvals.part import ApprovalsPart

    return ApprovalsPart(start.settings)
