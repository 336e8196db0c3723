"""Clients with rules for names get names that they take, and a call by any of them means one tool."""

from __future__ import annotations

import random
from typing import Final

import pytest

from lm_tools_bridge.protocol.internal.client_traits import NameRules
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.catalog.client_names import ClientNames, near_names
from workspace_server.catalog.registry import OfferedTool
from workspace_server.source import SourceKind

GROK: Final = NameRules("_")
GEMINI: Final = NameRules(longest=43)
BOTH: Final = NameRules("_", 30)
LONG: Final = "github__create_pull_request_review_comment_reply"


def offered(name: str, kind: SourceKind = "stdio") -> OfferedTool:
    source = ScriptedSource()
    source.kind = kind
    return OfferedTool(name, tool(name), source, {"name": name})


def names_of(*tools: str, own: tuple[str, ...] = (), rules: NameRules = GROK) -> ClientNames:
    listed = [*(offered(name) for name in tools), *(offered(name, "builtin") for name in own)]
    return ClientNames(listed, ["memory__", "late__", "late_er__"], rules)


@pytest.mark.parametrize(
    ("name", "shown_names"),
    [
        ("memory__read_graph", "memory_read_graph"),
        ("memory____odd__name", "memory_odd_name"),
        ("plain_name", "plain_name"),
        ("a-b", "a-b"),
    ],
)
def test_names_have_the_separator_that_a_client_takes(name: str, shown_names: str) -> None:
    names = names_of(name)
    assert names.shown_name(name) == shown_names
    assert names.meant(shown_names) == names.meant(name) == [name]
    assert not names.issues


def test_a_long_name_is_shortened_and_both_names_call_the_tool() -> None:
    names = names_of(LONG, "short__name", rules=GEMINI)
    shown_names = names.shown_name(LONG)
    assert len(shown_names) == 43
    assert shown_names.startswith("github__create_pull_request_review")
    assert names.shown_name(LONG) == names_of(LONG, rules=GEMINI).shown_name(LONG)
    assert names.meant(shown_names) == names.meant(LONG) == [LONG]
    assert names.shown_name("short__name") == "short__name"


def test_long_names_that_begin_alike_stay_apart() -> None:
    names = names_of(LONG, LONG + "_2", rules=BOTH)
    first, second = names.shown_name(LONG), names.shown_name(LONG + "_2")
    assert first != second
    assert max(map(len, (first, second))) <= 30
    assert "__" not in first + second


def test_long_names_that_differ_in_the_middle_only_stay_different() -> None:
    ends = ("server__begin_of_", "_and_the_same_end_of_all_of_them")
    tools = [f"{ends[0]}{middle}{ends[1]}" for middle in ("one", "two")]
    names = names_of(*tools, rules=GEMINI)
    assert len({names.shown_name(name) for name in tools}) == 2


def test_names_that_become_equal_are_told_apart_and_a_call_by_the_common_one_is_open() -> None:
    names = names_of("a__b", "a_b", "c__d")
    first, second = names.shown_name("a__b"), names.shown_name("a_b")
    assert len({first, second, "a_b"}) == 3
    assert names.meant(first) == names.meant("a__b") == ["a__b"]
    assert names.meant(second) == ["a_b"]
    assert sorted(names.meant("a_b")) == ["a__b", "a_b"]
    (issue,) = names.issues
    assert issue.code == "TOOL_NAME_CLASH"
    assert first in (issue.details or "")


@pytest.mark.parametrize("name", ["lm__readFile", "tool__search", "lm__newlyAdded"])
def test_no_tool_takes_a_name_of_ours(name: str) -> None:
    names = names_of(name, own=("lm_readFile",))
    assert names.shown_name("lm_readFile") == "lm_readFile"
    assert names.meant("lm_readFile") == ["lm_readFile"]
    assert names.shown_name(name) not in {"lm_readFile", "tool_search", "lm_newlyAdded"}
    assert names.meant(names.shown_name(name)) == names.meant(name) == [name]


def test_a_name_of_a_source_without_a_list_means_its_tool() -> None:
    names = names_of("memory__read_graph")
    assert names.meant("late_tool") == ("late__tool",)
    assert names.meant("late_er_tool") == ("late_er__tool",)
    assert names.meant("late__tool") == ("late__tool",)
    assert names.meant("nobody_has_this") == ("nobody_has_this",)
    similar = ClientNames([], ["a__", "a___"], GROK)
    assert similar.meant("a_tool") == ("a_tool",), "two sources could have it"


@pytest.mark.parametrize("rules", [GROK, GEMINI, BOTH])
def test_whatever_the_names_each_tool_has_its_own_and_no_other_is_called_by_it(rules: NameRules) -> None:
    chance = random.Random(7)
    for _ in range(300):
        parts = [
            "".join(chance.choices("ab_", [4, 4, 5], k=chance.randint(1, 70)))
            for _ in range(chance.randint(1, 12))
        ]
        tools = sorted({part[:64] for part in parts})
        names = names_of(*tools, own=("lm_readFile", "a_b"), rules=rules)
        everything = {*tools, "lm_readFile", "a_b"}
        shown_names = [names.shown_name(name) for name in everything]
        assert len(set(shown_names)) == len(everything)
        for name in everything:
            assert list(names.meant(names.shown_name(name))) == [name]
            assert name in names.meant(name)
            assert len(names.shown_name(name)) <= rules.longest or name in {"lm_readFile", "a_b"}


KNOWN = [
    ("git__git_create_branch", "git_create_branch"),
    ("git__git_status", "git_status"),
    ("memory__read_graph", "read_graph"),
    ("lm_findTextInFiles", "lm_findTextInFiles"),
    ("calculator", "calculator"),
    ("set_value", "set_value"),
]


@pytest.mark.parametrize(
    ("name", "matches"),
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
def test_another_spelling_finds_the_tool(name: str, matches: list[str]) -> None:
    assert near_names(name, KNOWN) == matches


@pytest.mark.parametrize(
    "name", ["unset__read_grid", "delete_branch", "git__git_delete_branch", "get_value", "zzz", "__", ""]
)
def test_another_deed_is_not_suggested(name: str) -> None:
    assert near_names(name, KNOWN) == []


def test_a_tool_of_another_namespace_is_suggested_only_by_its_own_name() -> None:
    without = [tool_name for tool_name in KNOWN if tool_name[1] != "read_graph"]
    assert near_names("unset__read_graph", KNOWN) == ["memory__read_graph"]
    assert near_names("unset__read_graph", without) == []


def test_a_long_name_is_compared_by_its_beginning() -> None:
    assert near_names("y" * 100_000, KNOWN) == []
