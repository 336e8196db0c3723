"""Texts say a value if each of its parts is in them as a word."""

from __future__ import annotations

from typing import Any

import pytest

from workspace_server.calls import text_coverage
from workspace_server.calls.text_coverage import SaidTexts


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["3 files"], {"count": 3}),
        (["lines 2-3 of 10"], [2, 3, 10]),
        (["-4.50 °C"], {"degrees": -4.5}),
        (["1e3"], 1000),
        (["found: True"], {"found": True}),
        (["größe ☕ heiß"], "größe ☕"),
        (["x = a.b(c)"], {"call": "a.b(c)"}),
        (['{"path": "a\\\\b", "size": 3}'], {"result": [{"path": "a\\b"}, 3]}),
        (["first", "second\n"], ["first", "second"]),
        (["two\nlines here"], "two\nlines"),
        ([], {"empty": "", "none": None, "nothing": [{}]}),
    ],
)
def test_what_is_in_the_texts_is_said(texts: list[str], value: Any) -> None:
    assert SaidTexts(texts).say(value)


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["13 files"], {"count": 3}),
        (["bananas"], "banana"),
        (["found"], {"found": True}),
        (["false"], True),
        (["a"], ["a", "b"]),
        ([], 0),
        (["1"], 10**400),
        (["one", "two"], "one two"),
    ],
)
def test_parts_of_words_and_other_values_are_not_said(texts: list[str], value: Any) -> None:
    assert not SaidTexts(texts).say(value)


def test_a_string_inside_many_words_ends_the_search() -> None:
    assert not SaidTexts(["xa" * 1000 + " a"]).say("a")


def test_a_value_of_too_many_parts_counts_as_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_coverage, "MAX_LEAVES", 10)
    assert SaidTexts(["1"]).say([1] * 10)
    assert not SaidTexts(["1"]).say([1] * 11)


def test_a_value_that_takes_too_long_to_find_counts_as_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_coverage, "MAX_SEARCHED", 1000)
    words = [f"word{number}" for number in range(100)]
    text = " ".join(words)
    assert SaidTexts([text]).say(words[:10])
    assert not SaidTexts([text]).say(words)
