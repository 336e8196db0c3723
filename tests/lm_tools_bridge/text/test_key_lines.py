"""Tests in which line of a file a key is found."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.key_lines import line_of

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
