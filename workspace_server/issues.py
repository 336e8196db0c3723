"""What is wrong with the lists a workspace server gives: issues, as values (T-21).

An issue never stops anything; it travels beside the list it is about and in the health answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning"]
Category = Literal["tools/list", "source", "script", "policy", "names", "schema", "trust", "config"]


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing a person should know about. `code` is a fixed word in capitals, `message` is for reading."""

    level: Level
    category: Category
    code: str
    message: str
    tool_name: str | None = None
    details: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The issue on the wire, absent members left out."""
        members: dict[str, Any] = {
            "level": self.level,
            "category": self.category,
            "code": self.code,
            "message": self.message,
            "toolName": self.tool_name,
            "details": self.details,
        }
        return {key: value for key, value in members.items() if value is not None}
