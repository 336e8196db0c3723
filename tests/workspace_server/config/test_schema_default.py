"""Schema defaults are parsed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from workspace_server.config.settings import parse


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("a.b=1", 1), ("a.b = -1.5e2 ", -150.0), ("a.b=.5", 0.5), ("a.b=TRUE", True), ("a.b=false", False),
        ('a.b="x=y"', "x=y"), ('a.b=""', ""), ('a.b="say \\"hi\\""', 'say "hi"'), ('a.b="C:\\dir"', "C:\\dir"),
        ("a.b={}", []), ("a.b={ }", []), ("a.b={1, 2 ,true}", [1, 2, True]), ('a.b={"x,y","}"}', ["x,y", "}"]),
        ("a.b={1,,2,}", [1, 2]), ("gh__list-x.per_page=7", 7),
    ],
)  # fmt: skip
def test_values_of_the_grammar(entry: str, value: object) -> None:
    found = parse(entry)
    assert found is not None
    assert found[2] == value
    assert type(found[2]) is type(value)


@pytest.mark.parametrize(
    "entry",
    [
        "", "a.b", "a=1", "a.b.c=1", ".b=1", "a.=1", "a.b=", "a.b=word", "a.b=[1]", 'a.b={"k":1}', "a.b={word}",
        'a.b="open', "a.b={1", "a.b=1}", "a.b={{1}}", "a.b=null", "a.b=1e999", "a.b=0x1", "a.b=NaN", 'a.b="a" "b"',
    ],
)  # fmt: skip
def test_invalid_syntax_is_none(entry: str) -> None:
    assert parse(entry) is None


@given(st.text(alphabet='ab.={}",\\ 1-', max_size=40))
@examples(80)
def test_no_text_raises(entry: str) -> None:
    parse(entry)
    parse("a.b=" + entry)


def test_long_hostile_texts_take_no_time() -> None:
    started = time.thread_time()
    for text in (
        "{" + '"' * 100_000 + "}",
        "{" + "," * 100_000 + "}",
        '"' + "\\" * 100_001,
        "{" + " " * 100_000 + "}",
    ):
        parse("a.b=" + text)
    assert time.thread_time() - started < 2
