"""Finds the definitions in one file by its syntax, as a tree of LSP's `DocumentSymbol` objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.code_intelligence.outline.grammars import Grammar

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SYMBOLS: Final = 10_000
"""Definitions of one file; the rest is left out."""
MAX_DEPTH: Final = 100
"""Definitions inside definitions; deeper ones count as being on this level."""
_DEFINITION: Final = "definition."
_METHOD, _FUNCTION, _STRUCT = 6, 12, 23
KINDS: Final[Mapping[str, int]] = {
    "module": 2, "class": 5, "method": _METHOD, "property": 7, "field": 8, "enum": 10, "interface": 11,
    "function": _FUNCTION, "macro": _FUNCTION, "constant": 14, "type": _STRUCT,
}  # fmt: skip
"""LSP's `SymbolKind` by what the queries capture."""
_TYPES: Final = frozenset({5, 10, 11, _STRUCT})
_WHOLE: Final = frozenset({
    "function_definition", "template_declaration", "export_statement", "decorated_definition",
    "lexical_declaration", "variable_declaration", "type_declaration",
})  # fmt: skip
"""Nodes around a captured one that belong to its definition."""
_SPECIFIERS: Final = frozenset({"class_specifier", "struct_specifier", "enum_specifier"})


@dataclass(slots=True)
class Symbol:
    """One definition. Lines and columns count from 0; columns count bytes of UTF-8."""

    name: str
    kind: int
    start: tuple[int, int]
    end: tuple[int, int]
    name_start: tuple[int, int]
    name_end: tuple[int, int]
    children: list[Symbol] = field(default_factory=list)

    def document_symbol(self) -> dict[str, Any]:
        """The `DocumentSymbol` object of LSP."""
        return {
            "name": self.name,
            "kind": self.kind,
            "range": span(self.start, self.end),
            "selectionRange": span(self.name_start, self.name_end),
            "children": [child.document_symbol() for child in self.children],
        }

    def with_containers(self, container: str = "") -> Iterator[tuple[str, Symbol]]:
        """The symbol and those inside it, each with the name path of what contains it (`Outer/Inner`)."""
        yield container, self
        inside = f"{container}/{self.name}" if container else self.name
        for child in self.children:
            yield from child.with_containers(inside)


def span(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    """The `Range` object of LSP."""
    return {
        "start": {"line": start[0], "character": start[1]},
        "end": {"line": end[0], "character": end[1]},
    }


def symbols_of(text: bytes, grammar: Grammar) -> Sequence[Symbol]:
    """The outermost definitions of a file in UTF-8, in order, with those inside them."""
    from tree_sitter import QueryCursor

    root = grammar.parser.parse(text).root_node
    definitions: dict[tuple[int, int], Symbol] = {}  # by the place of the name: patterns overlap
    for _, captures in QueryCursor(grammar.query).matches(root):
        symbol = _symbol(captures)
        if symbol is not None:
            definitions.setdefault(symbol.name_start, symbol)
        if len(definitions) >= MAX_SYMBOLS:
            break
    return _nested(
        sorted(
            definitions.values(),
            key=lambda definition: (definition.start, [-place for place in definition.end]),
        )
    )


def _symbol(captures: Mapping[str, Sequence[Node]]) -> Symbol | None:
    kind = next((name for name in captures if name.startswith(_DEFINITION)), None)
    if kind is None or not captures.get("name"):
        return None
    name, node = captures["name"][0], captures[kind][0]
    if node.type in _SPECIFIERS and node.child_by_field_name("body") is None:
        return None  # `class A;` defines nothing
    while node.parent is not None and node.parent.type in _WHOLE:
        node = node.parent
    return Symbol(
        (name.text or b"").decode("utf-8", "replace"),
        KINDS.get(kind.removeprefix(_DEFINITION), _STRUCT),
        _place(node.start_point),
        _place(node.end_point),
        _place(name.start_point),
        _place(name.end_point),
    )


def _place(point: Any) -> tuple[int, int]:
    return (point.row, point.column)


def _nested(ordered: Sequence[Symbol]) -> Sequence[Symbol]:
    """Put each symbol into the innermost one around it. A function inside a type is a method."""
    outermost: list[Symbol] = []
    around: list[Symbol] = []
    for symbol in ordered:
        while around and around[-1].end < symbol.end:
            around.pop()
        if around:
            container = around[min(len(around), MAX_DEPTH) - 1]
            container.children.append(symbol)
            if symbol.kind == _FUNCTION and container.kind in _TYPES:
                symbol.kind = _METHOD
        else:
            outermost.append(symbol)
        around.append(symbol)
    return outermost
