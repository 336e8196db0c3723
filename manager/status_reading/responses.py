"""Reads answers of the manager and servers: workspaces, issues, items that wait for trust, lines of logs."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_SHOWN_FIRST: Final = ("timestamp", "level", "event")


def parsed(line: str) -> dict[str, Any]:
    """The fields of a line; none if it is no entry, such as a line of a traceback."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def formatted(line: str) -> str:
    """A line as people read it: time, level, event, fields."""
    fields = parsed(line)
    if not fields:
        return line
    head = " ".join(str(fields.pop(name, "-")) for name in _SHOWN_FIRST)
    return " ".join([head, *(f"{name}={value}" for name, value in fields.items())])


TRUST_PENDING: Final = "TRUST_PENDING"
"""The code of issues that wait for the user's trust; their details are the command that gives it."""


def json_object(answer: bytes) -> dict[str, Any] | None:
    """The object that a server answered; None if it is none: a registered server may answer anything."""
    import msgspec  # noqa: PLC0415  most verbs do not need it

    try:
        decoded = msgspec.json.decode(answer)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def objects(status: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    """The objects in a list of the status; [] if the manager (of another version) sends none."""
    value = status.get(member)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def pending(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """Items that wait for trust: the command that trusts them -> their messages, without duplicates."""
    names: dict[str, dict[str, None]] = {}
    for issue in objects(answer, "issues"):
        if issue.get("code") == TRUST_PENDING:
            names.setdefault(str(issue.get("details") or "lmtb trust"), {})[str(issue.get("message"))] = None
    return {command: list(messages) for command, messages in names.items()}


def issue_text(issue: Mapping[str, Any]) -> str:
    """An issue as a sentence."""
    details = issue.get("details")
    return f"{issue.get('message')} ({details})" if details else f"{issue.get('message')}"


def first_sentence(description: object) -> str:
    """The beginning of a description, on one line."""
    text = " ".join(description.split()) if isinstance(description, str) else ""
    return text.split(". ", 1)[0].removesuffix(".")


def merged_workspaces(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each known workspace merged with its server; servers without a known workspace last."""
    servers: dict[object, list[dict[str, Any]]] = {}
    for one in objects(status, "instanceDetails"):
        servers.setdefault(one.get("workspace"), []).append(one)
    rows = [
        {**workspace, **server, "workspace": workspace.get("id")}
        for workspace in objects(status, "workspaceDetails")
        for server in servers.pop(workspace.get("id"), [{}])
    ]
    return rows + [one for rest in servers.values() for one in rest]


def is_gone(row: Mapping[str, Any]) -> bool:
    """Whether this workspace has no server, and its folder does not exist: it was deleted or moved."""
    root = row.get("root")
    if row.get("state") != "stopped" or not isinstance(root, str):
        return False
    try:
        return not stat.S_ISDIR(Path(root).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # nobody knows
        return False
