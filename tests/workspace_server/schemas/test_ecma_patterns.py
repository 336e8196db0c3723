"""Patterns are judged as ECMAScript engines judge them; the answers are those of V8."""

from __future__ import annotations

import time

import pytest

from workspace_server.schemas.ecma_patterns import is_pattern

BOTH = [
    "", "a|b", "^$", "[^]", "[]", r"\p{L}+", r"\p{Script=Greek}", r"\P{Lu}", r"(?<k>a)\k<k>", "(?<=a)b", r"\cJ", r"\/", "(?:a)*?",
    r"\u0061", r"\x41", r"\0", "a{1,2}?", "[a-]", "[--a]", r"[\d-]", r"[\b]", r"(a)\1", "(|a)", r"^(?!.*\.\.)[a-z]+$", "[a&&b]",
]  # fmt: skip
OLD_ONLY = [
    r"[\w-.]+", r"\-", "{", "}", "]", "a{,5}", "a{1", r"\1", r"\01", r"\_", r"\Z", "[[:alpha:]]", r"[a-\d]", "(?=a)*", r"\c", r"\x4",
    r"\u12", r"\k", r"\p{IsGreek}", r"\h", r"[\8]", r"\8", "(?i:a)",
]  # fmt: skip
UNICODE_ONLY = [r"[\uD83D\uDE00-\uD83D\uDE0F]", r"[\u{1F600}-\u{1F64F}]"]
NEITHER = [
    "(", ")", "[", "[a", "*", "+a", "?", "a**", "a++", "a{2,1}", "{1}", "a{1}{2}", "[z-a]", "\\", "(?i)a", "(?P<n>a)", "(?>a)", "(?#c)",
    "(?<1a>x)", "(?<a", r"(?<k>a)\k", r"(?<k>a)\k<x>", "^*", r"\b+", "(?<!a)*", "(?", "a)(", "[\\",
]  # fmt: skip


@pytest.mark.parametrize("pattern", BOTH)
def test_patterns_of_ecmascript_are_read(pattern: str) -> None:
    assert (is_pattern(pattern, unicode=True), is_pattern(pattern, unicode=False)) == (True, True)


@pytest.mark.parametrize("pattern", OLD_ONLY)
def test_some_patterns_are_read_without_the_flag_u_only(pattern: str) -> None:
    assert (is_pattern(pattern, unicode=True), is_pattern(pattern, unicode=False)) == (False, True)


@pytest.mark.parametrize("pattern", UNICODE_ONLY)
def test_some_patterns_are_read_with_the_flag_u(pattern: str) -> None:
    assert is_pattern(pattern, unicode=True)


@pytest.mark.parametrize("pattern", NEITHER)
def test_patterns_of_other_languages_are_none(pattern: str) -> None:
    assert (is_pattern(pattern, unicode=True), is_pattern(pattern, unicode=False)) == (False, False)


def test_groups_without_end_are_not_judged() -> None:
    assert is_pattern("(" * 10_000 + ")" * 10_000, unicode=True)


@pytest.mark.parametrize("part", ["[", "(?<", "[(?<a", "\\", "(?<a>"])
def test_no_pattern_takes_time_by_the_square_of_its_length(part: str) -> None:
    """A server could hold up all others for minutes by it."""
    began = time.process_time()
    is_pattern(part * 50_001, unicode=True)
    assert time.process_time() - began < 5
