"""Tools are sorted into groups for display."""

from __future__ import annotations

import time

import pytest

from workspace_server.config import policy
from workspace_server.config.grouping import DEFAULT_RULES, Grouping
from workspace_server.config.model import GroupingRule


@pytest.mark.parametrize(
    ("name", "kind", "identity", "parent"),
    [
        ("angelscript_run", "stdio", "custom_rule:angelscript", None),
        ("lm_clangd_status", "language-server", "custom_rule:clangd", None),
        ("gh__list", "stdio", "custom", None),
        ("copilot_searchCodebase", "editor", "copilot", None),
        ("foo", "editor", "vscode", None),
        ("run_in_terminal", "editor", "builtin_disabled_vscode", "builtin_disabled"),
        ("copilot_readFile", "editor", "builtin_disabled_copilot", "builtin_disabled"),
    ],
)
def test_the_group_of_a_tool(name: str, kind: str, identity: str, parent: str | None) -> None:
    group = Grouping(DEFAULT_RULES).group(name, kind, policy.BUILT_IN_DISABLED)
    assert (group.id, group.parent) == (identity, parent)


def test_the_first_rule_that_matches_wins_also_for_disabled_names() -> None:
    rules = [GroupingRule("one", "1", "TERMINAL$", "i"), GroupingRule("two", "2", "run")]
    grouping = Grouping(rules)
    assert grouping.group("run_in_terminal", "editor").id == "custom_rule:one"
    disabled = grouping.group("run_in_terminal", "editor", policy.BUILT_IN_DISABLED)
    assert disabled.id == "builtin_disabled_custom_rule:one"
    assert grouping.group("runner", "stdio").id == "custom_rule:two"


def test_matching_time_is_bounded_for_every_pattern() -> None:
    rules = [GroupingRule("x", "x", r"^(a+)+$"), GroupingRule("y", "y", r"(?=(a*)*b)\1c")]
    started = time.thread_time()
    assert Grouping(rules).group("a" * 63 + "!", "stdio").id == "custom"
    assert time.thread_time() - started < 2
