"""Symbols as servers list them for a file, or find them in the project, in one form."""

from __future__ import annotations

import errno
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServer, PositionEncoding
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.schemas import SYMBOL_KINDS
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, place_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import path_of
from lm_tools_bridge.code_intelligence.tools.symbols.written_declarations import written_declarations
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire import positions
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import Position, Span, span_from_server
from workspace_server.files.file_gate import OUTSIDE
from workspace_server.results import clean_text

OUTLINE: Final = "textDocument/documentSymbol"
MAX_SYMBOLS: Final = 20_000
"""Symbols of one file: only generated files have more."""
_FUNCTIONS: Final = frozenset({"function", "method", "constructor"})
_NAMES: Final = frozenset({"variable", "constant"})
_LOCAL_KINDS: Final = frozenset({"variable", "constant", "property", "function", "class"})
_NULL: Final = SYMBOL_KINDS.index("null") + 1
MAX_DEPTH: Final = 50
"""Nesting of symbols: a server in error could nest until Python's stack ends."""
_SCRIPTS: Final = frozenset({".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"})
PLAIN_SCRIPTS: Final = frozenset({".js", ".mjs", ".cjs", ".jsx"})
IMPORT: Final = re.compile(
    r"^[ \t]*(?:import\b(?!\s*[(.])[^'\"`;]*['\"]|export\s+(?:type\s+)?\{[^}]*\})"
    r"|(?:^|,)[ \t]*(?:(?:var|let|const)[ \t]+)?(?:[\w$]+|\{[^{}=]*\})[ \t]*=[ \t]*require\(",
    re.MULTILINE,
)
"""An import, or names that are exported from elsewhere or a second time."""
BINDING: Final = re.compile(
    rf"{IMPORT.pattern}"
    r"|^(?:var|let|const)[ \t]+(?:\{[^{}=;]*\}[ \t]*=|([\w$]+)[ \t]*=[ \t]*(?:[\w$]+\.)+\1[ \t]*;?[ \t]*$)",
    re.MULTILINE,
)
"""The same, or a name of a CommonJS module for a member of another: `const {parse} = utils;`."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One declaration.

    Attributes:
        path: its name path; the last part is its own name.
        kind: one of `SYMBOL_KINDS`.
        place: where its name stands.
        whole: the range of the whole declaration.
        is_written: whether it was read from the text, because its server does not list it.
        is_local: whether it is declared in a function, which alone can use it.
    """

    path: tuple[str, ...]
    kind: str
    place: Place
    whole: Span
    is_written: bool = False
    is_local: bool = False

    @property
    def name_path(self) -> str:
        """E.g. `Stack/push`."""
        return "/".join(self.path)

    def title(self) -> str:
        """E.g. `method Stack/push`."""
        return f"{self.kind} {self.name_path}"

    def structured(self, workplace: Workplace, around: int = 1) -> dict[str, Any]:
        """As in `structuredContent`."""
        return {
            "name": self.path[-1],
            "namePath": self.name_path,
            "kind": self.kind,
            "signature": self.place.first_line(),
            "lastLine": self.whole.end.line,
            "location": self.place.structured(workplace, around),
        }


def kind_name(value: Any) -> str:
    """The name of an LSP symbol kind."""
    is_known = isinstance(value, int) and 1 <= value <= len(SYMBOL_KINDS)
    return SYMBOL_KINDS[value - 1] if is_known else "variable"


async def outline(
    server: LanguageServer, path: Path, texts: Texts, lines: Sequence[str] | None = None
) -> list[Symbol]:
    """The symbols of a file in their order, containers before what they contain.

    Args:
        server: whom to ask.
        path: the file.
        texts: the files read by this call.
        lines: those of the file, if the server has just opened it.

    Raises:
        OSError: the file cannot be read, or must not be shown.
        RequestFailed, RequestTimedOut, ServerGone: the server does not answer.
    """
    if lines is None:
        lines = await server.open(path)
    if texts.showable_lines(lines) is None:
        raise PermissionError(errno.EACCES, OUTSIDE, str(path))
    memo = server.memo(path)
    remembered: list[Symbol] | None = memo.get(OUTLINE)
    if remembered is not None:
        return remembered
    result = await server.request(OUTLINE, {"textDocument": {"uri": to_uri(path)}})
    entries = _entries(list_of(result), (), 0)
    symbols = []
    for _, (names, raw) in zip(range(MAX_SYMBOLS), entries, strict=False):
        symbol = _symbol(names, raw, path, lines, server.encoding)
        symbols += [] if symbol is None else [symbol]
    if path.suffix in _SCRIPTS:
        is_imported = import_finder(lines, BINDING if path.suffix in PLAIN_SCRIPTS else IMPORT)
        symbols = [each for each in symbols if not is_imported(each.place.span.start)]
    symbols = with_written(symbols, path, lines)
    symbols.sort(key=lambda each: (each.whole.start, -each.whole.end.line))
    symbols = list(_with_locals(symbols))
    if symbols and server.memo(path) is memo:  # nothing changed meanwhile
        memo[OUTLINE] = symbols
    return symbols


def _with_locals(symbols: Sequence[Symbol]) -> Iterator[Symbol]:
    """The symbols, containers before what they contain, with what is local to functions marked so."""
    around: list[Symbol] = []
    for symbol in symbols:
        while around and around[-1].whole.end <= symbol.whole.start:
            around.pop()
        # an attribute that a method sets lies in the method, but belongs to its class
        functions = (each for each in around if each.kind in _FUNCTIONS)
        is_local = symbol.kind in _LOCAL_KINDS and any(
            each.path[-1] in symbol.path[:-1] or len(symbol.path) == 1 for each in functions
        )
        # a variable in a variable lies in the function that is its value
        is_local = is_local or (symbol.kind in _NAMES and bool(around) and around[-1].kind in _NAMES)
        yield replace(symbol, is_local=True) if is_local else symbol
        around.append(symbol)


def written_symbols(path: Path, lines: Sequence[str]) -> list[Symbol]:
    """The declarations of a file that servers leave out: see `written_declarations`."""
    symbols = []
    for each in written_declarations(path.suffix, lines):
        place = Place(path, positions.on_line(each.line, each.column, len(each.path[-1])), lines)
        end = Position(each.last_line, len(lines[each.last_line - 1]) + 1)
        whole = Span(Position(each.line, 1), end)
        symbols.append(Symbol(each.path, each.kind, place, whole, is_written=True))
    return symbols


def with_written(symbols: Sequence[Symbol], path: Path, lines: Sequence[str]) -> list[Symbol]:
    """The symbols that a server lists for a file, and those that it leaves out.

    Of `app.handle = function handle() {}` servers list the name of the function, which only the function
    itself can use; its uses are those of the property.
    """
    declared = written_symbols(path, lines)
    if path.suffix == ".py":
        symbols = _without_slots(symbols, {each.path for each in declared}, lines)
    written = {(each.place.span.start.line, each.path[-1]): each for each in declared}
    listed, names = [], {symbol.path for symbol in symbols}
    for symbol in symbols:
        match = written.pop((symbol.place.span.start.line, symbol.path[-1]), None)
        is_moved = match is not None and path.suffix in _SCRIPTS
        listed.append(replace(symbol, place=match.place) if match is not None and is_moved else symbol)
    return [*listed, *(each for each in written.values() if each.path not in names)]


def _without_slots(
    symbols: Sequence[Symbol], written: Set[tuple[str, ...]], lines: Sequence[str]
) -> list[Symbol]:
    """The symbols without names in `__slots__` that methods assign: servers know no uses of the strings."""

    def is_slot(symbol: Symbol) -> bool:
        start = symbol.place.span.start
        before = lines[start.line - 1][: start.column - 1] if start.line <= len(lines) else ""
        return before.endswith(("'", '"')) and symbol.path in written

    return [symbol for symbol in symbols if not is_slot(symbol)]


def _entries(
    items: Sequence[Mapping[str, Any]], above: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The entries of a tree of `DocumentSymbol`, or a list of `SymbolInformation`, with their names."""
    for raw in items:
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            continue
        children = raw.get("children")
        if raw.get("kind") == _NULL and isinstance(children, list) and children and depth < MAX_DEPTH:
            # clangd lists a macro that opens a namespace as if it were around it
            yield from _entries(list_of(children), above, depth + 1)
            continue
        container = raw.get("containerName")
        flat = (container,) if isinstance(container, str) and container else ()
        names = (*above, *flat, clean_text(name))
        yield names, raw
        if isinstance(children, list) and depth < MAX_DEPTH:
            yield from _entries(list_of(children), names, depth + 1)


def _symbol(
    names: Sequence[str],
    raw: Mapping[str, Any],
    path: Path,
    lines: Sequence[str],
    encoding: PositionEncoding,
) -> Symbol | None:
    location = raw.get("location")
    flat = location.get("range") if isinstance(location, Mapping) else None
    whole = span_from_server(raw.get("range", flat), lines, encoding)
    if whole is None:
        return None
    selection = span_from_server(raw.get("selectionRange"), lines, encoding) or whole
    name_path = path_of(names)
    place = Place(path, _at_name(selection, name_path[-1], lines), lines)
    return Symbol(name_path, kind_name(raw.get("kind")), place, whole)


def _at_name(span: Span, name: str, lines: Sequence[str]) -> Span:
    """The span of the name itself: some servers give the range of the whole declaration."""
    line = lines[span.start.line - 1] if span.start.line <= len(lines) else ""
    start = span.start.column - 1
    if line.startswith(name, start) or (at := line.find(name, start)) < 0:
        return span
    return positions.on_line(span.start.line, at + 1, len(name))


def found_path(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The name path of a symbol of `workspace/symbol`; empty if it has no name."""
    name, container = raw.get("name"), raw.get("containerName")
    if not isinstance(name, str) or not name:
        return ()
    if _is_go(raw.get("location")):  # gopls names methods and fields `Command.Flags`, after their package
        return tuple(part for part in clean_text(name).rpartition("/")[2].split(".") if part)
    above = (container,) if isinstance(container, str) and container else ()
    return path_of((*above, clean_text(name)))


def _is_go(location: Any) -> bool:
    uri = location.get("uri") if isinstance(location, Mapping) else None
    return isinstance(uri, str) and uri.endswith(".go")


def found_symbol(raw: Mapping[str, Any], texts: Texts, encoding: PositionEncoding) -> Symbol | None:
    """A symbol of `workspace/symbol`; None if it is none, or its file must not be shown. Blocks."""
    name_path, location = found_path(raw), raw.get("location")
    if not name_path or not isinstance(location, Mapping):
        return None
    place = place_of(location.get("uri"), location.get("range"), texts, encoding)
    if place is None or not texts.admits(place.path):
        return None
    at_name = Place(place.path, _at_name(place.span, name_path[-1], place.lines or ()), place.lines)
    return Symbol(name_path, kind_name(raw.get("kind")), at_name, place.span)


def import_finder(lines: Sequence[str], pattern: re.Pattern[str] = IMPORT) -> Callable[[Position], bool]:
    """Tells of a place in a file of these suffixes whether it is in an import or a list of exports."""
    imports = [match.span() for match in pattern.finditer("\n".join(lines))]
    if not imports:
        return lambda place: False
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    begins = [begin for begin, _ in imports]

    def is_imported(place: Position) -> bool:
        offset = starts[place.line - 1] + place.column - 1
        number = bisect_right(begins, offset) - 1
        return number >= 0 and offset < imports[number][1]

    return is_imported
