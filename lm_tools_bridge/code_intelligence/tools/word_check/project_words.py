"""Reads the whole words of the project that may be a symbol: by search, and in the files that it finds."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools.project_files import without_libraries
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.word_check.comparison import Places, Word
from lm_tools_bridge.code_intelligence.tools.word_check.source_text import TextWord, find_words
from lm_tools_bridge.code_intelligence.tools.word_check.tracked_files import find_ignored_tracked_files
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.positions import OutsideText, Position, to_server
from workspace_server.sources.builtin.search.engine import Where, find_text
from workspace_server.sources.builtin.search.query import EngineUnavailable, TextMatch, TextQuery

MAX_LINES: Final = 5_000
"""Lines with the word that are compared: no answer shows so many, and more take a second to sort."""
MAX_FILES: Final = 600
"""Files that are read for words that are not in the answer."""
SEARCH_S: Final = 3.0
"""Longest search: ripgrep needs 0.3 s for a tree of 50,000 files."""
_MORE_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "python": (".pyx", ".pxd"),
    **dict.fromkeys(("javascript", "typescript"), (".vue", ".svelte", ".astro")),
    **dict.fromkeys(("c", "cpp"), (".inc", ".inl", ".ipp", ".def", ".tpp")),
}
"""By `languageId`: suffixes of files that use its names, though its servers may not know them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a word can be the symbol by the rules of its language.

    Attributes:
        file: the only file; None for all.
        folder: the only folder; None for all.
        as_argument_elsewhere: whether it can be one before a `=` in other files, as a name of an argument.
    """

    file: str | None = None
    folder: str | None = None
    as_argument_elsewhere: bool = False

    def admits_file(self, path: str) -> bool:
        """Whether a file may have the symbol."""
        if self.folder is not None and os.path.dirname(path) != self.folder:  # noqa: PTH120  of thousands
            return False
        return self.file is None or path == self.file or self.as_argument_elsewhere

    def admits(self, path: str, line: str, end: int) -> bool:
        """Whether a word that ends at `end` in a line can be the symbol."""
        return self.file in {None, path} or re.match(r"\s*=(?!=)", line[end:]) is not None


@dataclass(frozen=True, slots=True)
class ProjectWords:
    """The words that are not in an answer; `has_all` if all files were searched."""

    words: Sequence[Word]
    has_all: bool


def is_word(name: str) -> bool:
    """Whether a symbol's name is a word that can be searched for."""
    return re.fullmatch(r"[\w$]+", name) is not None


async def find_project_words(
    workplace: Workplace,
    name: str,
    kind: ServerSpecification,
    encoding: PositionEncoding,
    texts: Texts,
    *,
    places: Places | None = None,
    scope: Scope | None = None,
) -> ProjectWords:
    """The words of a name in the files of a kind's languages, and of those that use its names.

    Args:
        workplace: where to search.
        name: see `is_word`.
        kind: of the server.
        encoding: its unit of positions.
        texts: the files read by this call.
        places: those of an answer; words in a line with as many places are left out.
        scope: where the words can be the symbol.
    """
    query = TextQuery(rf"\b{re.escape(name)}\b" if "$" not in name else re.escape(name), regex=True)
    settings = replace(workplace.searches.settings(), deadline=SEARCH_S)
    query = replace(query, case_sensitive=True)
    try:
        matches = await find_text(workplace.workspace, query, _where(kind), MAX_LINES, settings)
    except EngineUnavailable:
        return ProjectWords((), has_all=False)
    ignored = await find_ignored_tracked_files(workplace.workspace, _where(kind), _suffixes(kind), settings)
    return await asyncio.to_thread(
        _words,
        workplace,
        name,
        matches.items,
        ignored,
        encoding,
        texts,
        places or Places(),
        scope or Scope(),
        matches.capped,
    )


async def find_quoted_files(workplace: Workplace, name: str, kind: ServerSpecification) -> list[Path]:
    """The project's own files in which a string of one line is the name; none if searches do not work."""
    query = TextQuery(rf"['\x22]{re.escape(name)}['\x22]", regex=True, case_sensitive=True)
    settings = replace(workplace.searches.settings(), deadline=SEARCH_S)
    try:
        matches = await find_text(workplace.workspace, query, _where(kind), MAX_LINES, settings)
    except EngineUnavailable:
        return []
    paths = list(dict.fromkeys(match.path for match in matches.items))[:MAX_FILES]
    return await asyncio.to_thread(without_libraries, workplace.workspace, paths)


def _suffixes(kind: ServerSpecification) -> list[str]:
    """The suffixes of a kind's languages, and of files that use its names."""
    more = {suffix for language in kind.languages.values() for suffix in _MORE_FILES.get(language, ())}
    return [key for key in kind.languages if key.startswith(".")] + sorted(more - kind.languages.keys())


def _where(kind: ServerSpecification) -> Where:
    """The files with these suffixes, and those with a name of their own."""
    names = [f"*{suffix}" for suffix in _suffixes(kind)]
    names += [key for key in kind.languages if not key.startswith(".")]
    return Where(f"**/{{{','.join(names)}}}" if len(names) > 1 else f"**/{names[0]}", "/symbol")


def _words(  # noqa: PLR0917  the facts about one search
    workplace: Workplace,
    name: str,
    matches: Sequence[TextMatch],
    ignored: Sequence[Path],
    encoding: PositionEncoding,
    texts: Texts,
    places: Places,
    scope: Scope,
    is_cut: bool,
) -> ProjectWords:
    """The words in the files of these lines. Blocks."""
    rest = [match for match in matches if match.occurrences > places.count(str(match.path), match.line - 1)]
    candidates = dict.fromkeys([*(match.path for match in rest), *ignored])
    paths = [path for path in candidates if scope.admits_file(str(path))]
    own = without_libraries(workplace.workspace, paths)
    words: list[Word] = []
    is_all = not is_cut and len(own) <= MAX_FILES
    for path in own[:MAX_FILES]:
        lines = texts.lines(path)
        if lines is None:
            is_all = False
            continue
        words += [
            _placed(str(path), word, lines, encoding)
            for word in find_words(lines, name, path.suffix)
            if scope.admits(str(path), lines[word.line], word.end)
        ]
    return ProjectWords(words, is_all)


def _placed(path: str, word: TextWord, lines: Sequence[str], encoding: PositionEncoding) -> Word:
    """A word in the units of a server."""
    start = word.start
    if not lines[word.line].isascii():
        position = to_server(Position(word.line + 1, start + 1), lines, encoding)
        start = start if isinstance(position, OutsideText) else position["character"]
    return Word(path, word.line, start, start + word.end - word.start, word.kind)


def file_of(path: Path) -> str:
    """The real path of a file, by which places and words are compared. Blocks."""
    return os.path.realpath(path)
