"""Finds declarations by name, in one file or in the project, whatever the servers offer for it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import (
    AsksKind,
    LanguageServer,
    RequestFailed,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools import asking
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting, list_of
from lm_tools_bridge.code_intelligence.tools.project_files import files_of, where, without_libraries
from lm_tools_bridge.code_intelligence.tools.symbols.places import locations_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import NameQuery
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import (
    OUTLINE,
    Symbol,
    found_path,
    found_symbol,
    outline,
    written_symbols,
)
from lm_tools_bridge.code_intelligence.tools.symbols.written_declarations import declaring_pattern
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from workspace_server.sources.builtin.search.engine import find_text
from workspace_server.sources.builtin.search.query import EngineUnavailable, TextMatch, TextQuery

PROJECT: Final = "workspace/symbol"
MAX_FILES: Final = 40
"""Files whose outlines are read for one search."""
MAX_HITS: Final = 2000
"""Symbols of one server that are looked at: for a short name, servers list all that resemble it."""
_BOUNDARY: Final = r"\b"
_TEXT_HITS: Final = 1000
"""Lines or files with a word that are looked through for its declaration: a name in more is too common to be
found by text."""
_DECLARES: Final = (
    r"\b(?:class|const|def|enum|fn|func|function|interface|let|module|namespace|record|struct|trait|type|union|var)"
    r"[ \t*]+(?:\w+[ \t]+)?"
)
_METHOD: Final = (
    r"^[ \t]*(?:(?:public|private|protected|static|async|override|abstract|get|set)[ \t]+)*"
    r"{name}[ \t]*(?:<[^>]*>)?\(.*\{{[ \t]*$"
)
"""How a class of a script declares a method."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one server found; `partial` if there were more files to look at."""

    symbols: Sequence[Symbol]
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found, nearest first, by which server, how complete it is, and whether any server answered."""

    symbols: Sequence[tuple[Symbol, LanguageServer]]
    freshness: Sequence[Freshness]
    unavailable: Sequence[Unavailable]
    has_answers: bool = True


async def search(
    workplace: Workplace, query: NameQuery, path: Path | None, waiting: Waiting, texts: Texts
) -> Findings:
    """The declarations with a wanted name; those of the workspace come first.

    Args:
        workplace: where to search.
        query: the name.
        path: the only file to search; None for the project.
        waiting: see `Waiting`.
        texts: the files read by this call.

    Raises:
        ToolError: no server could be asked.
    """
    if path is None:
        asks_code, asks_data = await _asked_kinds(workplace, query)
        findings = await _search(workplace, query, None, waiting, texts, asks_code)
        if findings.symbols or not asks_data:
            return _answered(findings, "this project")
        data = await _search(workplace, query, None, waiting, texts, asks_data)
        return _answered(_joined(findings, data), "this project")
    return _answered(await _search(workplace, query, path, waiting, texts), workplace.shown_path(path))


def _answered(findings: Findings, about: str) -> Findings:
    """The findings.

    Raises:
        ToolError: no server could be asked.
    """
    if not findings.freshness and not findings.has_answers:
        raise asking.no_server(findings.unavailable, about)
    unavailable, starting = asking.told_apart(findings.unavailable)
    return replace(findings, unavailable=unavailable, freshness=[*findings.freshness, *starting])


def _joined(first: Findings, second: Findings) -> Findings:
    """What two searches found."""
    return Findings(
        [*first.symbols, *second.symbols],
        [*first.freshness, *second.freshness],
        [*first.unavailable, *second.unavailable],
        first.has_answers or second.has_answers,
    )


async def _asked_kinds(workplace: Workplace, query: NameQuery) -> tuple[AsksKind, AsksKind | None]:
    """Which kinds a search asks: those of languages whose files have the word.

    So no server is started, or makes an answer doubtful, that could know nothing. Formats of data are asked
    after code, where that has no such symbol.
    """
    kinds = await asyncio.to_thread(workplace.servers.known_kinds)
    kinds = [kind for kind in kinds if "symbols" in kind.roles and not kind.limits]
    code = [kind for kind in kinds if not kind.is_optional]
    if len({frozenset(kind.languages) for kind in code}) > 1:
        code = await _with_word(workplace, query, code) or code
    data = [kind for kind in kinds if kind.is_optional]
    names = frozenset(name for kind in code for name in kind.languages)

    def asks_code(kind: ServerSpecification) -> bool:
        return not kind.is_optional and (not names or not names.isdisjoint(kind.languages))

    if not data:
        return asks_code, None
    data_names = [kind.name for kind in await _with_word(workplace, query, data)]
    return asks_code, (lambda kind: kind.name in data_names) if data_names else None


async def _with_word(
    workplace: Workplace, query: NameQuery, kinds: Sequence[ServerSpecification]
) -> list[ServerSpecification]:
    """Those kinds of whose files one has the word; all if there is no word to look for."""
    word = query.literal
    if not word or query.match == "fuzzy":
        return list(kinds)
    exact = query.match == "exact"
    name = re.escape(word if exact else word.lower())
    if exact:
        name = rf"{_BOUNDARY if word[0].isalnum() else ''}{name}{_BOUNDARY if word[-1].isalnum() else ''}"
    text = TextQuery(name, regex=True, case_sensitive=exact)

    async def has_word(kind: ServerSpecification) -> bool:
        try:
            lines = await find_text(workplace.workspace, text, where(kind), 1, workplace.searches.settings())
        except EngineUnavailable:
            return True
        return bool(lines.items)

    has = await asyncio.gather(*(has_word(kind) for kind in kinds))
    return [kind for kind, has_it in zip(kinds, has, strict=True) if has_it]


async def _search(  # noqa: PLR0917  the facts about one search
    workplace: Workplace,
    query: NameQuery,
    path: Path | None,
    waiting: Waiting,
    texts: Texts,
    is_asked: AsksKind | None = None,
) -> Findings:
    """What these servers find; nothing, and no answers, without any of them."""
    if path is None:
        available = await workplace.servers.for_project("symbols", wait_s=waiting.left_s, is_asked=is_asked)
    else:
        available = await workplace.servers.for_file(path, "symbols", wait_s=waiting.left_s)
    running, unavailable = asking.split(available)
    servers = [each for each in running if each.supports(OUTLINE) or each.supports(PROJECT)]
    servers = _without_covered(servers) if path is None else servers[:1]
    if not servers:
        return Findings([], [], unavailable, has_answers=False)

    async def work(server: LanguageServer) -> _Found:
        if path is not None:
            return _Found([each for each in await outline(server, path, texts) if query.fits(each.path)])
        return await _in_project(workplace, server, query, texts)

    parts = await asking.ask_all(servers, work, waiting)
    symbols = _ordered(workplace, parts)
    has_answers = any(part.value is not None for part in parts)
    return Findings(symbols, [_limited(part) for part in parts], unavailable, has_answers)


def _limited(part: Part[_Found]) -> Freshness:
    """The freshness of a part, which is partial at best if not all files were looked at."""
    fresh = part.freshness
    if part.value is None or not part.value.partial or fresh.state != "fresh":
        return fresh
    return Freshness(fresh.provider, "partial", f"only {MAX_FILES} of the files that may have it were read")


def _without_covered(servers: Sequence[LanguageServer]) -> list[LanguageServer]:
    """The first server for each language: what a later one finds would be there twice."""
    needed: list[LanguageServer] = []
    covered: set[str] = set()
    for server in servers:
        languages = set(server.specification.languages)
        if not languages <= covered:
            needed.append(server)
            covered |= languages
    return needed


def _ordered(workplace: Workplace, parts: Iterable[Part[_Found]]) -> list[tuple[Symbol, LanguageServer]]:
    by_place: dict[tuple[object, ...], tuple[Symbol, LanguageServer]] = {}
    for part in parts:
        for symbol in part.value.symbols if part.value is not None else ():
            by_place.setdefault((symbol.place.path, symbol.place.span.start), (symbol, part.server))
    return sorted(
        by_place.values(),
        key=lambda pair: (not workplace.workspace.contains(pair[0].place.path), pair[0].place.order),
    )


async def _in_project(workplace: Workplace, server: LanguageServer, query: NameQuery, texts: Texts) -> _Found:
    candidates: list[Symbol] = []
    if server.supports(PROJECT):
        result = list_of(await server.request(PROJECT, {"query": _project_query(server, query)}))
        own = replace(query, containers=(), whole=False)
        # most of what a server finds only resembles the name; the file of each of the rest is read
        fitting = [raw for raw in result[:MAX_HITS] if own.fits(found_path(raw)[-1:])]
        paths = [each.path for each in locations_of([raw.get("location") for raw in fitting])]
        symbols = await workplace.run(
            paths, lambda: [found_symbol(raw, texts, server.encoding) for raw in fitting]
        )
        outside_copies = await workplace.own(paths)
        candidates = [each for each in symbols if each is not None and each.place.path in outside_copies]
    if not server.supports(OUTLINE):
        return _Found([each for each in candidates if query.fits(each.path)])

    def is_own(symbol: Symbol) -> bool:
        return workplace.workspace.contains(symbol.place.path)

    files = list(dict.fromkeys(each.place.path for each in candidates))
    if server.specification.joins_open_files:  # it lists symbols of the projects that were needed before
        files += await _declaring_files(workplace, server, query)
    outlines = await _outlines(server, files, texts)
    fitting_symbols = [each for symbols in outlines.values() for each in symbols if query.fits(each.path)]
    is_cut = len(files) > len(outlines)
    # a library, or another symbol of the project, may have the name as well; clangd, which parses each file
    # for its outline, knows all names of the project by its index
    by_index = server.specification.ready == "background-index"
    enough = fitting_symbols if by_index else [each for each in fitting_symbols if is_own(each)]
    if not enough:
        more, is_capped = await _files_with(workplace, server, query)
        read = await _outlines(server, [path for path in more if path not in outlines], texts)
        fitting_symbols += [each for symbols in read.values() for each in symbols if query.fits(each.path)]
        outlines |= read
        is_cut = is_cut or is_capped or any(path not in outlines for path in more)
    others = [each for each in candidates if each.place.path not in outlines and query.fits(each.path)]
    written = await _written(workplace, server, query, texts, outlines.keys())
    return _Found([*fitting_symbols, *others, *written], partial=is_cut)


async def _outlines(
    server: LanguageServer, files: Sequence[Path], texts: Texts
) -> dict[Path, Sequence[Symbol]]:
    """The symbols of the first files."""
    first = list(dict.fromkeys(files))[:MAX_FILES]
    outlines = await asyncio.gather(*(_outline(server, path, texts) for path in first))
    return dict(zip(first, outlines, strict=True))


async def _declaring_files(workplace: Workplace, server: LanguageServer, query: NameQuery) -> list[Path]:
    """The files with a line that looks like the declaration of the name."""
    if query.match != "exact":
        return []
    name = re.escape(query.literal)
    lines = await _find_lines(workplace, server, rf"{_DECLARES}{name}\b|{_METHOD.format(name=name)}", query)
    paths = dict.fromkeys(match.path for match in lines)
    return await asyncio.to_thread(without_libraries, workplace.workspace, paths)


def _project_query(server: LanguageServer, query: NameQuery) -> str:
    """What `workspace/symbol` is asked: some servers list only the first of what resembles a name."""
    literal = query.literal
    is_exact = query.match == "exact" and bool(literal)
    return server.specification.exact_query.format(name=literal) if is_exact else literal


async def _outline(server: LanguageServer, path: Path, texts: Texts) -> list[Symbol]:
    """The symbols of one of many files; none if it cannot be read."""
    try:
        return await outline(server, path, texts)
    except (OSError, RequestFailed):
        return []


async def _written(
    workplace: Workplace, server: LanguageServer, query: NameQuery, texts: Texts, read: Collection[Path]
) -> list[Symbol]:
    """The fitting declarations that servers leave out, of files whose outlines were not read."""
    word = query.literal
    if not word or query.match == "fuzzy":
        return []
    name = re.escape(word) if query.match == "exact" else rf"[\w$]*{re.escape(word.lower())}[\w$]*"
    pattern = declaring_pattern(frozenset(server.specification.languages), name)
    lines = await _find_lines(workplace, server, pattern, query) if pattern else ()
    paths = [path for path in dict.fromkeys(match.path for match in lines) if path not in read]
    own = await workplace.own(await asyncio.to_thread(without_libraries, workplace.workspace, paths))

    def read_symbols() -> list[Symbol]:
        texts_of = [(path, texts.lines(path)) for path in paths[:MAX_FILES] if path in own]
        symbols = (written_symbols(path, lines) for path, lines in texts_of if lines is not None)
        return [each for of_file in symbols for each in of_file if query.fits(each.path)]

    return await workplace.run(paths, read_symbols)


async def _find_lines(
    workplace: Workplace, server: LanguageServer, pattern: str, query: NameQuery
) -> Sequence[TextMatch]:
    text = TextQuery(pattern, regex=True, case_sensitive=query.match == "exact")
    kind, settings = where(server.specification), workplace.searches.settings()
    with suppress(EngineUnavailable):
        return (await find_text(workplace.workspace, text, kind, _TEXT_HITS, settings)).items
    return ()


async def _files_with(
    workplace: Workplace, server: LanguageServer, names: NameQuery
) -> tuple[list[Path], bool]:
    """The files of the server's languages that may declare a wanted name, and whether there may be more.

    Those with a line that looks like its declaration come first.
    """
    word = names.literal
    if not word or names.match == "fuzzy":
        files = await files_of(workplace.workspace, workplace.searches, server.specification, _TEXT_HITS)
        return list(files.paths), files.partial
    exact = names.match == "exact"
    name = re.escape(word if exact else word.lower())
    candidates: dict[Path, None] = {}
    is_cut = False
    for text in (rf"{_DECLARES}{name}", name):
        query = TextQuery(text, regex=True, case_sensitive=exact)
        try:
            lines = await find_text(
                workplace.workspace,
                query,
                where(server.specification),
                _TEXT_HITS,
                workplace.searches.settings(),
            )
        except EngineUnavailable:
            return [], False
        candidates |= dict.fromkeys(match.path for match in lines.items)
        is_cut = lines.capped
    return list(candidates), is_cut
