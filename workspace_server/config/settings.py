"""Checks the settings that TOML and editor files share: scope, `tools.*`, `debug`, those of features. Pure.

Invalid values are left out with a warning; those of rules that hide tools
hide what they name, else every tool, and never nothing.
`combine.py` decides which file takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Final, Literal

import msgspec

from lm_tools_bridge.text.near_names import near
from workspace_server.config.file_issues import FileIssues, display_name
from workspace_server.config.formats.fields import ConfigValueError, choice
from workspace_server.config.grouping import rules_from
from workspace_server.features import parts

_BETWEEN_NAMES: Final = re.compile(r"[,;\s]+")
# An issue is one line of a list; the rest is counted.
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


def read_closing_rule(value: object) -> ClosingRule:
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


def report_closing_rule(notes: FileIssues, key: str, reason: str, rule: ClosingRule) -> None:
    """Report a rule that cannot be read, with its line."""
    notes.error("CONFIG_INVALID_VALUE", f"{reason}; {rule.effect}", key=key)


Settings = Mapping[str, Any]
"""Checked values by key, e.g. `tools.exposedDelta`; missing keys are absent."""

USE_WORKSPACE: Final = "useWorkspaceSettings"
DELTAS: Final = {
    "exposed": "tools.exposedDelta",
    "unexposed": "tools.unexposedDelta",
    "enabled": "tools.enabledDelta",
    "disabled": "tools.disabledDelta",
}
"""The keys of the four delta lists, by the names of the fields of `PolicyDeltas`."""
CLOSING: Final = frozenset({DELTAS["unexposed"], DELTAS["disabled"]})
"""The lists that hide tools: an invalid one never opens what it should hide."""
CLOSED: Final = "closed"
"""Set, beside the keys of the files, if a rule that hides tools cannot be read."""
UNCLEAR_SCOPE: Final = "unclear scope"
"""Set, beside the keys of the files, if `useWorkspaceSettings` cannot be read."""
_UNCLEAR_EFFECT: Final = (
    "until it is corrected, only tools that both your settings and the project's offer can be called"
)
SCHEMA_DEFAULTS: Final = "tools.schemaDefaults"
GROUPING_RULES: Final = "tools.groupingRules"
DEBUG: Final = "debug"
OBSOLETE: Final[tuple[str, ...]] = ("tools.enabled", "tools.blacklist", "tools.blacklistPatterns")
_KNOWN: Final = frozenset(
    {*DELTAS.values(), *OBSOLETE, SCHEMA_DEFAULTS, GROUPING_RULES, USE_WORKSPACE, DEBUG}
)


@cache
def known_keys() -> frozenset[str]:
    """All keys, also those of features."""
    return _KNOWN.union(*(part.checks for part in parts().values()))


def check_settings(values: Mapping[str, Any], notes: FileIssues) -> Settings:
    """The known keys of `values` with checked values; other keys are ignored.

    Args:
        values: decoded values by full key.
        notes: receives a warning for each invalid value, and one for obsolete keys.
    """
    found: dict[str, Any] = {}
    of_features = [part.checks for part in parts().values()]
    for key, check in chain(*(checks.items() for checks in (_CHECKS, *of_features))):
        if key in values:
            try:
                found[key] = check(key, values[key], notes)
            except ConfigValueError as reason:
                if key == USE_WORKSPACE:
                    found[UNCLEAR_SCOPE] = True
                    notes.error("CONFIG_INVALID_VALUE", f"{reason}; {_UNCLEAR_EFFECT}", key=key)
                elif key in CLOSING:
                    report_closing_rule(notes, key, str(reason), _close(found, key, values[key]))
                else:
                    notes.warn("CONFIG_INVALID_VALUE", f"{reason}; it is ignored", key=key)
    for key, meant in misspelt_rules(values).items():
        why = f'"{display_name(key)}" is unknown; did you mean {meant}?'
        report_closing_rule(notes, key, why, _close(found, meant, values[key]))
    for key in misspelt_scope(values):
        why = f'"{display_name(key)}" is unknown; did you mean {USE_WORKSPACE}?'
        found[UNCLEAR_SCOPE] = True
        notes.error("CONFIG_INVALID_VALUE", f"{why}; {_UNCLEAR_EFFECT}", key=key)
    obsolete = [key for key in OBSOLETE if key in values]
    if obsolete:
        notes.warn("CONFIG_OBSOLETE_KEY", f"{', '.join(obsolete)}: no longer used; see tools.enabledDelta")
    return found


def misspelt_rules(keys: Iterable[str]) -> Mapping[str, str]:
    """The unknown keys that are spellings of a rule that hides tools, each with that rule's key."""
    known = known_keys()
    others = known - CLOSING
    found = {key: misspelt(key, CLOSING, others) for key in keys if key not in known}
    return {key: meant for key, meant in found.items() if meant is not None and key.startswith("tools.")}


def misspelt_scope(values: Mapping[str, Any]) -> Sequence[str]:
    """The unknown keys that are spellings of `useWorkspaceSettings` and may mean that it is true."""
    known = known_keys()
    others = known - {USE_WORKSPACE}
    unknown = (key for key, value in values.items() if key not in known and value is not False)
    return [key for key in unknown if misspelt(key, {USE_WORKSPACE}, others) is not None]


def _close(found: dict[str, Any], key: str, value: object) -> ClosingRule:
    """Put an invalid rule into force: the tools that it names are hidden, or all of them."""
    rule = read_closing_rule(value)
    found[key] = tuple(sorted({*found.get(key, ()), *rule.names}))
    if rule.is_unreadable:
        found[CLOSED] = True
    return rule


def check_flag(key: str, value: object, notes: FileIssues) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise ConfigValueError(f'"{key}" must be true or false')
    return value


def check_names(key: str, value: object, notes: FileIssues) -> tuple[str, ...]:
    """Strings, sorted, each once."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ConfigValueError(f'"{key}" must be an array of strings')
    return tuple(sorted({name.strip() for name in value} - {""}))


def _schema_defaults(key: str, value: object, notes: FileIssues) -> tuple[SchemaDefault, ...]:
    if not isinstance(value, list):
        raise ConfigValueError(f'"{key}" must be an array of strings')
    found = []
    for entry in value:
        parsed = parse(entry) if isinstance(entry, str) else None
        if parsed is None:
            shown = display_name(entry.partition("=")[0]) if isinstance(entry, str) else "?"
            notes.warn("CONFIG_SCHEMA_DEFAULT", f'"{shown}" in {key} is not tool.param=value; it is ignored')
        else:
            found.append(parsed)
    return tuple(found)


def _debug(key: str, value: object, notes: FileIssues) -> str:
    return str(choice(key, value, Literal["off", "simple", "detail"]))


_CHECKS: Final[Mapping[str, Callable[[str, Any, FileIssues], Any]]] = {
    USE_WORKSPACE: check_flag,
    **dict.fromkeys(DELTAS.values(), check_names),
    SCHEMA_DEFAULTS: _schema_defaults,
    GROUPING_RULES: rules_from,
    DEBUG: _debug,
}


# A value is a `"quoted"` string, `true` or `false` in any case, a number, or `{a,b}`, an array of these.

SchemaDefault = tuple[str, str, Any]
"""Tool, parameter, value."""

_NUMBER: Final = re.compile(r"-?(?:\d+|\d*\.\d+)(?:[eE][+-]?\d+)?")
_ELEMENT: Final = re.compile(r'\s*("(?:\\.|[^"\\])*+"|[^",{}]*)\s*(,|\Z)', re.DOTALL)
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*+"', re.DOTALL)
# Characters: no number that a person writes is longer.
_MAX_NUMBER: Final = 64


def parse(entry: str) -> SchemaDefault | None:
    """The parts of the entry, or None if its syntax is invalid."""
    key, equals, written = entry.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or len(parts) != 2 or not all(parts):
        return None
    try:
        return parts[0], parts[1], _value(written.strip())
    except ValueError:
        return None


def _value(written: str) -> Any:
    if written.startswith("{") and written.endswith("}"):
        return _array(written[1:-1])
    return _scalar(written)


def _scalar(written: str) -> str | bool | int | float:
    if _QUOTED.fullmatch(written) is not None:
        return _unquoted(written)
    if written.lower() in ("true", "false"):
        return written.lower() == "true"
    if len(written) > _MAX_NUMBER or _NUMBER.fullmatch(written) is None:
        raise ValueError(written)
    number = float(written)
    if number in (float("inf"), float("-inf")):
        raise ValueError(written)
    return int(written) if written.lstrip("-").isdigit() else number


def _unquoted(written: str) -> str:
    """The text between the quotes, with JSON escapes; taken literally if these are invalid (a path)."""
    try:
        return msgspec.json.decode(written, type=str)
    except msgspec.DecodeError:
        return written[1:-1]


def _array(inside: str) -> list[str | bool | int | float]:
    found = []
    position = 0
    while inside.strip():
        element = _ELEMENT.match(inside, position)
        if element is None:
            raise ValueError(inside)
        if element[1].strip():  # empty elements are skipped
            found.append(_scalar(element[1].strip()))
        position = element.end()
        if not element[2]:
            break
    return found
