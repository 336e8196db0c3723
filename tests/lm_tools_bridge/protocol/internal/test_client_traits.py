"""Client traits come out of their header as they went in."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol.internal.client_traits import (
    AS_OFFERED,
    SHORTEST_LIMIT,
    ClientTraits,
    NameRules,
    OwnServers,
    decode,
    encode,
    from_header,
    namespace_of,
)


@pytest.mark.parametrize("name", ClientTraits._fields)
def test_each_trait_survives_alone(name: str) -> None:
    traits = ClientTraits(**{name: True})
    assert traits.encode() == name.replace("_", "-")
    assert ClientTraits.decode(traits.encode()) == traits


def test_all_and_none_survive() -> None:
    everything = ClientTraits(*[True] * len(ClientTraits._fields))
    assert ClientTraits.decode(everything.encode()) == everything
    assert (ClientTraits().encode(), ClientTraits.decode("")) == ("", ClientTraits())


def test_words_of_a_newer_manager_are_left_out() -> None:
    assert ClientTraits.decode(" lists-once , of-tomorrow,,") == ClientTraits(lists_once=True)


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


MCP, OTHER = ".mcp.json", ".cursor/mcp.json"


@pytest.mark.parametrize(
    ("own_servers", "text"),
    [
        ([], ""),
        ([OwnServers(MCP)], ".mcp.json"),
        ([OwnServers(MCP, frozenset({"b", "a"}))], ".mcp.json;-a;-b"),
        ([OwnServers(MCP, frozenset({"a"}), False), OwnServers(OTHER)], ".mcp.json;+a,.cursor/mcp.json"),
    ],
)
def test_they_survive(own_servers: list[OwnServers], text: str) -> None:
    assert encode(own_servers) == text
    assert list(decode(text)) == own_servers


def test_a_file_of_which_nothing_is_started_is_not_named() -> None:
    assert encode([OwnServers(MCP, frozenset(), False)]) == ""


def test_too_many_names_are_taken_for_no_own_servers() -> None:
    """Rather twice than nowhere."""
    many = frozenset(f"s{number}" for number in range(5_000))
    for is_all_but in (True, False):
        (own,) = decode(encode([OwnServers(MCP, many, is_all_but)]))
        assert not own.starts(MCP, "s1") and not own.starts(MCP, "x")


def test_which_servers_are_started() -> None:
    only, but = OwnServers(MCP, frozenset({"a"}), False), OwnServers(MCP, frozenset({"a"}))
    assert [only.starts(MCP, name) for name in "ab"] == [True, False]
    assert [but.starts(MCP, name) for name in "ab"] == [False, True]
    assert not but.starts(OTHER, "b") and not but.starts(None, "b")


def test_names_are_made_namespaces() -> None:
    assert namespace_of(" My server, größe ") == "My_server__gr__e"
