"""Which symbols of one name are one thing, and which of them a caller means."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tools.symbols.one_symbol import are_overloads, nearest, one_of
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import Symbol
from lm_tools_bridge.code_intelligence.wire.positions import Position, Span


def symbol(kind: str, path: str, file: str, line: int = 1, text: str = "") -> Symbol:
    """A symbol whose name stands in a line of a file; without a text, in an unknown one."""
    names = tuple(path.split("/"))
    column = text.index(names[-1]) + 1 if text else 1
    span = Span(Position(line, column), Position(line, column + len(names[-1])))
    lines = [*[""] * (line - 1), text] if text else None
    return Symbol(names, kind, Place(Path(file), span, lines), span)


STACK = symbol("class", "Stack", "/p/stack.hpp")
CONSTRUCTORS = [symbol("constructor", "Stack/Stack", "/p/stack.hpp", line) for line in (3, 4)]
TO_JSON = [symbol("method", "Gson/toJson", "/p/Gson.java", line) for line in (1, 9, 20)]
FORWARD = symbol("struct", "dictType", "/p/a.h", 4, "struct dictType;")
DEFINED = symbol("struct", "dictType", "/p/dict.h", 2, "struct dictType { int x; };")


@pytest.mark.parametrize(
    ("symbols", "order"),
    [
        ([STACK, *CONSTRUCTORS], [0, 1, 2]),
        ([*CONSTRUCTORS, STACK], [2, 0, 1]),
        (TO_JSON, [0, 1, 2]),
        ([symbol("function", "fmt/print", file) for file in ("/p/a.h", "/p/b.h")], [0, 1]),
        ([FORWARD, DEFINED], [1, 0]),
        ([symbol("function", "f", "/p/a.py", line) for line in (1, 5)], [0, 1]),
        ([symbol("function", "main", file) for file in ("/p/a.c", "/p/b.c")], None),
        ([symbol("method", "App/run", file) for file in ("/p/a.py", "/p/b.py")], None),
        ([symbol("method", "A/run", "/p/a.py"), symbol("method", "B/run", "/p/a.py", 5)], None),
        ([symbol("class", "A", "/p/a.py"), symbol("class", "A", "/p/b.py")], None),
        ([DEFINED, symbol("struct", "dictType", "/p/b.h", 2, "struct dictType { long y; };")], None),
        ([STACK, symbol("method", "Stack/push", "/p/stack.hpp")], None),
    ],
)
def test_overloads_constructors_and_declarations_are_one(
    symbols: list[Symbol], order: list[int] | None
) -> None:
    assert one_of(symbols) == order


def test_only_overloads_can_be_renamed_alone() -> None:
    assert are_overloads(TO_JSON)
    assert not are_overloads(TO_JSON[:1])
    assert not are_overloads([STACK, *CONSTRUCTORS])
    assert not are_overloads([FORWARD, DEFINED])


def chosen(*symbols: Symbol) -> list[Symbol]:
    return nearest(symbols, lambda each: each, lambda each: each.place.path.is_relative_to("/p"))


def test_the_projects_symbol_comes_before_a_librarys() -> None:
    own, library = symbol("struct", "Group", "/p/cobra.go"), symbol("struct", "Group", "/go/src/flight.go")
    assert chosen(library, own) == [own]
    assert chosen(library) == [library]


def test_code_comes_before_keys_of_data() -> None:
    code, key = symbol("function", "target", "/p/a.ts"), symbol("property", "a/target", "/p/tsconfig.json")
    assert chosen(key, code) == [code]
    assert chosen(key) == [key]


def test_a_definition_comes_before_names_that_are_only_made_known() -> None:
    own = symbol("class", "fmt/buffer", "/p/os.h", 3, "class buffer {")
    imported = symbol("namespace", "buffer", "/p/test.cc", 1, "using fmt::buffer;")
    assert chosen(imported, own) == [own]
    assert chosen(imported) == [imported]
