"""The front matter of a `SKILL.md` as JSON values, and the line of what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.skills import front_matter
from lm_tools_bridge.skills.front_matter import InvalidFrontMatter, parse

HEAD = "name: git-flow\ndescription: Branches\n"


def read(more: str = "", head: str = HEAD) -> dict[str, object]:
    return parse(f"---\n{head}{more}---\nbody".encode(), "git-flow")


def problem(content: str | bytes, folder: str = "git-flow") -> InvalidFrontMatter:
    with pytest.raises(InvalidFrontMatter) as raised:
        parse(content.encode() if isinstance(content, str) else content, folder)
    return raised.value


def test_every_field_that_the_author_wrote_is_there() -> None:
    more = 'license: MIT\nmetadata:\n  version: "1.0"\n  tags: [a, b]\nallowed-tools: Read Bash(git:*)\n'
    assert read(more) == {
        "name": "git-flow",
        "description": "Branches",
        "license": "MIT",
        "metadata": {"version": "1.0", "tags": ["a", "b"]},
        "allowed-tools": "Read Bash(git:*)",
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("true", True), ("False", False), ("~", None), ("", None), ("null", None),
        ("12", 12), ("0o17", 15), ("0x1F", 31), ("1.50", 1.5), ("1e3", 1000.0), ("1_000", "1_000"), ("0b1", "0b1"),
        ("2026-01-02", "2026-01-02"), ("12:30:45", "12:30:45"), ('"12"', "12"), ("!!str 12", "12"), ("'~'", "~"),
        ("=", "="), ("<<", "<<"),
    ],
)  # fmt: skip
def test_values_are_those_of_the_core_schema_of_yaml_1_2(written: str, value: object) -> None:
    assert read(f"x: {written}\n")["x"] == value


def test_block_texts_line_ends_and_a_byte_order_mark_are_read() -> None:
    text = "\ufeff---\r\nname: git-flow\r\ndescription: >-\r\n  one\r\n  two\r\n---\r\n"
    assert parse(text.encode(), "git-flow")["description"] == "one two"


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("# no front matter\n", 1, "must begin with ---"),
        ("", 1, "must begin with ---"),
        ("---\nname: git-flow\n", 3, "has no end"),
        ("---\n- a\n---\n", 2, "must be a mapping"),
        ("---\n---\n", 2, "must be a mapping"),
        ("---\ndescription: x\n---\n", 1, "has no name"),
        ("---\nname: git-flow\n---\n", 1, "has no description"),
        ("---\ndescription: x\nname: other\n---\n", 3, "must be the name of its folder"),
        ("---\ndescription: x\nname: Git-Flow\n---\n", 3, "lower case letters"),
        ("---\ndescription: x\nname: git--flow\n---\n", 3, "single hyphens"),
        ("---\nname: git-flow\ndescription: ' '\n---\n", 3, "1 to 1024 characters"),
        (f"---\nname: git-flow\ndescription: {'x' * 1025}\n---\n", 3, "1 to 1024 characters"),
        ("---\nname: git-flow\ndescription: a: b\n---\n", 3, "not valid YAML"),
        (f"---\n{HEAD}x: [1\n---\n", 5, "not valid YAML"),
        (f"---\n{HEAD}x: 1\nx: 2\n---\n", 5, "is there twice"),
        (f"---\n{HEAD}x: &a 1\ny: *a\n---\n", 5, "aliases"),
        (f"---\n{HEAD}x: !python/object:os.system 1\n---\n", 4, "tags"),
        (f"---\n{HEAD}x: .inf\n---\n", 4, "no number"),
        (f"---\n{HEAD}x: 99999999999999999999\n---\n", 4, "too large"),
        (f"---\n{HEAD}x: 1e999\n---\n", 4, "too large"),
        (f"---\n{HEAD}? [a]\n: 1\n---\n", 4, "a key must be a text"),
        (f"---\n{HEAD}x: {'[' * 40}{']' * 40}\n---\n", 4, "nested"),
        (f'---\n{HEAD}x: "\\uD800"\n---\n', 4, ""),
    ],
)
def test_what_is_wrong_is_told_with_its_line(content: str, line: int, words: str) -> None:
    found = problem(content)
    assert (found.line, words in found.reason) == (line, True), (found.line, found.reason)


def test_bytes_that_are_no_utf_8_are_told_with_their_line() -> None:
    assert problem(b"---\nname: git-flow\ndescription: \xff\n---\n").line == 3


def test_a_front_matter_without_end_is_not_parsed_beyond_the_limit() -> None:
    found = problem("---\n" + HEAD + "x: 1\n" * 10_000 + "---\n")
    assert "16 KiB" in found.reason


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: f"{HEAD}x: {text}\n".encode()))
def test_any_content_gives_json_values_or_a_line(raw: bytes) -> None:
    content = b"---\n" + raw + b"\n---\n"
    try:
        found = parse(content, "git-flow")
    except InvalidFrontMatter as invalid:
        assert 1 <= invalid.line <= content.count(b"\n") + 1
        assert len(invalid.reason) < 200
    else:
        assert json.loads(json.dumps(found)) == found
        assert len(content) <= front_matter.MAX_BYTES
