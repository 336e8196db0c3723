"""Places of a server and words of files: what is left out is explained, or makes the answer partial."""

from __future__ import annotations

from lm_tools_bridge.code_intelligence.tools.word_check.comparison import (
    Comparison,
    MissingFile,
    Places,
    Word,
    asking_order,
    compare,
    left_out,
)
from lm_tools_bridge.code_intelligence.tools.word_check.source_text import WordKind


def word(path: str, line: int, start: int = 0, kind: WordKind = "code") -> Word:
    return Word(path, line, start, start + 4, kind)


def test_words_that_a_place_covers_are_in_the_answer() -> None:
    places = Places()
    places.add("a", (1, 4, 1, 8))
    places.add("a", (2, 0, 2, 30))
    places.add("a", (3, 4, 5, 1))
    words = [word("a", 1, 4), word("a", 2, 10), word("a", 3, 4), word("a", 1, 20), word("b", 1, 4)]
    assert left_out(words, places) == words[3:]


def test_one_word_of_a_line_in_the_answer_does_not_hide_another() -> None:
    places = Places()
    places.add("a", (1, 5, 1, 9))
    assert left_out([word("a", 1, 5), word("a", 1, 12)], places) == [word("a", 1, 12)]


def test_comments_strings_and_other_symbols_are_explained() -> None:
    other = word("a", 3)
    rest = [word("a", 1, kind="comment"), word("a", 2, kind="quoted"), word("a", 2, 9, kind="string"), other]
    result = compare("name", rest, {other: "other"}, {})
    assert (result.in_text, result.quoted, result.of_others, result.is_complete) == (2, 1, 1, True)
    assert result.reason() == ""
    assert result.explained() == (
        "2 lines in comments and strings (1 with the name alone in quotes), 1 line with other symbols of this name"
    )


def test_code_that_nothing_explains_makes_the_answer_incomplete() -> None:
    known, unknown = word("a", 1), word("b", 1)
    result = compare("name", [known, unknown, word("c", 1)], {known: "same", unknown: "none"}, {})
    assert not result.is_complete
    assert result.reason() == (
        "3 more lines in 3 files have the word name: "
        "a#2 (uses by the server's own definition, which it left out); "
        "b#2 (the server knows no definition there); c#2 (not looked at for want of time)"
    )


def test_a_string_that_the_server_takes_for_the_symbol_is_missing() -> None:
    quoted = word("a", 1, kind="quoted")
    assert not compare("name", [quoted], {quoted: "same"}, {}).is_complete
    assert compare("name", [quoted], {quoted: "none"}, {}).is_complete


def test_files_that_the_server_does_not_know_are_told_with_the_reason() -> None:
    rest = [word(f"tests/{number}.ts", line) for number in range(6) for line in range(2)]
    result = compare("name", rest, {}, {each.path: "excluded by tsconfig.json" for each in rest})
    assert result.reason() == (
        "12 more lines in 6 files have the word name: tests/0.ts (2), tests/1.ts (2), tests/2.ts (2), "
        "tests/3.ts (2) and 2 more files (excluded by tsconfig.json)"
    )


def test_a_file_that_the_server_does_not_know_is_told_though_its_words_mean_something_else_by_text() -> None:
    assert compare("name", [word("a", 1, kind="comment")], {}, {"a": "excluded"}).is_complete


def test_files_that_were_not_searched_are_told() -> None:
    assert (
        compare("name", [], {}, {}, has_all_words=False).reason()
        == "not all files with the word name were compared"
    )


def test_each_file_is_asked_about_before_the_second_word_of_any() -> None:
    a1, a2, b1 = word("a", 1), word("a", 2), word("b", 1)
    quoted, comment = word("a", 0, kind="quoted"), word("c", 0, kind="comment")
    assert asking_order([quoted, a1, a2, comment, b1]) == [b1, a1, a2, quoted] or asking_order(
        [quoted, a1, a2, comment, b1]
    ) == [a1, b1, a2, quoted]


def test_a_comparison_counts_lines_from_one() -> None:
    assert compare("name", [word("a", 0), word("a", 0, 9)], {}, {}).missing == [
        MissingFile("a", (1,), "not looked at for want of time")
    ]
    assert Comparison("name").is_complete
