"""Cursors give complete lists, whatever changes between two pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workspace_server.methods import table
from workspace_server.naming import sort_key

names = st.lists(st.text("abAB_-19", min_size=1, max_size=4), unique=True)


def collect(entries: list[str], size: int) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        answer = table.page("tools", entries, str, cursor, size)
        assert answer is not None
        shown, cursor = answer
        found += shown
        if cursor is None:
            return found


@given(names, st.integers(1, 5))
def test_union_of_all_pages_is_the_list(entries: list[str], size: int) -> None:
    entries.sort(key=sort_key)
    assert collect(entries, size) == entries


@given(names, names, st.integers(1, 3))
def test_entries_that_stay_appear_once_while_others_come_and_go(
    first: list[str], second: list[str], size: int
) -> None:
    first.sort(key=sort_key)
    second.sort(key=sort_key)
    answer = table.page("tools", first, str, None, size)
    assert answer is not None
    shown, cursor = answer
    rest: list[str] = []
    while cursor is not None:
        answer = table.page("tools", second, str, cursor, size)
        assert answer is not None
        page, cursor = answer
        rest += page
    seen = [*shown, *rest]
    assert len(seen) == len(set(seen))
    if len(first) > size:
        assert set(first) & set(second) <= set(seen)


def test_cursor_that_is_not_of_this_list_is_refused() -> None:
    cursor = table.encode("resources", "a")
    for bad in (cursor, "", "%%%", "dG9vbHM", 5, ["x"], "\u00e9"):
        assert table.page("tools", ["a"], str, bad) is None
    assert table.page("resources", ["a", "b"], str, cursor) == (["b"], None)
