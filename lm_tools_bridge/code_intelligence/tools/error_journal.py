"""Remembers which errors a project has, since which check, and which of them each client was told. Pure.

An error is the same one while its file has the same message, wherever it moves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic
from lm_tools_bridge.code_intelligence.tools.error_reports import ErrorReport

MAX_CLIENTS: Final = 200
"""Clients that are remembered: more than work in one project. One that was forgotten is told less once."""
MAX_FILES: Final = 5_000
"""Files with errors that are remembered, so that a broken project of any size takes a few MB."""
_Key = tuple[str | None, str | int | None, str]
"""What stays of an error that moves in its file: its source, code and message."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An error that is there.

    Attributes:
        number: of the check that saw it first; 0 if it was there before the first one.
        is_dated: whether the file had been checked before, so that the error is new for sure.
        error: as it is now.
    """

    number: int
    is_dated: bool
    error: Diagnostic


@dataclass(slots=True)
class ErrorJournal:
    """The errors of one project.

    Attributes:
        number: of the last check.
    """

    number: int = 0
    _entries: dict[str, dict[Path, Sequence[JournalEntry]]] = field(default_factory=dict)
    _seen_whole: set[str] = field(default_factory=set)
    _last_numbers: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def take(self, reports: Iterable[ErrorReport]) -> None:
        """Note what one check saw. Servers that did not answer keep what they said before."""
        self.number += 1
        for report in reports:
            files = self._entries.setdefault(report.provider, {})
            is_first = report.is_whole and report.provider not in self._seen_whole
            for path, errors in report.files.items():
                is_known = report.provider in self._seen_whole or path in files
                number = 0 if is_first and not is_known else self.number
                files[path] = _continued(files.get(path, ()), errors, number, is_dated=is_known)
            if report.is_whole:
                self._seen_whole.add(report.provider)
                for path in files.keys() - report.files.keys():
                    del files[path]
            while len(files) > MAX_FILES:
                del files[next(iter(files))]  # the one that has had errors longest

    def forget_files(self, is_gone: Mapping[Path, bool]) -> None:
        """Drop the errors of files that are no longer there."""
        for files in self._entries.values():
            for path in [path for path in files if is_gone.get(path)]:
                del files[path]

    def files(self) -> set[Path]:
        """The files of which something is known."""
        return {path for files in self._entries.values() for path in files}

    def news(self, client: str) -> list[JournalEntry]:
        """The errors that came since a client's last answer, which this is one of; none for its first."""
        last = self._last_numbers.pop(client, None)
        self._last_numbers[client] = self.number
        if len(self._last_numbers) > MAX_CLIENTS:
            self._last_numbers.popitem(last=False)  # the client that asked longest ago
        if last is None:
            return []
        entries = [
            entry
            for files in self._entries.values()
            for in_file in files.values()
            for entry in in_file
            if entry.number > last
        ]
        by_identity = {entry.error.identity: entry for entry in entries}
        return sorted(by_identity.values(), key=lambda entry: (not entry.is_dated, entry.error.order))


def _continued(
    before: Sequence[JournalEntry], errors: Sequence[Diagnostic], number: int, *, is_dated: bool
) -> list[JournalEntry]:
    """The errors of a file: those that it had keep their numbers, the others get this one."""
    old: dict[_Key, list[JournalEntry]] = {}
    for entry in before:
        old.setdefault(_key(entry.error), []).append(entry)
    entries = []
    for error in errors:
        same = old.get(_key(error))
        former = same.pop(0) if same else JournalEntry(number, is_dated, error)
        entries.append(JournalEntry(former.number, former.is_dated, error))
    return entries


def _key(error: Diagnostic) -> _Key:
    return (error.source, error.code, error.message)
