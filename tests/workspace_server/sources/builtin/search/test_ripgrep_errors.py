"""What ripgrep says of patterns that it refuses, in the words of several versions."""

from __future__ import annotations

import pytest

from workspace_server.sources.builtin.search.query import BadRegex, EngineUnavailable, TextQuery
from workspace_server.sources.builtin.search.ripgrep import raise_for


def parse_error(prefix: str, shown: str, marked: int, reason: str) -> str:
    return f"{prefix}regex parse error:\n    {shown}\n    {' ' * marked}^\nerror: {reason}\n"


@pytest.mark.parametrize(
    ("text", "shown", "marked", "position"),
    [
        ("ab)", "ab)", 2, 2),
        ("ab)", "(?:ab))", 6, 2),
        ("é(", "(?:é()", 0, 1),
        ("(a)(b", "(?:(a)(b)", 0, 3),
        (r"\((", r"(?:\(()", 0, 2),
        ("[(](", "(?:[(]()", 0, 3),
        ("[](](", "(?:[](]()", 0, 4),
    ],
)
def test_the_position_is_that_in_the_query(text: str, shown: str, marked: int, position: int) -> None:
    for prefix in ("", "rg: "):
        with pytest.raises(BadRegex) as caught:
            raise_for(parse_error(prefix, shown, marked, "the reason"), TextQuery(text, regex=True))
        assert (caught.value.position, caught.value.reason) == (position, "the reason")


@pytest.mark.parametrize("word", ["'\"\\n\"'", '"\\n"'])
def test_a_line_end_in_a_pattern_is_explained(word: str) -> None:
    with pytest.raises(BadRegex, match="one by one") as caught:
        raise_for(f"rg: the literal {word} is not allowed in a regex", TextQuery(r"ab\n", regex=True))
    assert caught.value.position == 2


@pytest.mark.parametrize(
    ("stderr", "regex"), [("unknown flag --sort", True), ("", True), ("regex parse error", False)]
)
def test_other_refusals_are_no_fault_of_the_pattern(stderr: str, regex: bool) -> None:
    with pytest.raises(EngineUnavailable):
        raise_for(stderr, TextQuery("a", regex=regex))
