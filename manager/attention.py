"""Lists what waits for a person in a status: approvals, trust, logins, failures. Pure.

It is worded so that it is safe anywhere: no arguments, no output. The notifications, the bell of `lmtb top`
and `lmtb status` use these words; the page adds details.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from lm_tools_bridge.protocol.internal.source_states import BROKEN
from manager.status_reading import (
    group_worktrees,
    merged_workspaces,
    names_of_projects,
    objects,
    pending,
    with_others,
)

Kind = Literal["approval", "trust", "login", "failed"]
# states that end by no waiting
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


def attention_items(status: Mapping[str, Any]) -> list[Attention]:
    """What waits for a person: approvals first."""
    names = names_of_projects(status)
    return [*_approvals(status, names), *_of_workspaces(status, names)]


def approval_text(call: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """A call that waits for approval, as one sentence.

    Args:
        names: those of projects, by the ids of their workspaces.
    """
    workspace = str(call.get("workspace"))
    project = _name((names or {}).get(workspace, workspace))
    there = f" on {_name(call.get('host'))}" if call.get("host") else ""
    return (
        f"{_name(call.get('tool'))} waits for your approval, in {project}{there}, "
        f"called by {_name(call.get('client') or 'an unnamed client')}"
    )


def _approvals(status: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Attention]:
    for call in objects(status, "approvals"):
        text = approval_text(call, names)
        yield Attention("approval", f"approval {call.get('id')}", text, "lmtb approvals")


def _of_workspaces(status: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Attention]:
    for row in merged_workspaces(status):
        identity = _name(row.get("workspace"))
        project = _name(names.get(str(row.get("workspace"))))
        if row.get("state") in _FAILED_SERVERS:
            yield Attention(
                "failed", f"server {identity}", f"the server of {project} does not work", "lmtb doctor"
            )
        for source in objects(row, "sources"):
            name, state = _name(source.get("id")), source.get("state")
            if state == "auth_required":
                text = f"{name} of {project} needs you to sign in"
                yield Attention("login", f"login {identity} {name}", text, "lmtb servers")
            elif state in BROKEN:
                text = f"{name} of {project} has failed"
                yield Attention("failed", f"source {identity} {name}", text, "lmtb servers")
    for group in group_worktrees(merged_workspaces(status)):
        yield from _trust_of(group, names)


def _trust_of(group: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[Attention]:
    """What waits for trust in a repository: once for all worktrees in which as much waits."""
    rows_by_count: dict[int, list[Mapping[str, Any]]] = {}
    for row in group:
        rows_by_count.setdefault(sum(map(len, pending(row).values())), []).append(row)
    for count, rows in rows_by_count.items():
        identity = _name(rows[0].get("workspace"))
        project = with_others(_name(names.get(str(rows[0].get("workspace")))), len(rows) - 1)
        things = "1 item waits" if count == 1 else f"{count} items wait"
        if count:
            text = f"{things} for your trust in {project}"
            yield Attention("trust", f"trust {identity} {count}", text, "lmtb trust")


def _name(value: object) -> str:
    """A name in one line, without characters that are not printable."""
    text = "".join(character if character.isprintable() else "?" for character in str(value))
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"
