"""Tests of the outline of one file, with the real grammars."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.outline.grammars import GRAMMARS, grammar
from lm_tools_bridge.code_intelligence.outline.syntax_symbols import symbols_of

SAMPLES: dict[str, tuple[str, list[str]]] = {
    "python": (
        "class A:\n    def f(self):\n        def g(): pass\n\nX = 1\ndef f(): pass\n",
        ["5 A", "6 A/f", "12 A/f/g", "14 X", "12 f"],
    ),
    "javascript": (
        "class A { f() {} }\nfunction g() {}\nconst h = () => 1\n",
        ["5 A", "6 A/f", "12 g", "12 h"],
    ),
    "javascriptreact": ("export function App() { return <p>1</p> }\n", ["12 App"]),
    "typescript": (
        "interface I { f(): void }\nexport class A implements I { f() {} }\nenum E { x }\ntype T = number\n",
        ["11 I", "6 I/f", "5 A", "6 A/f", "10 E", "23 T"],
    ),
    "typescriptreact": ("export function App(): JSX.Element { return <p>1</p> }\n", ["12 App"]),
    "c": (
        "struct point { int x; };\nstruct later;\n#define TWICE(x) (2 * (x))\nint main(void) { return 0; }\n",
        ["5 point", "12 TWICE", "12 main"],
    ),
    "cpp": (
        "namespace n {\nclass A;\nclass B { void f() {} };\n}\nvoid n::B::g() {}\ntemplate <class T> T id(T x) { return x; }\n",
        ["2 n", "5 n/B", "6 n/B/f", "6 g", "12 id"],
    ),
    "go": ("package p\ntype T struct{}\nfunc (t T) M() {}\nfunc F() {}\n", ["23 T", "6 M", "12 F"]),
    "rust": (
        "struct S;\ntrait T { fn f(&self); }\nimpl S { fn g(&self) {} }\nfn h() {}\n",
        ["5 S", "11 T", "6 T/f", "6 g", "12 h"],
    ),
    "java": (
        "class A { int f() { return 1; } enum E { X } }\ninterface I {}\n",
        ["5 A", "6 A/f", "10 A/E", "11 I"],
    ),
    "csharp": (
        "namespace N { class A { int F() => 1; int P { get; } } }\n",
        ["2 N", "5 N/A", "6 N/A/F", "7 N/A/P"],
    ),
    "ruby": ("module M\n  class A\n    def f; end\n  end\nend\n", ["2 M", "5 M/A", "6 M/A/f"]),
    "php": ("<?php class A { function f() {} }\nfunction g() {}\n", ["5 A", "6 A/f", "12 g"]),
    "lua": ("function f() end\nlocal function g() end\n", ["12 f", "12 g"]),
    "swift": ("class A { func f() {} }\nfunc g() {}\n", ["5 A", "6 A/f", "12 g"]),
}


def paths(symbols: Any) -> list[str]:
    pairs = [pair for symbol in symbols for pair in symbol.with_containers()]
    return [
        f"{one.kind} {container}/{one.name}" if container else f"{one.kind} {one.name}"
        for container, one in pairs
    ]


@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_definitions_are_nested_and_have_their_kinds(language: str) -> None:
    text, expected = SAMPLES[language]
    assert paths(symbols_of(text.encode(), grammar(language))) == expected


def test_range_holds_the_whole_definition_and_columns_count_bytes() -> None:
    (symbol,) = symbols_of('"é"; int f() {\n return 1;\n}\n'.encode(), grammar("c"))
    found = symbol.document_symbol()
    assert found["selectionRange"] == {
        "start": {"line": 0, "character": 10},
        "end": {"line": 0, "character": 11},
    }
    assert found["range"]["start"] == {"line": 0, "character": 6}
    assert found["range"]["end"] == {"line": 2, "character": 1}


def test_broken_source_still_has_the_outline_of_its_whole_parts() -> None:
    assert "12 ok" in paths(symbols_of(b"def ok(): pass\n\nclass (((\n", grammar("python")))


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\x00", b"(" * 20_000], ids=["empty", "binary", "deep"])
def test_what_is_no_source_has_no_symbols(text: bytes) -> None:
    assert list(symbols_of(text, grammar("python"))) == []


def test_deeply_nested_definitions_do_not_exhaust_the_stack() -> None:
    text = "".join(" " * depth + f"def f{depth}():\n" for depth in range(1_500)) + " " * 1_500 + "pass\n"
    symbols = symbols_of(text.encode(), grammar("python"))
    assert len(paths(symbols)) > 500  # the grammar itself gives up on the outermost ones
    assert [symbol.document_symbol()["kind"] for symbol in symbols] == [12] * len(symbols)
