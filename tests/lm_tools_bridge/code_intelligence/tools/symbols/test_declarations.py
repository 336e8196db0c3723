"""Definitions and declarations, told apart by the text around a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tools.symbols.declarations import Role, role_of
from lm_tools_bridge.code_intelligence.wire.positions import Position


def role(text: str, name: str, file: str = "a.h", *, is_value: bool = False) -> Role | None:
    """The role of the place where a name first begins in a text."""
    lines = text.split("\n")
    line = next(number for number, one in enumerate(lines) if name in one)
    place = Position(line + 1, lines[line].index(name) + 1)
    return role_of(Path(file), lines, place, is_value=is_value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("int add(int a, int b);", "add"),
        ("int add(int a,\n        int b = first({1, 2}));", "add"),
        ('extern "C" int add(int);', "add"),
        ("template <class T>\nT most(T a, T b);  // { no body }", "most"),
        ("auto all() -> std::vector<int>;", "all"),
        ("class Stack {\n  void push(int) const;\n};", "push"),
        ("class Stack {\n  virtual void pop() = 0;\n};", "pop"),
        ("bool operator==(const Stack& a);", "operator"),
        ("struct S;", "S;"),
        ("class API_EXPORT Stack;", "Stack"),
        ("enum class Color : int;", "Color"),
        ("extern int level;", "level"),
        ("extern int levels[3];", "levels"),
    ],
)
def test_what_has_no_body_only_declares(text: str, name: str) -> None:
    assert role(text, name) == "declaration"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("int add(int a, int b)\n{\n  return a + b;\n}", "add"),
        ("Stack::Stack(int size) : size(size), top{0} {}", "Stack(int"),
        ("Stack() = default;", "Stack"),
        ("Stack(const Stack&) = delete;", "Stack("),
        ("struct S final : public T\n{\n};", "S final"),
        ("enum Color { RED, BLUE };", "Color"),
        ("extern int level = 3;", "level"),
        ("int level{3};", "level"),
    ],
)
def test_what_has_a_body_or_a_value_defines(text: str, name: str) -> None:
    assert role(text, name) == "definition"


@pytest.mark.parametrize(
    ("text", "name"),
    [("int level;", "level"), ("struct S s;", "s;"), ("void f(int size);", "size"), ("MACRO(x)", "MACRO")],
)
def test_what_cannot_be_told_is_left_to_the_server(text: str, name: str) -> None:
    assert role(text, name) is None


def test_a_variable_with_arguments_is_no_function() -> None:
    assert role("Stack stack(one, two);", "stack") == "declaration"
    assert role("Stack stack(one, two);", "stack", is_value=True) is None


@pytest.mark.parametrize(
    ("file", "text", "name", "wanted"),
    [
        ("a.pyi", "def push(x): ...", "push", "declaration"),
        ("a.py", "def push(x): ...", "push", None),
        ("a.d.ts", "declare function push(x: number): void;", "push", "declaration"),
        ("a.d.mts", "export declare const top: number;", "top", "declaration"),
        ("a.d.ts", "export interface Stack { top: number }", "Stack", None),
        ("a.ts", "function push(x: number): void {}", "push", None),
        ("a.rs", "fn push(x: i32);", "push", None),
    ],
)
def test_stubs_declare_and_other_languages_are_believed(
    file: str, text: str, name: str, wanted: Role | None
) -> None:
    assert role(text, name, file) == wanted


def test_a_place_behind_the_end_or_in_an_unknown_text_has_no_role() -> None:
    assert role_of(Path("a.h"), None, Position(1, 1)) is None
    assert role_of(Path("a.h"), ["int a();"], Position(7, 1)) is None
