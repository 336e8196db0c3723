"""Issues: problems with a workspace's tools, resources or configuration, sent beside its lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Level = Literal["error", "warning"]


class Issue(msgspec.Struct, frozen=True):
    """One problem.

    `code` is a fixed word in capitals, `message` is for people, `details` is text from elsewhere (an error
    message).
    """

    level: Level
    category: str
    code: str
    message: str
    tool_name: str | None = None
    details: str | None = None

    @property
    def order(self) -> tuple[bool, str, str, str]:
        """Sort key: errors first, then by category, tool and code."""
        return (self.level != "error", self.category, self.tool_name or "", self.code)

    def as_json(self) -> dict[str, str]:
        """The issue as JSON object, without absent members."""
        members = {
            "level": self.level,
            "category": self.category,
            "code": self.code,
            "message": self.message,
            "toolName": self.tool_name,
            "details": self.details,
        }
        return {key: value for key, value in members.items() if value is not None}


def issues_from(value: object) -> list[Issue]:
    """The well-formed issues in a decoded JSON value."""
    issues: list[Issue] = []
    for entry in value if isinstance(value, list) else []:
        # a tuple, not a set: the level may be an unhashable list or object
        if not isinstance(entry, Mapping) or entry.get("level") not in ("error", "warning"):
            continue
        texts = {key: entry.get(key) for key in ("category", "code", "message", "toolName", "details")}
        if all(isinstance(texts[key], str) for key in ("category", "code", "message")):
            tool = texts["toolName"] if isinstance(texts["toolName"], str) else None
            details = texts["details"]
            issues.append(
                Issue(
                    entry["level"],
                    str(texts["category"]),
                    str(texts["code"]),
                    str(texts["message"]),
                    tool,
                    details if isinstance(details, str) or details is None else str(details),
                )
            )
    return issues
