"""Tests of the texts of the clangd tools."""

from __future__ import annotations

from lm_tools_bridge.code_intelligence.clangd.answers import Counts, Entry, Section, write_text


def test_text_begins_with_the_counts_and_separates_sections_and_entries() -> None:
    text = write_text(
        "callHierarchy",
        Counts(3, 2),
        {"found": True, "limits": "x"},
        sections=[Section("ROOT", ["main", "p/a.cpp#3"]), Section("INCOMING", [])],
        entries=[Entry("p/a.cpp#3-5", "f -> g")],
    )
    assert text.split("\n") == [
        "counts total=3 shown=2 truncated=true kind=callHierarchy found=true limits=x",
        *("---", "[ROOT]", "main", "p/a.cpp#3"),
        *("---", "[INCOMING]", "(none)"),
        *("---", "p/a.cpp#3-5", "f -> g"),
    ]


def test_counts_are_not_truncated_where_all_is_shown() -> None:
    assert (
        write_text("symbolReferences", Counts(0, 0), {})
        == "counts total=0 shown=0 truncated=false kind=symbolReferences"
    )
    assert Counts(2, 2).structured() == {"total": 2, "shown": 2, "truncated": False}


def test_what_would_mislead_a_reader_is_removed() -> None:
    assert "\x1b" not in write_text("x", Counts(0, 0), {}, entries=[Entry("a\x1b[31m#1", "b\u202e")])


def test_a_line_of_a_section_is_never_taken_for_a_separator() -> None:
    text = write_text("symbolInfo", Counts(0, 0), {}, sections=[Section("HOVER", ["a", "---", "b"])])
    assert text.split("\n---\n")[1] == "[HOVER]\na\n ---\nb"
