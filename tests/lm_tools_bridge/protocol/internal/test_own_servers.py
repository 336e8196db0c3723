"""Own servers come out of their header as they went in."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol.internal.own_servers import OwnServers, decode, encode, namespace_of

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
