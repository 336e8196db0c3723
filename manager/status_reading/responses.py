"""Reads answers of the manager and servers: lists of objects, issues, items that wait for trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TRUST_PENDING: Final = "TRUST_PENDING"
"""The code of issues that wait for the user's trust; their details are the command that gives it."""


def json_object(answer: bytes) -> dict[str, Any] | None:
    """The object that a server answered; None if it is none: a registered server may answer anything."""
    import msgspec  # noqa: PLC0415  most verbs do not need it

    try:
        found = msgspec.json.decode(answer)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def objects(status: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    """The objects in a list of the status; [] if the manager (of another version) sends none."""
    value = status.get(member)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def pending(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """Items that wait for trust: the command that trusts them -> their messages, without duplicates."""
    found: dict[str, dict[str, None]] = {}
    for issue in objects(answer, "issues"):
        if issue.get("code") == TRUST_PENDING:
            found.setdefault(str(issue.get("details") or "lmtb trust"), {})[str(issue.get("message"))] = None
    return {command: list(messages) for command, messages in found.items()}


def issue_text(issue: Mapping[str, Any]) -> str:
    """An issue as a sentence."""
    details = issue.get("details")
    return f"{issue.get('message')} ({details})" if details else f"{issue.get('message')}"


def first_sentence(description: object) -> str:
    """The beginning of a description, on one line."""
    text = " ".join(description.split()) if isinstance(description, str) else ""
    return text.split(". ", 1)[0].removesuffix(".")
