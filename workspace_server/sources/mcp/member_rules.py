"""Rules for the members of JSON objects of other servers, and what of a value fits its rule. Pure.

Only members that a rule names are looked at; others stay, because newer clients may know them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

Fits = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class ObjectRule:
    """An object: what its known members have to be, and those without which it means nothing."""

    members: Mapping[str, Rule] = field(default_factory=dict)
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListRule:
    """A list whose entries follow one rule."""

    entry: Rule


Rule = Fits | ObjectRule | ListRule
GONE: Final = object()
"""Stands for a value of which nothing fits its rule."""
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


def is_text(value: object) -> bool:
    """Whether it is a string."""
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    """Whether it is true or false."""
    return isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Whether it is a number without a fraction."""
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


def one_of(*words: str) -> Fits:
    """A rule for one of these strings."""
    return lambda value: isinstance(value, str) and value in words


def _is_priority(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_date_time(value: object) -> bool:
    """Whether it is a date with time and zone; the TypeScript SDK refuses any other."""
    if not isinstance(value, str) or not _DATE_TIME.match(value):
        return False
    try:
        datetime.fromisoformat(value[:19])
    except ValueError:
        return False
    return True


ANYTHING: Final = ObjectRule()
"""Any object."""
ICONS: Final = ListRule(
    ObjectRule(
        {"src": is_text, "mimeType": is_text, "sizes": ListRule(is_text), "theme": one_of("light", "dark")},
        ("src",),
    )
)
ANNOTATIONS: Final = ObjectRule(
    {
        "audience": ListRule(one_of("user", "assistant")),
        "priority": _is_priority,
        "lastModified": _is_date_time,
    }
)
"""Those of resources and of content."""


def fitting(value: Any, rule: Rule, path: str, removed: list[str]) -> Any:
    """What of a value fits its rule: itself if all does, `GONE` if nothing does.

    Args:
        value: decoded JSON.
        rule: what it has to be.
        path: where it stands, for `removed`.
        removed: gets the places of all members that do not fit. Those that are null are only left out: many
            servers write them for absent ones.
    """
    if isinstance(rule, ObjectRule):
        fitting_part = _object(value, rule, path, removed) if isinstance(value, dict) else GONE
    elif isinstance(rule, ListRule):
        fitting_part = _list(value, rule, path, removed) if isinstance(value, list) else GONE
    else:
        fitting_part = value if rule(value) else GONE
    if fitting_part is GONE and value is not None:
        removed.append(path)
    return fitting_part


def _object(value: dict[str, Any], rule: ObjectRule, path: str, removed: list[str]) -> Any:
    members: dict[str, Any] = {}
    for name in value.keys() & rule.members.keys():
        members[name] = fitting(value[name], rule.members[name], f"{path}.{name}" if path else name, removed)
    if any(members.get(name, GONE) is GONE for name in rule.required):
        return GONE
    if all(members[name] is value[name] for name in members):
        return value
    return {name: own for name, member in value.items() if (own := members.get(name, member)) is not GONE}


def _list(value: list[Any], rule: ListRule, path: str, removed: list[str]) -> list[Any]:
    entries = [fitting(entry, rule.entry, f"{path}[{place}]", removed) for place, entry in enumerate(value)]
    if all(entry is own for entry, own in zip(value, entries, strict=True)):
        return value
    return [own for own in entries if own is not GONE]
