"""Words of a source text stand in code, comments or strings, and what may be read in two ways is code."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.tools.word_check.source_text import find_words


def kinds(text: str, suffix: str, word: str = "name") -> list[str]:
    return [each.kind for each in find_words(text.split("\n"), word, suffix)]


@pytest.mark.parametrize(
    ("suffix", "text", "expected"),
    [
        (".py", "name  # name\n", ["code", "comment"]),
        (".py", '"""name\n\nname"""\nname', ["string", "string", "code"]),
        (".py", "x['name'], 'pkg.mod.name', 'the name is'", ["quoted", "quoted", "string"]),
        (".py", "f'name {name} {{name}} {name!r}'", ["string", "code", "string", "code"]),
        (".py", 'f"{x["name"]} {name}"', ["code", "code"]),
        (".py", "x = 'it\\'s' ; name ; y = 'b'", ["code"]),
        (
            ".py",
            "__all__ = [\n    'other',\n    'name',  # name\n]\nx = 'name'",
            ["code", "comment", "quoted"],
        ),
        (".py", "__all__ += ('name',)", ["code"]),
        (
            ".js",
            "name // name\n/* name\n name */ 'name'",
            ["code", "comment", "comment", "comment", "quoted"],
        ),
        (".js", "x = /['\"`]/; name; y = '`'; name", ["code", "code"]),
        (".ts", "`name ${name} ${f(`name`)}` + name", ["string", "code", "code", "code"]),
        (".tsx", "<p>I'm {name} and you're {name}</p>", ["code", "code"]),
        (".tsx", "<b></b><name></name>", ["code", "code"]),
        (".js", "a / name / b", ["code"]),
        (".js", "a\n  / name / b", ["code"]),
        (".ts", "x = a ||\n  /['`]/.test(b)\nname\ny = '`'", ["code"]),
        (".ts", "f(\n  // why\n  /[`]/, name)\nname; y = '`'", ["code", "code"]),
        (".ts", "if (a) {\n}\n/`/.test(name)\nname; y = '`'", ["code", "code"]),
        (".c", "'\"'; name; '\"'; \"name\"; 1'000'000 name", ["code", "quoted", "code"]),
        (".cpp", 'R"x(name " )" name)x" name', ["string", "string", "code"]),
        (".go", "`name\n\" name` + name + '\"' + name", ["string", "string", "code", "code"]),
        (".rs", 'fn f<\'a>(name: &\'a str) { r#"name " name"#; name }', ["code", "string", "string", "code"]),
        (".rs", 'format!("name {name} of {}", name)', ["string", "code", "code"]),
        (".java", '"""\nname\n""" name', ["string", "code"]),
        (".md", "'name' # name", ["code", "code"]),
    ],
)
def test_what_a_word_stands_in(suffix: str, text: str, expected: list[str]) -> None:
    assert kinds(text, suffix) == expected


@pytest.mark.parametrize("text", ["names", "a_name", "$name", "name$", "Name", "name2"])
def test_parts_of_other_words_are_no_whole_words(text: str) -> None:
    assert kinds(text, ".py") == []


def test_places_are_lines_and_columns_of_the_text() -> None:
    (first, second) = find_words(["é name", "", "x.name"], "name", ".py")
    assert (first.line, first.start, first.end) == (0, 2, 6)
    assert (second.line, second.start, second.end) == (2, 2, 6)


def test_an_apostrophe_without_an_end_hides_no_line_after_it() -> None:
    assert kinds("<p>don't</p>\nname\n<p>don't</p>", ".jsx") == ["code"]


def test_a_large_file_of_quotes_takes_no_long_time() -> None:
    assert len(kinds("'\"`" * 100_000 + "\nname", ".ts")) == 1
