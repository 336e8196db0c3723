"""Checks an answer about a symbol: compares it with the words, and asks what those mean that it left out.

All of it is bounded. What a check does not reach counts as missing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.tools.asking import Part
from lm_tools_bridge.code_intelligence.tools.symbols.places import Location
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import (
    OUTLINE,
    Symbol,
    outline,
)
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.word_check.comparison import (
    MAX_FILES_LISTED,
    MAX_LINES_TOLD,
    Comparison,
    Word,
    compare,
    left_out,
)
from lm_tools_bridge.code_intelligence.tools.word_check.conditions import (
    Condition,
    condition_at,
    find_conditions,
)
from lm_tools_bridge.code_intelligence.tools.word_check.project_words import (
    Scope,
    file_of,
    find_project_words,
    is_word,
)
from lm_tools_bridge.code_intelligence.tools.word_check.questions import (
    SCRIPTS,
    Questions,
    places_of,
    real_orders,
)
from lm_tools_bridge.code_intelligence.tools.word_check.unknown_files import NOT_COMPILED, FileReasons
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.positions import Position, from_server, order_of

CHECK_S: Final = 4.0
"""Longest time for what is asked of the server: a fifth of what a call waits for servers by default."""
QUICK_S: Final = 0.5
"""The same for a call that does not wait for servers."""
UNANSWERED: Final = "no server answered about it yet"
"""Why lines are listed of which nobody could say what they mean."""
_FUNCTIONS: Final = frozenset({"function", "method", "constructor"})
_KNOWN_OUTSIDE: Final = re.compile(
    r"(?:[.>:]|\b(?:private|protected|public|readonly|global|nonlocal|extern|export|static)\s+(?:\w+\s+)*)$"
)
"""What stands before a name that is declared in a function, and known outside of it."""
_IN_PARENTHESES: Final = re.compile(r"\((?:[^{}]*,)?\s*(?:\.\.\.)?$")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer of a server with what the words say of it.

    Attributes:
        part: the answer; its freshness is partial at best if the words say that it may not be complete.
        locations: its places.
        comparison: None if nothing was compared: there is no answer, the name is no word, or the user wants
            no comparison.
    """

    part: Part[Any]
    locations: Sequence[Location]
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """Checks the answers to one call.

    Attributes:
        workplace: where to search.
        target: the symbol.
        seconds: how long the call waits for servers.
        texts: the files read by this call.
        is_edit: whether the places are those of edits. Uses may leave out the declaration, edits may not.
    """

    workplace: Workplace
    target: Target
    seconds: float
    texts: Texts
    is_edit: bool = False

    async def checked(
        self,
        ask: Callable[[], Awaitable[Part[Any]]],
        read_places: Callable[[Any], Awaitable[Sequence[Location]]],
    ) -> CheckedAnswer:
        """Ask, and compare the answer with the words.

        A server that left out what it takes for uses was given their files meanwhile; it is asked once more.

        Args:
            ask: asks the server.
            read_places: gives the places in its answer.

        Raises:
            ServerGone: the server ended.
        """
        answer = await self._compared(await ask(), read_places)
        if answer.comparison is not None and answer.comparison.has_left_out_uses:
            answer = await self._compared(await ask(), read_places)
        if answer.comparison is None or answer.comparison.is_complete:
            return answer
        freshness = limited(answer.part.freshness, answer.comparison, self.workplace)
        return replace(answer, part=replace(answer.part, freshness=freshness))

    async def _compared(
        self, part: Part[Any], read_places: Callable[[Any], Awaitable[Sequence[Location]]]
    ) -> CheckedAnswer:
        locations = await read_places(part.value)
        if not self.workplace.compares_words or not is_word(self.target.name):
            return CheckedAnswer(part, locations)
        if part.value is None:
            return CheckedAnswer(part, locations) if self.is_edit else await self._words_alone(part)
        is_quick = not self.seconds or part.freshness.state in {"indexing", "stale"}
        until = asyncio.get_running_loop().time() + (QUICK_S if is_quick else CHECK_S)
        comparison, uses = await self._compare(locations, until)
        return CheckedAnswer(part, with_uses(locations, uses), comparison)

    async def _words_alone(self, part: Part[Any]) -> CheckedAnswer:
        """What the words tell where the server gave no answer: each line of code may have a use."""
        server, name = self.target.server, self.target.name
        words = await find_project_words(
            self.workplace, name, server.specification, server.encoding, self.texts
        )
        comparison = compare(name, words.words, {}, {}, has_all_words=words.has_all, unasked=UNANSWERED)
        freshness = part.freshness
        if freshness.state != "crashed":  # a second try follows a crash
            freshness = replace(freshness, state="partial")
        return CheckedAnswer(replace(part, freshness=freshness), [], comparison)

    async def _compare(
        self, locations: Sequence[Location], until: float
    ) -> tuple[Comparison, Sequence[Word]]:
        """The comparison, and the uses that the server left out where these count as part of its answer."""
        target, places = self.target, await asyncio.to_thread(places_of, locations)
        questions = Questions(self.workplace, target, until, texts=self.texts)
        await questions.find_homes(places)
        scope = await _scope(target, questions.declared, self.texts)
        answered = places if self.is_edit else questions.explained
        words = await find_project_words(
            self.workplace, target.name, target.server.specification, target.server.encoding, self.texts,
            places=answered, scope=scope,
        )  # fmt: skip
        rest = left_out(words.words, answered)
        await questions.ask(rest)
        in_code = dict.fromkeys(Path(word.path) for word in rest if word.kind == "code")
        reasons = await asyncio.to_thread(self._reasons, list(in_code))
        conditions = await asyncio.to_thread(_conditions, rest, self.texts)
        guessed = await questions.find_guessed(conditions)
        meanings = {
            word: meaning
            for word, meaning in questions.meanings.items()
            if meaning != "other" or (reasons.get(word.path) != NOT_COMPILED and word not in guessed)
            # the path in an import leads to the file of the symbol, and is none of its uses
            if word.kind != "string" or meaning == "same"
        }
        uses = list[Word]()
        if target.server.specification.uses_by_definition and not self.is_edit:
            uses = [word for word in rest if meanings.get(word) == "same"]
            rest = [word for word in rest if meanings.get(word) != "same"]
        comparison = compare(
            target.name, rest, meanings, reasons, conditions=conditions, has_all_words=words.has_all
        )
        return comparison, uses

    def _reasons(self, paths: Sequence[Path]) -> dict[str, str]:
        """Why the server may not know some of the files. Blocks."""
        target, roots = self.target, [folder.path for folder in self.workplace.workspace.folders]
        reasons = FileReasons(target.server.specification, target.path, roots, self.texts.lines)
        return reasons.of_files(paths)


def with_uses(locations: Sequence[Location], uses: Sequence[Word]) -> Sequence[Location]:
    """The places of an answer with those of words, in order."""
    if not uses:
        return locations
    ranges = [
        Location(
            Path(word.path),
            {
                "start": {"line": word.line, "character": word.start},
                "end": {"line": word.line, "character": word.end},
            },
        )
        for word in uses
    ]
    return sorted(
        [*locations, *ranges], key=lambda place: (place.path.as_posix(), order_of(place.where) or ())
    )


def limited(freshness: Freshness, comparison: Comparison, workplace: Workplace) -> Freshness:
    """The freshness of an answer, which is partial at best if words say that it may not be complete."""
    if comparison.is_complete:
        return freshness
    reason = comparison.reason(lambda path: workplace.shown_path(Path(path)))
    if freshness.state == "fresh":
        return Freshness(freshness.provider, "partial", reason)
    return replace(freshness, reason=f"{freshness.reason}; {reason}")


def words_lines(comparison: Comparison) -> list[str]:
    """What a text says of words that an answer rightly leaves out."""
    explained = comparison.explained()
    return [f"left out: {explained}"] if explained else []


def words_members(comparison: Comparison, workplace: Workplace) -> dict[str, Any]:
    """What `structuredContent` says of a comparison."""
    files = [
        {
            "workspacePath": workplace.shown_path(Path(file.path)),
            "count": len(file.lines),
            "firstLines": list(file.lines[:MAX_LINES_TOLD]),
            "why": file.why,
        }
        for file in comparison.missing[:MAX_FILES_LISTED]
    ]
    return comparison.structured(files)


def _conditions(words: Sequence[Word], texts: Texts) -> dict[Word, str]:
    """The conditions of the words in conditional code. Blocks."""
    in_file: dict[str, Sequence[Condition]] = {}
    conditions: dict[Word, str] = {}
    for word in words:
        if word.kind != "code":
            continue
        if word.path not in in_file:
            path = Path(word.path)
            in_file[word.path] = find_conditions(texts.lines(path) or (), path.suffix)
        if text := condition_at(in_file[word.path], word.line):
            conditions[word] = text
    return conditions


async def _scope(target: Target, declared: Sequence[Location], texts: Texts) -> Scope:
    """Where a word can be the symbol: by its declaration, and in Go by its first letter."""
    homes = await asyncio.to_thread(real_orders, declared)
    files = {path for path, _ in homes} or {await asyncio.to_thread(file_of, target.path)}
    if len(files) != 1:
        return Scope()
    (file,) = files
    path = Path(file)
    if path.suffix == ".go" and not target.name[:1].isupper():
        return Scope(folder=str(path.parent))
    where = declared[0].where["start"] if declared else target.position
    lines = await asyncio.to_thread(texts.lines, path)
    at = None if lines is None else from_server(where, lines, target.server.encoding)
    if lines is None or at is None or not target.server.supports(OUTLINE):
        return Scope()
    try:
        symbols = await outline(target.server, path, texts)
    except (OSError, RequestFailed, RequestTimedOut):
        return Scope()
    return local_scope(file, at, target.name, lines, symbols)


def local_scope(file: str, at: Position, name: str, lines: Sequence[str], symbols: Sequence[Symbol]) -> Scope:
    """The scope of a name that is declared at a place: its file if that is inside of a function.

    Args:
        file: that declares it.
        at: where.
        name: of the symbol.
        lines: those of the file.
        symbols: the outline of the file, containers before what they contain.
    """
    around = [
        each for each in symbols if each.whole.start <= at < each.whole.end and each.place.span.start != at
    ]
    own = next((each for each in symbols if each.place.span.start == at), None)
    line = lines[at.line - 1]
    before, after = line[: at.column - 1], line[at.column - 1 + len(name) :]
    if (
        not around
        or around[-1].kind not in _FUNCTIONS
        or (own is not None and own.kind not in {"variable", "constant", *_FUNCTIONS})
    ):
        return Scope()
    if _KNOWN_OUTSIDE.search(before):
        return Scope()
    suffix = Path(file).suffix
    if suffix in SCRIPTS and after.lstrip().startswith(":") and not _IN_PARENTHESES.search(before):
        return Scope()  # a member of an object
    is_argument = suffix in {".py", ".pyi"} and _is_in_signature(around[-1], at, lines)
    return Scope(file=file, as_argument_elsewhere=is_argument)


def _is_in_signature(function: Symbol, at: Position, lines: Sequence[str]) -> bool:
    """Whether a place is between the parentheses behind a function's name."""
    begin = function.place.span.end
    text = "\n".join(lines[begin.line - 1 : at.line])
    behind = text[begin.column - 1 : len(text) - len(lines[at.line - 1]) + at.column - 1]
    return behind.count("(") > behind.count(")")
