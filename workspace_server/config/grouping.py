"""Sorts tools into groups for display; groups have no other effect. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from workspace_server.config.file_issues import FileIssues, display_name
from workspace_server.config.formats.fields import ConfigValueError
from workspace_server.config.model import GroupingRule

# Each rule is tried on each tool: with thousands of tools, more rules would delay each list.
MAX_RULES: Final = 100
MAX_PATTERN: Final = 256
FLAGS: Final = "imsu"
DEFAULT_RULES: Final = (
    GroupingRule("angelscript", "AngelScript", "^angelscript_"),
    GroupingRule("clangd", "clangd", "^lm_clangd_"),
)
"""The rules if none are configured."""
BUILT_IN_DISABLED: Final = "builtin_disabled"


@dataclass(frozen=True, slots=True)
class Group:
    """One group. `parent` is `builtin_disabled` for groups of tools that are never offered."""

    id: str
    label: str
    parent: str | None = None


_CUSTOM: Final = Group("custom", "Custom tools")
_COPILOT: Final = Group("copilot", "Copilot tools")
_VSCODE: Final = Group("vscode", "VS Code tools")
_OTHER: Final = Group("other", "Other tools")


class Grouping:
    """Sorts tools into groups by the rules; the first that matches a name wins."""

    def __init__(self, rules: Iterable[GroupingRule]) -> None:
        self._rules = [(rule, matches) for rule in rules if (matches := _compiled(rule)) is not None]

    def group(self, name: str, kind: str, disabled: Collection[str] = ()) -> Group:
        """The group of one tool.

        Args:
            name: the offered name.
            kind: the kind of its source; only an editor's tools have groups of their own.
            disabled: the built-in disabled names.
        """
        group = self._of_rule(name) or _by_origin(name, kind)
        if name not in disabled:
            return group
        return Group(f"{BUILT_IN_DISABLED}_{group.id}", group.label, BUILT_IN_DISABLED)

    def _of_rule(self, name: str) -> Group | None:
        for rule, matches in self._rules:
            if matches(name):
                return Group(f"custom_rule:{rule.id}", rule.label)
        return None


def rules_from(key: str, value: object, notes: FileIssues) -> tuple[GroupingRule, ...]:
    """The valid rules of a decoded setting, with a warning for each invalid one.

    Raises:
        ConfigValueError: the setting is not an array.
    """
    if not isinstance(value, list):
        raise ConfigValueError(f'"{key}" must be an array')
    if len(value) > MAX_RULES:
        notes.warn("CONFIG_GROUPING_RULE", f"only the first {MAX_RULES} grouping rules are used")
    rules: dict[str, GroupingRule] = {}
    for position, entry in enumerate(value[:MAX_RULES]):
        try:
            rule = _rule(entry, rules, notes)
            rules[rule.id] = rule
        except ConfigValueError as reason:
            notes.warn("CONFIG_GROUPING_RULE", f"grouping rule {position + 1} is ignored: {reason}")
    return tuple(rules.values())


def _rule(entry: object, rules: Mapping[str, GroupingRule], notes: FileIssues) -> GroupingRule:
    values: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    texts = [values.get(key) for key in ("id", "label", "pattern")]
    flags = values.get("flags", "")
    if not all(isinstance(text, str) and text.strip() for text in texts) or not isinstance(flags, str):
        raise ConfigValueError("it needs the strings id, label and pattern")
    identity, label, pattern = (str(text) for text in texts)
    ordered_flags = "".join(flag for flag in FLAGS if flag in flags)
    if identity in rules:
        raise ConfigValueError(f'the id "{display_name(identity)}" is already used')
    if len(pattern) > MAX_PATTERN:
        raise ConfigValueError(f"its pattern is longer than {MAX_PATTERN} characters")
    rule = GroupingRule(identity, display_name(label), pattern, ordered_flags)
    if _compiled(rule) is None:
        raise ConfigValueError("its pattern is not a regular expression")
    if set(flags) - set(FLAGS):
        notes.warn(
            "CONFIG_GROUPING_RULE",
            f'grouping rule "{display_name(identity)}": flags other than i, m, s and u are ignored',
        )
    return rule


def _compiled(rule: GroupingRule) -> Callable[[str], bool] | None:
    """A function that matches names; None for an invalid pattern.

    Uses the schema validator's engine, because its matching time is bounded for every pattern.
    """
    import jsonschema_rs  # few people set rules, and it takes 25 ms to load

    flags = rule.flags.replace("u", "")  # Unicode matching is always on
    pattern = f"(?{flags})(?:{rule.pattern})" if flags else rule.pattern
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1_000_000)
    try:
        engine = jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError):
        return None
    return engine.is_valid


def _by_origin(name: str, kind: str) -> Group:
    if kind != "editor":
        return _CUSTOM
    if name.startswith(("copilot_", "lm_copilot_")):
        return _COPILOT
    return _VSCODE if name else _OTHER
