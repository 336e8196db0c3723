"""Decides which of the symbols with one name a caller means, and which of them are one thing. Pure.

A question that needs a second call only because of our bookkeeping costs a model a round trip: a class and
its constructors, the overloads of a function, and declarations of what is defined elsewhere are one answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from lm_tools_bridge.code_intelligence.tools.symbols.declarations import role_of, tells_apart
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import Symbol

_DATA: Final = frozenset(
    {".json", ".jsonc", ".yaml", ".yml", ".toml", ".css", ".scss", ".less", ".html", ".htm"}
)
"""Suffixes of files whose keys are names, but no code."""
_FUNCTIONS: Final = frozenset({"function", "method", "constructor", "property", "operator"})
_TYPES: Final = frozenset({"class", "struct", "interface", "enum", "type parameter", "module", "object"})

_USING: Final = re.compile(r"using\s+(?:typename\s+)?[\w:]+\s*;")

T = TypeVar("T")


def nearest(
    symbols: Sequence[T], symbol_of: Callable[[T], Symbol], is_own: Callable[[Symbol], bool]
) -> list[T]:
    """Those that a caller means most likely: the project's before a library's, code before keys of data,
    what all can use before variables of functions, what a server lists before attributes that are assigned.

    Args:
        symbols: all with the name, each with whatever belongs to it.
        symbol_of: the symbol of one.
        is_own: whether a symbol is the project's.
    """
    own = [each for each in symbols if is_own(symbol_of(each))] or list(symbols)
    code = [each for each in own if symbol_of(each).place.path.suffix not in _DATA] or own
    code = [each for each in code if not _is_import(symbol_of(each))] or code
    code = [each for each in code if not symbol_of(each).is_local] or code
    # an attribute often has the name of what is assigned to it
    return [each for each in code if not _is_attribute(symbol_of(each))] or code


def _is_import(symbol: Symbol) -> bool:
    """Whether this only makes a name of another namespace known, as `using fmt::print;` does."""
    is_c = tells_apart(symbol.place.path)
    return is_c and _USING.match(symbol.place.first_line()) is not None


def _is_attribute(symbol: Symbol) -> bool:
    return symbol.is_written and symbol.kind in {"field", "variable"}


def one_of(symbols: Sequence[Symbol]) -> list[int] | None:
    """The numbers of the symbols, that of the one to show first, if all are one thing; None if not.

    Args:
        symbols: at least two.
    """
    return _declared_once(symbols) or _class_with_constructors(symbols) or _overloads(symbols)


def names_of_type(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Those that are another name of a type in C, its tag or its `typedef`, which a rename changes apart."""
    is_type = [tells_apart(each.place.path) and each.kind in _TYPES for each in symbols]
    return [symbol for symbol, is_one in zip(symbols, is_type, strict=True) if is_one]


def are_overloads(symbols: Sequence[Symbol]) -> bool:
    """Whether these are functions of one name, each of which could be renamed alone."""
    return len(symbols) > 1 and _overloads(symbols) is not None and _declared_once(symbols) is None


def _declared_once(symbols: Sequence[Symbol]) -> list[int] | None:
    """One definition, and declarations of the same."""
    if len({symbol.path for symbol in symbols}) > 1:
        return None
    if not all(tells_apart(symbol.place.path) and symbol.kind in _TYPES for symbol in symbols):
        return None
    roles = [role_of(symbol.place.path, symbol.place.lines, symbol.place.span.start) for symbol in symbols]
    others = [
        number
        for number, role in enumerate(roles)
        if role != "declaration" and not _is_name_of_tag(symbols[number], symbols)
    ]
    if len(others) > 1:
        return None
    first = others[0] if others else 0
    return [first, *(number for number in range(len(symbols)) if number != first)]


def _is_name_of_tag(symbol: Symbol, symbols: Sequence[Symbol]) -> bool:
    """Whether C gives a type its name again here: `typedef struct X {…} X;`, `typedef struct X X;`."""
    start, lines = symbol.place.span.start, symbol.place.lines
    if not lines or start.line > len(lines):
        return False
    before = lines[start.line - 1][: start.column - 1]
    if re.search(rf"\btypedef\s+(?:struct|union|enum|class)\s+{re.escape(symbol.path[-1])}\s+$", before):
        return True
    return re.search(r"}[^;{}]*$", before) is not None and any(
        other.place.path == symbol.place.path
        and other.place.span.start < start
        and other.whole.end.line == start.line
        for other in symbols
        if other is not symbol
    )


def _class_with_constructors(symbols: Sequence[Symbol]) -> list[int] | None:
    shortest = min(range(len(symbols)), key=lambda number: len(symbols[number].path))
    of_class = symbols[shortest].path
    constructors = [number for number in range(len(symbols)) if number != shortest]
    if symbols[shortest].kind not in _TYPES:
        return None
    if any(symbols[number].path != (*of_class, of_class[-1]) for number in constructors):
        return None
    return [shortest, *constructors]


def _overloads(symbols: Sequence[Symbol]) -> list[int] | None:
    """Functions of one name path: in one file, or in a namespace or class of C++ that spans several."""
    first = symbols[0]
    if any(symbol.path != first.path or symbol.kind not in _FUNCTIONS for symbol in symbols):
        return None
    is_one_file = len({symbol.place.path for symbol in symbols}) == 1
    spans_files = len(first.path) > 1 and all(tells_apart(symbol.place.path) for symbol in symbols)
    return list(range(len(symbols))) if is_one_file or spans_files else None
