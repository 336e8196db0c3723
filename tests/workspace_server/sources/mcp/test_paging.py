"""Pages of a list are joined, up to the limits of a list."""

from __future__ import annotations

import json

import msgspec
import pytest

from workspace_server.sources.mcp.paging import Pages


def page(entries: list[object], cursor: object = None) -> msgspec.Raw:
    members = {"tools": entries} | ({} if cursor is None else {"nextCursor": cursor})
    return msgspec.Raw(json.dumps(members).encode())


def test_pages_are_followed_to_the_end() -> None:
    pages = Pages("tools")
    assert pages.take(page([1, 2], "next")) == "next"
    assert pages.take(page([3], "")) == ""
    assert pages.take(page([])) is None
    assert [int(bytes(entry)) for entry in pages.entries] == [1, 2, 3]
    assert pages.truncated is None


def test_null_is_a_list_without_entries() -> None:
    """Some languages write it for one."""
    pages = Pages("tools")
    assert pages.take(msgspec.Raw(b'{"tools": null, "nextCursor": "a"}')) == "a"
    assert (pages.take(page([1])), len(pages.entries)) == (None, 1)


def test_a_list_is_cut_at_two_thousand_entries() -> None:
    pages = Pages("tools")
    assert pages.take(page(list(range(10_000)), "more")) is None
    assert len(pages.entries) == 2_000
    assert pages.truncated == "more than 2,000 tools"


def test_exactly_two_thousand_entries_are_not_cut() -> None:
    pages = Pages("tools")
    pages.take(page(list(range(2_000))))
    assert (len(pages.entries), pages.truncated) == (2_000, None)


def test_a_list_is_cut_at_four_mebibytes() -> None:
    pages = Pages("tools")
    for n in range(5):
        cursor = pages.take(page(["x" * 2**20], str(n)))
    assert cursor is None
    assert len(pages.entries) == 3
    assert pages.truncated == "more than 4 MiB of tools"


def test_cursors_that_go_in_circles_end_the_list() -> None:
    pages = Pages("tools")
    assert [pages.take(page([n], cursor)) for n, cursor in enumerate("aba")] == ["a", "b", None]
    assert pages.truncated is not None


def test_there_are_at_most_fifty_pages() -> None:
    pages = Pages("tools")
    taken = [pages.take(page([n], str(n))) for n in range(50)]
    assert taken[48:] == ["48", None]
    assert len(pages.entries) == 50
    assert pages.truncated == "more than 50 pages"


@pytest.mark.parametrize("answer", [b"{}", b"[]", b'{"tools":{}}', b'{"tools":[1,]}'])
def test_an_answer_without_the_list_is_none(answer: bytes) -> None:
    with pytest.raises(ValueError, match="list of tools"):
        Pages("tools").take(msgspec.Raw(answer))
