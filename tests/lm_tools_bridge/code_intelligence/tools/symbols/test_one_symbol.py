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


def tagged(*texts: str) -> list[Symbol]:
    """A structure with its tag in the first line, and the type with its name in the last one; of one file."""
    tag = symbol("struct", "X", "/p/x.h", 1, texts[0])
    column = texts[-1].rindex("X") + 1
    end = Position(len(texts), max(1, column - 1))
    span = Span(Position(len(texts), column), Position(len(texts), column + 1))
    lines = list(texts)
    return [
        Symbol(tag.path, "struct", Place(tag.place.path, tag.place.span, lines), Span(tag.whole.start, end)),
        Symbol(tag.path, "class", Place(tag.place.path, span, lines), Span(tag.whole.start, span.end)),
    ]


@pytest.mark.parametrize(
    "texts",
    [
        ("typedef struct X {", "  int a;", "} X;"),
        ("typedef struct X {", "  int a;", "} Other, X;"),
        ("typedef struct X { int a; } X;",),
        ("struct X { int a; }; typedef struct X X;",),
    ],
)
def test_a_tag_of_c_and_the_type_of_its_name_are_one(texts: tuple[str, ...]) -> None:
    both = tagged(*texts)
    assert one_of(both) == [0, 1]
    assert one_of(both[::-1]) == [1, 0]


def test_two_types_of_one_name_in_one_file_are_two() -> None:
    assert one_of(tagged("struct X { int a; }; struct X { int b; };")) is None


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
