"""Says what the words of the project tell of a name that no server has as a symbol.

"There is no such symbol" and "it was not found" are different answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import (
    LanguageServer,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from lm_tools_bridge.code_intelligence.tools import asking
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.project_files import without_libraries
from lm_tools_bridge.code_intelligence.tools.symbols.places import locations_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import is_unwritten, name_query
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, UnknownSymbol, find_target
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.word_check.comparison import (
    Comparison,
    Word,
    asking_order,
    compare,
)
from lm_tools_bridge.code_intelligence.tools.word_check.project_words import find_project_words, is_word
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import order_of
from workspace_server.tool import InvalidArguments, ToolError

ASK_S: Final = 1.0
"""Longest time for questions about words: the answer is there, and these only explain it."""
MAX_ASKED: Final = 3
"""Words whose definition is asked for, each in a file of its own: mostly the first one tells."""
_DEFINITION: Final = "textDocument/definition"


@dataclass(frozen=True, slots=True)
class Absence:
    """What words tell of a name that a server does not find.

    Attributes:
        provider: the server's name.
        comparison: the lines with the word; in code they count as missing.
        definitions: where the server says that the first of them are defined, as texts show it.
        is_foreign: whether all of these are outside of the project: then nothing is missing in it.
        own_places: the files and lines, from 0, of those in the project.
    """

    provider: str
    comparison: Comparison
    definitions: Sequence[str] = ()
    is_foreign: bool = False
    own_places: frozenset[tuple[Path, int]] = frozenset()

    def sentence(self, workplace: Workplace) -> str:
        """For a model; empty if no code has the word."""
        lines = self.comparison.reason(lambda path: workplace.shown_path(Path(path)), noun="line")
        if not self.definitions:
            return lines
        where = "outside of the project: " if self.is_foreign else "at "
        return f"{lines}; the server says that it is defined {where}{', '.join(self.definitions)}"


async def find_known_target(
    workplace: Workplace, arguments: Mapping[str, Any], method: str, waiting: Waiting, texts: Texts
) -> Target:
    """As `find_target`, also of what servers list nowhere, but say where it is defined that has the name.

    If there is no such symbol, the error says which lines have its name all the same.
    """
    try:
        return await find_target(workplace, arguments, method, waiting, texts)
    except UnknownSymbol as unknown:
        absences = await find_absences(workplace, unknown.name, texts)
        target = await _defined_target(workplace, unknown.name, arguments, absences, method, waiting, texts)
        if target is not None:
            return target
        sentences = [absence.sentence(workplace) for absence in absences]
        if not any(sentences):
            raise
        sentence_text = "; ".join(sentence for sentence in sentences if sentence)
        message = f"{unknown.message}. But {sentence_text}. Give filePath and line of a place"
        # what is defined elsewhere is no symbol of the project, however long one waits
        doubts = () if any(absence.is_foreign for absence in absences) else unknown.doubts
        raise UnknownSymbol(unknown.name, message, unknown.structured, doubts) from None


async def _defined_target(  # noqa: PLR0917  the facts about one call
    workplace: Workplace,
    name: str,
    arguments: Mapping[str, Any],
    absences: Sequence[Absence],
    method: str,
    waiting: Waiting,
    texts: Texts,
) -> Target | None:
    """The symbol that servers say the first words are, if it is one of the project and fits the name path.

    Some servers list neither types that a condition leaves out nor members of nameless structures.
    """
    query = name_query(name)
    places = {place for absence in absences for place in absence.own_places}
    if query.match != "exact" or len(places) != 1 or any(absence.is_foreign for absence in absences):
        return None
    ((path, line),) = places
    question = {**arguments, "symbol": query.literal, "filePath": str(path), "line": line + 1}
    try:
        target = await find_target(workplace, question, method, waiting, texts)
    except (InvalidArguments, ToolError):
        return None
    above = () if target.symbol is None else target.symbol.path[:-1]
    is_nameless = all(map(is_unwritten, above))
    is_fitting = is_nameless or (target.symbol is not None and query.fits(target.symbol.path))
    return target if is_fitting and target.name == query.literal else None


async def find_absences(workplace: Workplace, name: str, texts: Texts) -> list[Absence]:
    """What the words in the files of each server tell of a name; only of servers with such words in code.

    Args:
        workplace: where to search.
        name: a name or name path of which no symbol was found.
        texts: the files read by this call.
    """
    word = name_query(name).literal
    if not workplace.compares_words or not is_word(word):
        return []
    running, _ = asking.split(await workplace.servers.for_project("symbols"))
    # in formats of data, any text is made of words
    servers = [server for server in running if not server.specification.is_optional]
    absences = [await _absence(workplace, server, word, texts) for server in servers]
    return [absence for absence in absences if not absence.comparison.is_complete]


def limit_by_absences(
    parts: Sequence[Freshness], absences: Sequence[Absence], workplace: Workplace
) -> list[Freshness]:
    """The freshness of servers that found nothing: partial at best, if code has the word."""
    by_provider = {absence.provider: absence for absence in absences}
    limited = []
    for part in parts:
        absence = by_provider.get(part.provider)
        if absence is None or absence.is_foreign:
            limited.append(part)
            continue
        reason = absence.sentence(workplace)
        state = "partial" if part.state == "fresh" else part.state
        limited.append(
            replace(part, state=state, reason=f"{part.reason}; {reason}" if part.reason else reason)
        )
    return limited


async def _absence(workplace: Workplace, server: LanguageServer, word: str, texts: Texts) -> Absence:
    kind = server.specification
    words = await find_project_words(workplace, word, kind, server.encoding, texts)
    comparison = compare(word, words.words, {}, {}, has_all_words=words.has_all, unasked="in code")
    first = list(
        {each.path: each for each in reversed(asking_order(words.words)) if each.kind == "code"}.values()
    )
    definitions = [place for each in first[:MAX_ASKED] for place in await _definitions(server, each)]
    paths = list(dict.fromkeys(path for path, _ in definitions))
    inside = [path for path in paths if workplace.workspace.contains(path)]
    own = await asyncio.to_thread(without_libraries, workplace.workspace, inside)
    places = list(dict.fromkeys(f"{workplace.shown_path(path)}#{line + 1}" for path, line in definitions))
    is_foreign = bool(paths) and not own
    own_places = frozenset(place for place in definitions if place[0] in own)
    return Absence(kind.name, comparison, places[:MAX_ASKED], is_foreign, own_places)


async def _definitions(server: LanguageServer, word: Word) -> list[tuple[Path, int]]:
    """The files and lines, from 0, in which a word is defined; none if the server does not tell in time."""
    if not server.supports(_DEFINITION):
        return []
    position = {"line": word.line, "character": word.start}
    params = {"textDocument": {"uri": to_uri(Path(word.path))}, "position": position}
    try:
        async with asyncio.timeout(ASK_S):
            await server.open(Path(word.path))
            locations = locations_of(await server.request(_DEFINITION, params, timeout_s=ASK_S))
    except (TimeoutError, RequestFailed, RequestTimedOut, ServerGone, OSError):
        return []
    orders = [(location.path, order_of(location.where)) for location in locations]
    return [(path, order[0]) for path, order in orders if order is not None]
