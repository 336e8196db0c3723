"""A call that waits for a person, as it is shown. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol.internal.request_state import SHORT_ID
from manager.waiting_calls import ReportedApproval

BEFORE_ID: Final = ":"
"""Between the name of a host and the id that a call has there. No id contains it."""


class WaitingCall(msgspec.Struct, frozen=True):
    """A call that waits for an answer, and its project.

    Attributes:
        call: what is shown of it; its id names it here.
        reported: the call as its server reported it; its id names it there.
        host: the name that the user gave the project's host; None for this machine.
    """

    workspace: str
    root: str
    call: ReportedApproval
    reported: ReportedApproval
    host: str | None = None

    def is_about(self, other: ReportedApproval) -> bool:
        """Whether a report is about this call, and not about another one with its id."""
        mine = self.reported
        return (mine.tool, mine.client, mine.question) == (other.tool, other.client, other.question)

    def is_named(self, text: str) -> bool:
        """Whether a person means this call: by its id, or by the beginning of it.

        The id of a call on another host begins with the host's name, so that no host can have another call
        meant than one of its own.
        """
        host, _, _ = text.rpartition(BEFORE_ID)
        return host == (self.host or "") and is_named(self.call.id, text)

    def as_json(self, *, with_question: bool) -> dict[str, Any]:
        """What is shown. The question contains arguments."""
        row = {
            "id": self.call.id,
            "tool": self.call.tool,
            "client": self.call.client or None,
            "workspace": self.workspace,
            "root": self.root,
            "host": self.host,
            "since": int(self.call.since * 1000),
            "until": int(self.call.until * 1000),
            "waits": self.call.waits,
        }
        return {**row, "question": self.call.question} if with_question else row


def is_named(identity: str, text: str) -> bool:
    """Whether a text is an id, or its beginning behind the name of the same host."""
    host, _, mine = identity.rpartition(BEFORE_ID)
    named_host, _, beginning = text.rpartition(BEFORE_ID)
    is_long_enough = len(beginning) >= SHORT_ID
    return host == named_host and (beginning == mine or (is_long_enough and mine.startswith(beginning)))


def id_here(host: str | None, identity: str) -> str:
    """The id by which a call is named here."""
    return identity if host is None else f"{host}{BEFORE_ID}{identity}"
