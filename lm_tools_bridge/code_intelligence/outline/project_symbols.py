"""Searches the symbols of all files below some folders, and reads only files that changed. Blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.outline.grammars import LANGUAGES, grammar
from lm_tools_bridge.code_intelligence.outline.syntax_symbols import Symbol, span, symbols_of
from lm_tools_bridge.code_intelligence.tree.relevant_files import GENERATED_MARKS, SKIPPED_FOLDERS
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.machine.git_worktrees import is_copy

MAX_FILES: Final = 20_000
"""Files of one search: parsing more would take longer than a caller waits."""
MAX_FILE_BYTES: Final = 1024 * 1024
"""Larger files are generated or data."""
MAX_RESULTS: Final = 2_000
"""Symbols of one search: as many as the tools take from any server."""
MAX_KEPT: Final = 4_000
"""Files whose symbols are kept; those searched longest ago go first."""


@dataclass(frozen=True, slots=True)
class _Known:
    stamp: tuple[int, int, int]
    symbols: Sequence[Symbol]


class ProjectSymbols:
    """The symbols of a project.

    Args:
        folders: the folders to search; links in them are not followed.
        languages: the languages to read, by `languageId`.
    """

    def __init__(self, folders: Sequence[Path], languages: frozenset[str]) -> None:
        self._folders = folders
        self._suffixes = {suffix: name for suffix, name in LANGUAGES.items() if name in languages}
        self._known: dict[str, _Known] = {}

    def search(self, query: str, opened: Mapping[str, bytes]) -> list[dict[str, Any]]:
        """The `SymbolInformation` objects whose names contain the query, whatever the case.

        Args:
            query: part of a name; empty for all.
            opened: the texts that count instead of the files', by path.
        """
        part = query.casefold()
        matches: list[dict[str, Any]] = []
        for path in self._files():
            for symbol in self._symbols(path, query, opened.get(path)):
                for container, inner in symbol.with_containers():
                    if part in inner.name.casefold():
                        matches.append(_information(inner, container, path))
                        if len(matches) >= MAX_RESULTS:
                            return matches
        return matches

    def _files(self) -> Iterator[str]:
        left = MAX_FILES
        for folder in self._folders:
            for parent, folders, names in os.walk(folder):
                is_below = parent != str(folder)
                if is_below and ".git" in names and is_copy(Path(parent)):
                    folders.clear()
                    continue
                if is_below and not GENERATED_MARKS.isdisjoint((*names, *folders)):
                    folders.clear()
                    continue
                folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
                for name in sorted(names):
                    if os.path.splitext(name)[1] in self._suffixes:
                        yield f"{parent}/{name}"
                        left -= 1
                        if not left:
                            return

    def _symbols(self, path: str, query: str, text: bytes | None) -> Sequence[Symbol]:
        if text is not None:
            return self._parsed(path, text)
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                return ()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            entry = self._known.pop(path, None)
            if entry is None or entry.stamp != stamp:
                text = regular_file.read_bytes(Path(path), MAX_FILE_BYTES)
                if query.isascii() and query.lower().encode() not in text.lower():
                    return ()  # much faster than parsing it
                entry = _Known(stamp, self._parsed(path, text))
        except OSError:
            return ()
        self._keep(path, entry)
        return entry.symbols

    def _keep(self, path: str, entry: _Known) -> None:
        self._known[path] = entry
        if len(self._known) > MAX_KEPT:
            del self._known[next(iter(self._known))]

    def _parsed(self, path: str, text: bytes) -> Sequence[Symbol]:
        language = self._suffixes[os.path.splitext(path)[1]]
        return symbols_of(text, grammar(language))


def _information(symbol: Symbol, container: str, path: str) -> dict[str, Any]:
    members = {
        "name": symbol.name,
        "kind": symbol.kind,
        "location": {"uri": to_uri(Path(path)), "range": span(symbol.name_start, symbol.name_end)},
    }
    return {**members, "containerName": container} if container else members
