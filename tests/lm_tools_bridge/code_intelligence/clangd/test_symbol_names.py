"""Tests of what is read from clangd's words about a symbol."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.clangd.symbol_names import (
    category,
    hover_text,
    is_generated,
    kind_name,
    name_in,
    qualified,
    signature_in,
)

HOVER = """### instance-method `push`

---
→ `void`
Parameters:
- `int value`

Adds a value.

---
```cpp
// In Stack
public: void push(int value,
                  bool front = false)
```"""


def test_kind_name_and_signature_are_read_from_a_hover_text() -> None:
    assert name_in(HOVER) == ("method", "push")
    assert signature_in(HOVER) == "public: void push(int value, bool front = false)"


@pytest.mark.parametrize("text", ["", "int", "### unheard-of `x`", "```cpp\n// only a comment\n```"])
def test_a_hover_text_without_a_symbol_tells_nothing(text: str) -> None:
    assert name_in(text) is None
    assert signature_in(text) is None


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"contents": {"kind": "markdown", "value": " a "}}, "a"),
        ({"contents": "b"}, "b"),
        ({"contents": ["c"]}, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_hover_text_is_empty_where_there_is_none(result: Any, text: str) -> None:
    assert hover_text(result) == text


def test_every_kind_has_a_category() -> None:
    assert [category(kind_name(number)) for number in (12, 13, 5, 3, 1000)] == [
        *("callable", "valueLike", "typeLike", "namespaceLike", "unknown")
    ]
    assert kind_name("method") == kind_name(0) == "unknown"


def test_generated_files_of_unreal_are_recognised() -> None:
    assert is_generated("/p/A.generated.h") and is_generated("/p/A.gen.cpp")
    assert not is_generated("/p/generated.h") and not is_generated("/p/A.cpp")


def test_container_makes_a_name_qualified() -> None:
    assert qualified({"name": "push", "containerName": "ns::Stack"}) == "ns::Stack::push"
    assert qualified({"name": "main", "containerName": ""}) == "main"
