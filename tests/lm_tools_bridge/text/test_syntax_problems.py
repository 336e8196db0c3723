"""Tests what is said about mistakes in JSON and TOML texts: line, column, the mistake, what to write."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.jsonc_parser import MAX_EXPLAINED, json_problem
from lm_tools_bridge.text.syntax_problems import SyntaxProblem, toml_problem
from lm_tools_bridge.text.toml_text import parse_toml

SECRET = "hunter2"


def mistake(text: str) -> SyntaxProblem:
    with pytest.raises((ValueError, RecursionError)) as caught:
        parse_toml(text)
    return toml_problem(caught.value, text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = abc", 'line 1, column 5: this is no TOML value; texts need quotes, such as name = "text"'),
        ("x 1", 'line 1, column 3: a "=" is missing after the name'),
        ("a = 1\n= 3", "line 2, column 1: a line must be a [table], a name = value, or a # comment"),
        ("x = [1, 2", 'line 1: a "]" or a comma is missing'),
        ("x = {a = 1", 'line 1: a "}" or a comma is missing'),
        ('\nx = "a', "line 2: a closing quote is missing"),
        ("x = 1\nx = 2", "line 2: this name has a value already; remove one of them"),
        ("[a]\n[a]", "line 2, column 3: this table is there already; put its keys into one table"),
        ("x = 1 2", "line 1, column 7: there is more after the value; write one name = value a line"),
        ("x = " + "9" * 5000, "a number is too long"),
    ],
)
def test_a_mistake_in_toml_is_told_in_words(text: str, sentence: str) -> None:
    assert mistake(text).sentence() == sentence


@pytest.mark.parametrize(
    "text", [f"x = {SECRET}", f'x = "{SECRET}', f'x = "{SECRET}" {SECRET}', f"[{SECRET}"]
)
def test_no_message_about_toml_quotes_the_text(text: str) -> None:
    assert SECRET not in mistake(text).sentence()


def test_a_mistake_in_json_is_told_in_words() -> None:
    assert json_problem("{\n  a: 1}").sentence() == (
        "line 2, column 3: the name of a member must be in double quotes"
    )
    assert json_problem('{"a": 1,}').text == "there is a comma before }"
    assert json_problem('{"a": 1,} x', comments=True).text == "there is text after the end of the value"


def test_a_huge_text_is_not_explained() -> None:
    assert json_problem(" " * (MAX_EXPLAINED + 1)).sentence() == "it is not valid JSON"
