"""Lists what of a status waits for a person, in words that are safe anywhere: no arguments, no output. Pure.

For notifications, the bell of `lmtb top` and `lmtb status`. The page shows the same with details.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from lm_tools_bridge.protocol.internal.source_states import BROKEN
from manager.status_reading.responses import merged_workspaces, objects, pending

Kind = Literal["approval", "trust", "login", "failed"]
_FAILED_SERVERS: Final = frozenset({"unhealthy", "crash_looping"})
MAX_NAME: Final = 60
"""Longest name in a text, in characters."""


class Attention(NamedTuple):
    """One thing that waits for a person.

    Attributes:
        key: equal for the same thing at another time.
        text: one sentence.
        next_step: a command.
    """

    kind: Kind
    key: str
    text: str
    next_step: str


def attention(status: Mapping[str, Any]) -> list[Attention]:
    """What waits for a person: approvals first."""
    return [*_approvals(status), *_of_workspaces(status)]


def approval_text(call: Mapping[str, Any]) -> str:
    """A call that waits for approval, as one sentence."""
    there = f" on {_name(call.get('host'))}" if call.get("host") else ""
    return (
        f"{_name(call.get('tool'))} waits for your approval, in {_name(call.get('workspace'))}{there}, "
        f"called by {_name(call.get('client') or 'an unnamed client')}"
    )


def _approvals(status: Mapping[str, Any]) -> Iterator[Attention]:
    for call in objects(status, "approvals"):
        yield Attention("approval", f"approval {call.get('id')}", approval_text(call), "lmtb approvals")


def _of_workspaces(status: Mapping[str, Any]) -> Iterator[Attention]:
    for row in merged_workspaces(status):
        project = _name(row.get("workspace"))
        if row.get("state") in _FAILED_SERVERS:
            yield Attention(
                "failed", f"server {project}", f"the server of {project} does not work", "lmtb doctor"
            )
        for source in objects(row, "sources"):
            name, state = _name(source.get("id")), source.get("state")
            if state == "auth_required":
                text = f"{name} of {project} needs you to sign in"
                yield Attention("login", f"login {project} {name}", text, "lmtb servers")
            elif state in BROKEN:
                text = f"{name} of {project} has failed"
                yield Attention("failed", f"source {project} {name}", text, "lmtb servers")
        count = sum(map(len, pending(row).values()))
        if count:
            things = "1 item waits" if count == 1 else f"{count} items wait"
            yield Attention(
                "trust", f"trust {project} {count}", f"{things} for your trust in {project}", "lmtb trust"
            )


def _name(value: object) -> str:
    """A name in one line, without characters that are not printable."""
    text = "".join(character if character.isprintable() else "?" for character in str(value))
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"
