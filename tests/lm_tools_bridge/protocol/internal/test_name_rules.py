"""What a client needs of the names of tools survives the header that tells it."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol.internal.name_rules import AS_OFFERED, SHORTEST_LIMIT, NameRules, from_header


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        (AS_OFFERED, ""),
        (NameRules(longest=64), ""),
        (NameRules(longest=106), ""),
        (NameRules("_"), "separator=_"),
        (NameRules(longest=43), "longest=43"),
        (NameRules("_", 43), "separator=_, longest=43"),
    ],
)
def test_rules_are_written_where_they_change_names(rules: NameRules, value: str) -> None:
    assert rules.value == value
    assert from_header(value) == (rules if value else AS_OFFERED)


def test_a_limit_that_leaves_no_room_for_a_name_is_raised() -> None:
    assert NameRules(longest=5).value == f"longest={SHORTEST_LIMIT}"
    assert from_header("longest=10") == NameRules(longest=SHORTEST_LIMIT)


@pytest.mark.parametrize("value", ["nonsense", "separator=-", "longest=1000", "longest=4", "separator=_ "])
def test_a_header_that_cannot_be_read_changes_no_name(value: str) -> None:
    assert from_header(value) == AS_OFFERED
