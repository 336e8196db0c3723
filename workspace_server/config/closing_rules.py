"""Reads invalid rules that hide tools: they hide what they name, else every tool, and never nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.text.near_names import near
from workspace_server.config.file_issues import FileIssues, display_name

_BETWEEN_NAMES: Final = re.compile(r"[,;\s]+")
_SHOWN: Final = 5
_LIKE_A_RULE: Final = 0.75
"""Similarity from which an unknown key is taken for a misspelt rule."""


@dataclass(frozen=True, slots=True)
class ClosingRule:
    """What an invalid rule hides: the tools it names; `is_unreadable` if they cannot be known."""

    names: tuple[str, ...]
    is_unreadable: bool = False

    @property
    def effect(self) -> str:
        """What holds until the rule is corrected."""
        if self.is_unreadable:
            return "until it is corrected, no tool can be called"
        names = ", ".join(display_name(name) for name in self.names[:_SHOWN])
        more = len(self.names) - _SHOWN
        return f"until it is corrected, it hides {names}{f' and {more} more' if more > 0 else ''}"


def read(value: object) -> ClosingRule:
    """What a value of any type hides: the names in a string or an array of strings, else all tools."""
    if isinstance(value, str):
        return ClosingRule(tuple(name for name in _BETWEEN_NAMES.split(value) if name))
    if not isinstance(value, list):
        return ClosingRule((), is_unreadable=True)
    names = tuple(one for one in value if isinstance(one, str))
    return ClosingRule(names, is_unreadable=len(names) < len(value))


def misspelt(key: str, rules: Iterable[str], others: Iterable[str]) -> str | None:
    """The rule that hides tools of which this unknown key is a spelling; None if another key is nearer."""
    rules = tuple(rules)
    matches = near(key, (*rules, *others), cutoff=_LIKE_A_RULE)
    return matches[0] if matches and matches[0] in rules else None


def report(notes: FileIssues, key: str, reason: str, rule: ClosingRule) -> None:
    """Report a rule that cannot be read, with its line."""
    notes.error("CONFIG_INVALID_VALUE", f"{reason}; {rule.effect}", key=key)
