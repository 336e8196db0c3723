"""Removes members that no client could read from the entries of a server's lists. Pure.

Clients read a list as a whole: one description that is a number, or a resource without a name, hides every
tool or resource of every server from them. Only members that MCP defines are looked at; others stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from workspace_server.sources.mcp.lists.kinds import PROMPTS, RESOURCES, TEMPLATES, TOOLS, ListKind

Fits = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class _Object:
    """An object: what its known members have to be, and the member without which it means nothing."""

    members: Mapping[str, _Rule] = field(default_factory=dict)
    required: str | None = None


@dataclass(frozen=True, slots=True)
class _List:
    """A list whose entries follow one rule."""

    entry: _Rule


_Rule = Fits | _Object | _List
_GONE: Final = object()
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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


def _one_of(*words: str) -> Fits:
    return lambda value: isinstance(value, str) and value in words


_ANYTHING: Final = _Object()
_ICONS: Final = _List(
    _Object(
        {"src": _is_text, "mimeType": _is_text, "sizes": _List(_is_text), "theme": _one_of("light", "dark")},
        "src",
    )
)
_COMMON: Final[Mapping[str, _Rule]] = {
    "title": _is_text, "description": _is_text, "icons": _ICONS, "_meta": _ANYTHING,
}  # fmt: skip
_HINTS: Final = _Object(
    {"title": _is_text, "readOnlyHint": _is_flag, "destructiveHint": _is_flag, "idempotentHint": _is_flag,
     "openWorldHint": _is_flag}
)  # fmt: skip
_FOR_CONTENT: Final[Mapping[str, _Rule]] = {
    **_COMMON,
    "name": _is_text,
    "mimeType": _is_text,
    "annotations": _Object(
        {
            "audience": _List(_one_of("user", "assistant")),
            "priority": _is_priority,
            "lastModified": _is_date_time,
        }
    ),
}
_ARGUMENTS: Final = _List(
    _Object({"name": _is_text, "title": _is_text, "description": _is_text, "required": _is_flag}, "name")
)
_RULES: Final[Mapping[ListKind, _Object]] = {
    TOOLS: _Object(
        {**_COMMON, "annotations": _HINTS, "outputSchema": _ANYTHING,
         "execution": _Object({"taskSupport": _one_of("forbidden", "optional", "required")})}
    ),
    PROMPTS: _Object({**_COMMON, "arguments": _ARGUMENTS}),
    RESOURCES: _Object({**_FOR_CONTENT, "size": _is_size}),
    TEMPLATES: _Object(_FOR_CONTENT),
}  # fmt: skip
"""As the schemas of MCP 2025-11-25 and 2026-07-28. `catalog/listing.py` checks input schemas."""


def repaired(
    definition: Mapping[str, Any], kind: ListKind, name: str
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """A definition that clients can read, and the members that were removed.

    A member that is null is one that is absent, as many servers write it. A resource or template without a
    name gets `name`.
    """
    removed: list[str] = []
    kept: Mapping[str, Any] = _kept(definition, _RULES[kind], "", removed)
    if "name" in _RULES[kind].members and "name" not in kept:
        kept = {**kept, "name": name}
    return kept, tuple(removed)


def _kept(value: Any, rule: _Rule, path: str, removed: list[str]) -> Any:
    """What of a value fits its rule: itself if all does, `_GONE` if nothing does."""
    if isinstance(rule, _Object):
        fitting = _object(value, rule, path, removed) if isinstance(value, dict) else _GONE
    elif isinstance(rule, _List):
        fitting = _list(value, rule, path, removed) if isinstance(value, list) else _GONE
    else:
        fitting = value if rule(value) else _GONE
    if fitting is _GONE and value is not None:
        removed.append(path)
    return fitting


def _object(value: dict[str, Any], rule: _Object, path: str, removed: list[str]) -> Any:
    fitting: dict[str, Any] = {}
    for name in value.keys() & rule.members.keys():
        fitting[name] = _kept(value[name], rule.members[name], f"{path}.{name}" if path else name, removed)
    if rule.required is not None and fitting.get(rule.required, _GONE) is _GONE:
        return _GONE
    if all(fitting[name] is value[name] for name in fitting):
        return value
    return {name: own for name, one in value.items() if (own := fitting.get(name, one)) is not _GONE}


def _list(value: list[Any], rule: _List, path: str, removed: list[str]) -> list[Any]:
    fitting = [_kept(one, rule.entry, f"{path}[{place}]", removed) for place, one in enumerate(value)]
    if all(one is own for one, own in zip(fitting, value, strict=True)):
        return value
    return [one for one in fitting if one is not _GONE]
