"""Offered names stay unique, whatever sources call their tools."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server import naming


def names_of(*listings: tuple[str, list[str]]) -> list[str]:
    """The offered names of the tools of these namespaces."""
    sources: list[Any] = [
        ScriptedSource([tool(name) for name in names], identity=f"stdio:{space}", namespace=space)
        for space, names in listings
    ]
    named, _ = naming.assign([(source, source.tools) for source in sources])
    return [entry.name for entry in named]


@given(
    st.lists(st.text("ab_.-/é", min_size=1, max_size=70), min_size=1, max_size=8, unique=True),
    st.lists(st.text("ab_.-/é", min_size=1, max_size=70), min_size=1, max_size=8, unique=True),
)
def test_all_names_are_short_plain_and_different(first: list[str], second: list[str]) -> None:
    found = names_of(("one", first), ("two", second))
    assert len(found) == len(first) + len(second)
    assert all(len(name) <= naming.MAX_LENGTH and not naming._UNFIT.search(name) for name in found)
    assert len(set(found)) == len(found)


def test_our_own_sources_alone_may_use_reserved_names() -> None:
    listings: list[Any] = []
    for kind in ("language-server", "script"):
        source = ScriptedSource([tool("lm_find")], identity=kind)
        source.kind = kind  # one of the kinds
        listings.append((source, source.tools))
    named, issues = naming.assign(listings)
    assert [(entry.name, entry.source.kind) for entry in named] == [("lm_find", "language-server")]
    assert [issue.code for issue in issues] == ["TOOL_NAME_RESERVED"]
