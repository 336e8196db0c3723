"""The index gives the scores of the definition, for any words, and fast."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.processes.timeouts import within
from workspace_server.tool_search.index import Index, Searchable
from workspace_server.tool_search.scoring import THRESHOLD, read_query, score, tool_texts

TYPICAL = (
    "send mail email calendar calender list lists issue issues the use a x of report reports "
    '検索 検 邮件 发送邮件 🔍 🔍🗂 straße İstanbul ﬁle (python-like). repo-list get_file "quoted" ,,, _ - __'
)
PARTS = "get list send mail file repo issue user order table alert event branch record volume queue"
WORDS = st.one_of(
    st.sampled_from(TYPICAL.split()),
    st.text("abc", min_size=1, max_size=7),
    st.text("ab_-.", min_size=1, max_size=12),
    st.text(min_size=1, max_size=6),
    st.text("ab", min_size=60, max_size=64),
)
NAMES = st.one_of(st.lists(WORDS, min_size=1, max_size=4).map("_".join), WORDS)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
TOOLS = st.lists(
    st.tuples(NAMES, TEXTS, st.lists(TEXTS, max_size=3)), max_size=9, unique_by=lambda tool: tool[0]
)
QUERIES = st.one_of(TEXTS, NAMES, st.lists(WORDS, min_size=18, max_size=22).map(" ".join))


@st.composite
def misspelt(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with a few typing errors in it."""
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        before, after = text[:place], text[place:]
        text = draw(
            st.sampled_from([before + after[1:], before + "b" + after, before + after[:2][::-1] + after[2:]])
        )
    return text


def tool(name: str, description: str, keywords: list[str]) -> Searchable:
    return Searchable(name, {"name": name, "description": description, "inputSchema": {}}, tuple(keywords))


@given(TOOLS, st.data())
def test_index_and_definition_agree(corpus: list[tuple[str, str, list[str]]], data: st.DataObject) -> None:
    """The same hits, scores and order."""
    tools = [tool(*one) for one in corpus]
    texts = [text for name, description, keywords in corpus for text in (name, description, *keywords)]
    near_texts = st.one_of(QUERIES, st.sampled_from(texts)) if texts else QUERIES
    index = Index.of(tools)
    for query in data.draw(st.lists(misspelt(near_texts), min_size=1, max_size=4)):
        read = read_query(query)
        expected = [
            (-points, one.name.lower(), one.name)
            for one in tools
            if (points := score(read, tool_texts(one.name, one.keywords, one.description))) >= THRESHOLD
        ]
        found = [(-points, one.name.lower(), one.name) for one, points in index.rank(read)]
        assert found == sorted(expected), query


def numbered(count: int) -> list[Searchable]:
    """Tools with names that resemble each other."""
    parts = PARTS.split()
    return [
        tool(f"service{n % 40}__{parts[n % 16]}_{parts[n * 7 % 13]}_{n}", f"{parts[n % 11]}s a {parts[n % 7]}, {n}.", [parts[n % 5]])
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("query", ["service7__gte_mial_1", "sned list of fiels", "lits", "er re is 7"])
def test_index_and_definition_agree_about_many_tools(query: str) -> None:
    tools = numbered(400)
    read = read_query(query)
    points = {one.name: score(read, tool_texts(one.name, one.keywords, one.description)) for one in tools}
    found = {one.name: points for one, points in Index.of(tools).rank(read)}
    assert found == {name: mark for name, mark in points.items() if mark >= THRESHOLD}
    assert found


def test_two_thousand_tools_are_searched_in_time() -> None:
    """Typing errors and many words included."""
    index = Index.of(numbered(2_000))
    for query in ("list", "service7__gte_mial_1", "sned lsit of fiels", PARTS, "zzzzqqq", "er", ""):
        read = read_query(query)
        spent = []
        for _ in range(3):
            begun = time.process_time()
            index.rank(read)
            spent.append(time.process_time() - begun)
        assert min(spent) < within(0.02), query
