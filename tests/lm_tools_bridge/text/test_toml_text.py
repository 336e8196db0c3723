"""TOML that would keep a parser busy is refused before it is parsed."""

from __future__ import annotations

import time
import tomllib

import pytest

from lm_tools_bridge.text.toml_text import (
    MAX_PARTS,
    LongKeyError,
    TooManyKeysError,
    check_editable,
    line_of,
    parse_toml,
)

QUICK_S = 2.0
"""Unbounded, each of these texts takes a minute and more."""


@pytest.mark.parametrize(
    ("unit", "head", "tail"),
    [
        ("a.", "", "a = 1\n"),
        ("a.", "[", "a]\n"),
        ("a.", "[[", "a]]\n"),
        ("a . ", "x = 1\n", "a = 1\n"),
        ('"".', "", "a = 1\n"),
        ("'.'.", "", "a = 1\n"),
        ('"\\".".', "[t] # '\n", "a = 1\n"),
        ("a.", "x = {", "a = 1}\n"),
        ("a.", 'x = """\n" """" # " \n', "a = 1\n"),
    ],
)
def test_a_very_long_key_is_refused_at_once_wherever_it_is(unit: str, head: str, tail: str) -> None:
    text = head + unit * 200_000 + tail
    started = time.thread_time()
    with pytest.raises(LongKeyError) as refused:
        parse_toml(text)
    assert time.thread_time() - started < QUICK_S
    assert refused.value.line == head.count("\n") + 1
    with pytest.raises(LongKeyError):
        check_editable(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = '" + "x." * 100_000 + "'",
        'a = "' + 'x.\\".' * 100_000 + '"',
        'a = """\n' + "x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x\n" * 1000 + '"""',
        "a = '''''" + "x." * 1000 + "'''''",
        "# " + "x." * 100_000,
        "a = [" + "1.5," * 10_000 + "]",
        "a = 2026-01-01T10:00:00.5",
        ".".join("a" * MAX_PARTS) + " = 1",
        "[" + ".".join("a" * MAX_PARTS) + "]",
    ],
)
def test_what_is_no_long_key_is_parsed(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)
    check_editable(text[:100] if text.startswith("a = [") else text)


def test_many_deep_keys_are_parsed_but_not_edited() -> None:
    """Editing keeps every character in memory as an object, which takes a thousand times as long."""
    text = "".join("a." * 15 + f"k{number} = 1\n" for number in range(2_000))
    assert parse_toml(text)
    with pytest.raises(TooManyKeysError):
        check_editable(text)


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, "a." * 14 + "b", "a.." * 200_000, '"' * 300_000, "a.'" * 300_000]
)
def test_text_that_is_no_toml_is_the_parsers_business(text: str) -> None:
    started = time.thread_time()
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml(text)
    assert time.thread_time() - started < QUICK_S


TOML = b"""a = 1
[tools]
b = "a = 2"
[[servers]]
name = "one"
namespace = "one"
[[servers]]
name = "two"
c = 1
namespace = "two"
[wrong]
"""
JSON = b"""{"servers": {
  "one": {"command": "x"},
  "two": {
    "command": 3,
    "args": []}}}"""


@pytest.mark.parametrize(
    ("content", "key", "entry", "line"),
    [
        (TOML, "a", None, 1),
        (TOML, "tools.b", None, 3),
        (TOML, "wrong", None, 11),
        (TOML, "missing", None, None),
        (TOML, "name", "two", 8),
        (TOML, "c", "servers[2]", 9),
        (TOML, "missing", "servers[2]", 7),
        (TOML, "c", "one", 4),
        (TOML, "c", "three", None),
        (JSON, "command", None, 2),
        (JSON, "command", "two", 4),
        (JSON, "", "two", 3),
        (b"\xff\na = 1\n", "a", None, 2),
    ],
)
def test_the_line_of_a_key_is_found_in_its_entry(
    content: bytes, key: str, entry: str | None, line: int | None
) -> None:
    assert line_of(content, key, entry) == line
