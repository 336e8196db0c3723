"""Finds the symbol that a call is about: by name or name path, or by file and position."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import (
    LanguageServer,
    RequestFailed,
    RequestTimedOut,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.tools import asking
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.symbols.one_symbol import are_overloads, nearest, one_of
from lm_tools_bridge.code_intelligence.tools.symbols.places import locations_of, places_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import name_query
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_search import Findings, search
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import OUTLINE, Symbol, outline
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import OutsideText, Position, to_server
from workspace_server.tool import InvalidArguments, ToolError

MAX_ALIKE: Final = 30
"""Overloads, constructors and declarations that are asked for together: each costs a request."""
MAX_SIGNATURE: Final = 100
"""Characters of the line that declares a candidate: enough to tell overloads apart."""
MAX_CANDIDATES: Final = 8
"""Symbols of one name that are told and compared: each costs a request, and a model needs a few to choose."""
_DEFINITION: Final = "textDocument/definition"
_WHAT: Final[Mapping[str, str]] = {
    "textDocument/references": "references",
    "textDocument/implementation": "implementations",
    "textDocument/prepareCallHierarchy": "call hierarchies",
    "textDocument/prepareTypeHierarchy": "type hierarchies; `implementations` may find derived types",
    "textDocument/rename": "renaming",
    "textDocument/codeAction": "code actions",
}
"""What a method is for, for the errors of servers that lack it."""
_OF_ONE: Final = frozenset({"textDocument/rename", "textDocument/codeAction"})
"""What is done to one of several overloads, not to all."""
Home = tuple[Path, int]
"""A file and a line in which a symbol is declared or defined."""


class UnknownSymbol(ToolError):
    """No server has a symbol of this name.

    Attributes:
        name: the name.
        message: for the caller.
        doubts: the servers that may find it later, e.g. because they still read the project.
    """

    def __init__(
        self, name: str, message: str, structured: Mapping[str, Any] | None, doubts: Sequence[Freshness] = ()
    ) -> None:
        super().__init__(message, structured)
        self.name = name
        self.doubts = doubts


@dataclass(frozen=True, slots=True)
class Target:
    """A symbol: its server, file, the LSP position of its name, its name, and its declaration if known.

    `others` are overloads, constructors and declarations of the same thing, whose uses are its uses, too.
    """

    server: LanguageServer
    path: Path
    position: Mapping[str, int]
    name: str
    symbol: Symbol | None
    unavailable: Sequence[Unavailable]
    others: Sequence[Symbol] = ()

    @property
    def params(self) -> dict[str, Any]:
        """The `TextDocumentPositionParams`."""
        return {"textDocument": {"uri": to_uri(self.path)}, "position": dict(self.position)}


async def find_target(
    workplace: Workplace, arguments: Mapping[str, Any], method: str, waiting: Waiting, texts: Texts
) -> Target:
    """The symbol of a call.

    Args:
        workplace: where it is.
        arguments: with the members of `schemas.TARGET`.
        method: what its server must be able to do.
        waiting: see `Waiting`.
        texts: the files read by this call.

    Raises:
        InvalidArguments: it is not named, or not uniquely.
        ToolError: there is no such symbol, or no server that can do this.
    """
    name, file, line = arguments.get("symbol"), arguments.get("filePath"), arguments.get("line")
    if name is None and (file is None or line is None):
        raise InvalidArguments("/symbol", "give a symbol's name, or filePath with line and character")
    path = None if file is None else await workplace.find_file(file)
    if path is not None and line is not None:
        return await _at_position(workplace, path, arguments, method, waiting, texts)
    try:
        query = name_query(str(name))
    except ValueError as error:
        raise InvalidArguments("/symbol", str(error)) from None
    findings = await search(workplace, query, path, waiting, texts)
    if not findings.symbols:
        raise _unknown(str(name), findings)
    (symbol, *others), server = await _only(workplace, str(name), findings, texts)
    if method in _OF_ONE and are_overloads([symbol, *others]):
        raise _several(workplace, str(name), [symbol, *others])
    unavailable: Sequence[Unavailable] = _about(symbol.place.path, findings.unavailable)
    if not server.supports(method):
        server, unavailable = await _server_for(workplace, symbol.place.path, method, waiting)
    lines = await _open(server, symbol.place.path, workplace)
    position = to_server(symbol.place.span.start, lines, server.encoding)
    if isinstance(position, OutsideText):
        raise ToolError(f"{workplace.shown_path(symbol.place.path)} changed meanwhile; call again")
    return Target(server, symbol.place.path, position, symbol.path[-1], symbol, unavailable, others)


async def positions_of(workplace: Workplace, target: Target) -> list[dict[str, Any]]:
    """The `TextDocumentPositionParams` of all that the target stands for, its own first."""
    params = [target.params]
    for other in target.others:
        lines = await _open(target.server, other.place.path, workplace)
        position = to_server(other.place.span.start, lines, target.server.encoding)
        if not isinstance(position, OutsideText):
            params.append({"textDocument": {"uri": to_uri(other.place.path)}, "position": position})
    return params


async def _at_position(  # noqa: PLR0917  the facts about one call
    workplace: Workplace,
    path: Path,
    arguments: Mapping[str, Any],
    method: str,
    waiting: Waiting,
    texts: Texts,
) -> Target:
    server, unavailable = await _server_for(workplace, path, method, waiting)
    lines = await _open(server, path, workplace)
    line, character, name = arguments["line"], arguments.get("character"), arguments.get("symbol")
    symbols = await _symbols(server, path, texts, lines)
    if character is None:
        if not 1 <= line <= len(lines):
            raise InvalidArguments("/line", f"the file has {len(lines)} lines")
        character = _character_in(lines[int(line) - 1], int(line), name, symbols)
    ours = Position(int(line), int(character))
    position = to_server(ours, lines, server.encoding)
    if isinstance(position, OutsideText):
        pointer = "/line" if not 1 <= line <= len(lines) else "/character"
        raise InvalidArguments(pointer, position.reason)
    symbol = next(
        (each for each in symbols if each.place.span.start <= ours <= each.place.span.end),
        None,
    )
    return Target(server, path, position, _word_at(lines, ours), symbol, unavailable)


def _character_in(text: str, line: int, name: str | None, symbols: Sequence[Symbol]) -> int:
    """Where in a line the symbol stands whose character was not given."""
    if name is not None:
        last = name_query(name).name
        match = re.search(rf"(?<!\w){re.escape(last)}(?!\w)", text)
        if match is None:
            raise InvalidArguments("/symbol", f"line {line} does not contain {last}")
        return match.start() + 1
    declared = [each.place.span.start.column for each in symbols if each.place.span.start.line == line]
    if not declared:
        raise InvalidArguments("/character", f"line {line} declares no symbol; give character or symbol")
    return declared[0]


def _word_at(lines: Sequence[str], place: Position) -> str:
    """The name at a place; empty if there is none."""
    matches = re.finditer(r"[\w$]+", lines[place.line - 1])
    return next((match[0] for match in matches if match.start() < place.column <= match.end() + 1), "")


async def _symbols(
    server: LanguageServer, path: Path, texts: Texts, lines: Sequence[str]
) -> Sequence[Symbol]:
    """The outline, which only adds to an answer."""
    try:
        return await outline(server, path, texts, lines) if server.supports(OUTLINE) else ()
    except (RequestFailed, RequestTimedOut, OSError):
        return ()


async def _server_for(
    workplace: Workplace, path: Path, method: str, waiting: Waiting
) -> tuple[LanguageServer, Sequence[Unavailable]]:
    obtained = await workplace.servers.for_file(path, "symbols", wait_s=waiting.left_s)
    running, unavailable = asking.split(obtained)
    for server in running:
        if server.supports(method):
            return server, unavailable
    if running:
        names = ", ".join(server.specification.name for server in running)
        lacks = f"offers no {_WHAT.get(method, method)}"
        raise ToolError(
            f"only {names} runs, which {lacks}. {asking.reasons(unavailable)}"
            if unavailable
            else f"{names} {lacks}",
            {"method": method, "unavailable": asking.unavailable_members(unavailable)},
        )
    raise asking.no_server(unavailable, workplace.shown_path(path))


def _about(path: Path, unavailable: Sequence[Unavailable]) -> list[Unavailable]:
    """Those that would know the language of a file."""
    return [kind for kind in unavailable if {path.name, path.suffix} & kind.specification.languages.keys()]


async def _open(server: LanguageServer, path: Path, workplace: Workplace) -> Sequence[str]:
    try:
        return await server.open(path)
    except OSError as error:
        cause = (error.strerror or "unreadable").lower()
        raise ToolError(f'Error reading file "{workplace.shown_path(path)}": {cause}') from None


async def _only(
    workplace: Workplace, name: str, findings: Findings, texts: Texts
) -> tuple[Sequence[Symbol], LanguageServer]:
    """The one symbol that was found, with all that is the same thing, the first to show first.

    Declaration and definition count as one, and so do a class with its constructors, and overloads.
    """
    symbols = _without_stubs(await _once(workplace, findings.symbols))
    symbols = nearest(
        symbols, lambda pair: pair[0], lambda each: workplace.workspace.contains(each.place.path)
    )
    if len(symbols) == 1:
        return [symbols[0][0]], symbols[0][1]
    if len(symbols) <= MAX_ALIKE and len({id(server) for _, server in symbols}) == 1:
        order = one_of([symbol for symbol, _ in symbols])
        if order is not None:
            return [symbols[number][0] for number in order], symbols[0][1]
    if len(symbols) <= MAX_CANDIDATES:
        homes = await asyncio.gather(
            *(_homes(workplace, symbol, server, texts) for symbol, server in symbols)
        )
        if _is_one(homes):
            return [symbols[0][0]], symbols[0][1]
    raise _several(workplace, name, [symbol for symbol, _ in symbols])


def _several(workplace: Workplace, name: str, symbols: Sequence[Symbol]) -> InvalidArguments:
    """That a name does not tell which symbol is meant, with the candidates."""
    titles = [_candidate(candidate, workplace) for candidate in symbols[:MAX_CANDIDATES]]
    rest = len(symbols) - len(titles)
    more = f"; and {rest} more" if rest else ""
    return InvalidArguments(
        "/symbol",
        f"{len(symbols)} symbols have the name {name}: {'; '.join(titles)}{more}. "
        "Give filePath (and line), or a longer name path",
    )


def _candidate(symbol: Symbol, workplace: Workplace) -> str:
    signature = symbol.place.first_line()[:MAX_SIGNATURE]
    return f"{symbol.title()} at {symbol.place.text(workplace)}{f' `{signature}`' if signature else ''}"


async def _once(
    workplace: Workplace, symbols: Sequence[tuple[Symbol, LanguageServer]]
) -> list[tuple[Symbol, LanguageServer]]:
    """Each symbol once, under the real path of its file: over links, a file has several names."""
    paths = list({symbol.place.path for symbol, _ in symbols})
    if len(paths) < 2:
        return list(symbols)
    real = await workplace.run(paths, lambda: {path: Path(os.path.realpath(path)) for path in paths})
    by_place: dict[object, tuple[Symbol, LanguageServer]] = {}
    for symbol, server in symbols:
        path = symbol.place.path
        key = (real[path], symbol.place.span.start)
        if key not in by_place or real[path] == path:
            by_place[key] = (symbol, server)
    return list(by_place.values())


def _without_stubs(symbols: Sequence[tuple[Symbol, LanguageServer]]) -> list[tuple[Symbol, LanguageServer]]:
    """The symbols without those of stubs whose file declares the same."""
    declared = {
        (symbol.place.path, symbol.path) for symbol, _ in symbols if symbol.place.path.suffix == ".py"
    }
    return [
        (symbol, server)
        for symbol, server in symbols
        if symbol.place.path.suffix != ".pyi"
        or (symbol.place.path.with_suffix(".py"), symbol.path) not in declared
    ]


def _is_one(homes: Sequence[frozenset[Home]]) -> bool:
    """Whether places are of one symbol: each is connected with the others by where it is defined."""
    joined, rest = set(homes[0]), list(homes[1:])
    while rest:
        near = next((home for home in rest if not joined.isdisjoint(home)), None)
        if near is None:
            return False
        joined |= near
        rest.remove(near)
    return True


async def _homes(
    workplace: Workplace, symbol: Symbol, server: LanguageServer, texts: Texts
) -> frozenset[Home]:
    """The place of a symbol, and those where the server says that it is defined or declared."""
    own = (symbol.place.path, symbol.place.span.start.line)
    if not server.supports(_DEFINITION):
        return frozenset({own})
    try:
        lines = await server.open(symbol.place.path)
        position = to_server(symbol.place.span.start, lines, server.encoding)
        params = {"textDocument": {"uri": to_uri(symbol.place.path)}, "position": position}
        result = await server.request(_DEFINITION, params)
    except (RequestFailed, RequestTimedOut, OSError):
        return frozenset({own})
    paths = [location.path for location in locations_of(result)]
    places = await workplace.run(paths, lambda: places_of(result, texts, server.encoding))
    return frozenset({own, *((place.path, place.span.start.line) for place in places)})


def _unknown(name: str, findings: Findings) -> ToolError:
    doubts = [each for each in findings.freshness if each.state != "fresh"]
    reasons = "; ".join(each.text() for each in doubts)
    members = {"freshness": [each.structured() for each in findings.freshness]}
    if not findings.has_answers:
        return asking.NoAnswer(
            f"nothing is known about {name}, because nobody answered ({reasons}). Call again", members, doubts
        )
    so_far = f" so far ({reasons})" if doubts else ""
    unready = [each for each in doubts if each.state != "partial"]
    return UnknownSymbol(name, f"no symbol has the name {name}{so_far}. See lm_findSymbol", members, unready)


def freshness_members(parts: Sequence[Freshness], unavailable: Sequence[Unavailable]) -> dict[str, Any]:
    """What `structuredContent` says of the servers."""
    return {
        "freshness": [part.structured() for part in parts],
        "unavailable": asking.unavailable_members(unavailable),
    }
