"""Offered names stay unique, also after clients have shortened them."""

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


def in_gemini(name: str) -> str:
    """How Gemini CLI shows a tool of a server that it knows as `lm-tools-bridge`."""
    full = f"mcp_lm-tools-bridge_{name}"
    return full if len(full) <= 63 else f"{full[:30]}...{full[-30:]}"


def test_long_names_that_differ_in_the_middle_only_stay_different_when_cut() -> None:
    ends = ("begin_of_", "_and_the_same_end_of_all_of_them")
    found = names_of(("server", [f"{ends[0]}{middle}{ends[1]}" for middle in ("one", "two")]))
    assert len(set(found)) == 2
    assert len({in_gemini(name) for name in found}) == 2


def test_a_long_name_without_a_twin_stays_as_it_is() -> None:
    name = "begin_of_one_and_the_same_end_of_all_of_them"
    assert names_of(("server", [name])) == [f"server__{name}"]


@given(
    st.lists(st.text("ab_.-/é", min_size=1, max_size=70), min_size=1, max_size=8, unique=True),
    st.lists(st.text("ab_.-/é", min_size=1, max_size=70), min_size=1, max_size=8, unique=True),
)
def test_all_names_are_short_plain_and_different_in_every_client(first: list[str], second: list[str]) -> None:
    found = names_of(("one", first), ("two", second))
    assert len(found) == len(first) + len(second)
    assert all(len(name) <= naming.MAX_LENGTH and not naming._UNFIT.search(name) for name in found)
    assert len({in_gemini(name) for name in found}) == len(found)


def test_our_own_sources_alone_may_use_reserved_names() -> None:
    listings: list[Any] = []
    for kind in ("language-server", "script"):
        source = ScriptedSource([tool("lm_find")], identity=kind)
        source.kind = kind  # one of the kinds
        listings.append((source, source.tools))
    named, issues = naming.assign(listings)
    assert [(entry.name, entry.source.kind) for entry in named] == [("lm_find", "language-server")]
    assert [issue.code for issue in issues] == ["TOOL_NAME_RESERVED"]
