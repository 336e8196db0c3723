"""Near matches are other spellings of the same deed, never another deed."""

from __future__ import annotations

import pytest

from workspace_server.catalog.near_names import near_names

KNOWN = [
    ("git__git_create_branch", "git_create_branch"),
    ("git__git_status", "git_status"),
    ("memory__read_graph", "read_graph"),
    ("lm_findTextInFiles", "lm_findTextInFiles"),
    ("calculator", "calculator"),
    ("set_value", "set_value"),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("git__git_statsu", ["git__git_status"]),
        ("git__status", ["git__git_status"]),
        ("memroy__read_graph", ["memory__read_graph"]),
        ("read_graph", ["memory__read_graph"]),
        ("readGraph", ["memory__read_graph"]),
        ("readgraph", ["memory__read_graph"]),
        ("lm_find_text", ["lm_findTextInFiles"]),
        ("CALCULATER", ["calculator"]),
    ],
)
def test_another_spelling_finds_the_tool(name: str, found: list[str]) -> None:
    assert near_names(name, KNOWN) == found


@pytest.mark.parametrize(
    "name", ["unset__read_grid", "delete_branch", "git__git_delete_branch", "get_value", "zzz", "__", ""]
)
def test_another_deed_is_not_suggested(name: str) -> None:
    assert near_names(name, KNOWN) == []


def test_a_tool_of_another_namespace_is_suggested_only_by_its_own_name() -> None:
    without = [one for one in KNOWN if one[1] != "read_graph"]
    assert near_names("unset__read_graph", KNOWN) == ["memory__read_graph"]
    assert near_names("unset__read_graph", without) == []


def test_a_long_name_is_compared_by_its_beginning() -> None:
    assert near_names("y" * 100_000, KNOWN) == []
