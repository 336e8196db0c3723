"""Compares the places that a language server named with the words in the project's files. Pure.

What the server left out is sorted: comments and strings; other symbols of that name; files that the server
does not know; and what nothing explains. The words are never uses: they only tell how far an answer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lm_tools_bridge.code_intelligence.tools.word_check.source_text import WordKind

MAX_FILES_TOLD: Final = 4
"""Files that a sentence names for one reason: enough to see which part of the project is missing."""
MAX_LINES_TOLD: Final = 5
"""Lines of one file in `structuredContent`: where to look first, not a list of uses."""
MAX_FILES_LISTED: Final = 20
"""Files in `structuredContent`; the counts are about all of them."""

Meaning = Literal[
    "same",  # the server says that it is the symbol, yet left it out
    "other",  # the server says that it is another symbol
    "copy",  # the server says that it is declared in a file that may be made from the symbol's
    "bound",  # the server says that it is another name of the symbol: an import, an export, or a copy
    "none",  # the server does not know what it is
]
"""What a server says of a word that it was asked about."""
_WHY: Final[Mapping[Meaning, str]] = {
    "same": "uses by the server's own definition, which it left out",
    "copy": "the server takes it from a built or installed copy of the file",
    "bound": "through an import or export that the server does not follow",
    "none": "the server knows no definition there",
}


_ASKED_FIRST: Final[tuple[WordKind, ...]] = ("code", "quoted", "string", "comment")
_CONDITIONAL: Final = "the server leaves out what stands under"


@dataclass(frozen=True, slots=True)
class Word:
    """A whole word in a file: its place in the server's units, counted from 0, and what it stands in."""

    path: str
    line: int
    start: int
    end: int
    kind: WordKind


@dataclass(slots=True)
class Places:
    """The ranges in one server's answer, by file and line, in its own units."""

    _by_line: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, path: str, order: tuple[int, int, int, int]) -> None:
        """Add a range: first line and character, last line and character."""
        line, start, last, end = order
        self._by_line.setdefault((path, line), []).append((start, end if last == line else start))

    def copy(self) -> Places:
        """The same ranges; more can be added to either."""
        return Places({key: list(ranges) for key, ranges in self._by_line.items()})

    def covers(self, word: Word) -> bool:
        """Whether a range touches a word. An edit may insert behind the word, and no two words touch."""
        ranges = self._by_line.get((word.path, word.line), ())
        return any(start <= word.end and word.start <= end for start, end in ranges)

    def count(self, path: str, line: int) -> int:
        """How many ranges begin in a line."""
        return len(self._by_line.get((path, line), ()))


@dataclass(frozen=True, slots=True)
class MissingFile:
    """Lines of one file that nothing explains, from 1, and why they may be missing."""

    path: str
    lines: tuple[int, ...]
    why: str

    @property
    def is_left_out_use(self) -> bool:
        """Whether the server itself takes the words for the symbol."""
        return self.why == _WHY["same"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far an answer holds.

    Attributes:
        word: the name.
        in_text: lines in which the word stands in comments and strings only.
        quoted: those of them in which a string is the name itself.
        of_others: lines in which it is another symbol.
        missing: what nothing explains.
        has_all_words: whether all files were searched.
    """

    word: str
    in_text: int = 0
    quoted: int = 0
    of_others: int = 0
    missing: Sequence[MissingFile] = ()
    has_all_words: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether the answer has all that the words tell of."""
        return not self.missing and self.has_all_words

    @property
    def missing_lines(self) -> int:
        """How many lines nothing explains."""
        return sum(len(file.lines) for file in self.missing)

    @property
    def has_left_out_uses(self) -> bool:
        """Whether the server left out what it takes for uses itself: it may know them by now."""
        return any(file.is_left_out_use for file in self.missing)

    def reason(self, show_path: Callable[[str], str] = str, noun: str = "more line") -> str:
        """Why the answer may be incomplete, in a sentence for a model; empty if it is complete.

        Args:
            show_path: gives the path of a file as texts show it.
            noun: what the lines are called.
        """
        if not self.missing:
            return "" if self.has_all_words else f"not all files with the word {self.word} were compared"
        count, files = self.missing_lines, len(self.missing)
        rest = "" if self.has_all_words else "; not all files were compared"
        has = "has" if count == 1 else "have"
        return (
            f"{_count_text(count, noun)} in {_count_text(files, 'file')} {has} the word {self.word}: "
            f"{'; '.join(self._groups(show_path))}{rest}"
        )

    def explained(self) -> str:
        """What the answer rightly leaves out, in a few words; empty if that is nothing."""
        parts = []
        if self.in_text:
            quoted = f" ({self.quoted} with the name alone in quotes)" if self.quoted else ""
            parts.append(f"{_count_text(self.in_text, 'line')} in comments and strings{quoted}")
        if self.of_others:
            parts.append(f"{_count_text(self.of_others, 'line')} with other symbols of this name")
        return ", ".join(parts)

    def structured(self, missing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """As in `structuredContent`.

        Args:
            missing: what to say of each file with lines that nothing explains.
        """
        return {
            "word": self.word,
            "complete": self.is_complete,
            "missingLines": self.missing_lines,
            "missingFiles": list(missing),
            "linesInCommentsAndStrings": self.in_text,
            "linesWithNameInQuotes": self.quoted,
            "linesWithOtherSymbols": self.of_others,
        }

    def _groups(self, show_path: Callable[[str], str]) -> Iterator[str]:
        by_reason: dict[str, list[MissingFile]] = {}
        for file in self.missing:
            by_reason.setdefault(file.why, []).append(file)
        for why, files in by_reason.items():
            names = ", ".join(_name_file(file, show_path) for file in files[:MAX_FILES_TOLD])
            rest = len(files) - MAX_FILES_TOLD
            more = f" and {_count_text(rest, 'more file')}" if rest > 0 else ""
            yield f"{names}{more} ({why})"


def left_out(words: Iterable[Word], places: Places) -> list[Word]:
    """The words that no place covers."""
    return [word for word in words if not places.covers(word)]


def asking_order(words: Iterable[Word], *, asks_strings: bool = False) -> list[Word]:
    """Which words to ask the server about: the first one of each file, then the second ones, and so on.

    Words in comments and strings mean nothing to a server, but for those that are the whole string. With
    `asks_strings`, others in strings come last: what we took for one may be code.
    """
    kinds = {"code", "quoted", "string"} if asks_strings else {"code", "quoted"}
    by_file: dict[str, list[Word]] = {}
    for word in words:
        if word.kind in kinds:
            by_file.setdefault(word.path, []).append(word)
    numbered = [(number, word) for file in by_file.values() for number, word in enumerate(file)]
    # stable: files stay in their order
    numbered.sort(key=lambda each: (_ASKED_FIRST.index(each[1].kind), each[0]))
    return [word for _, word in numbered]


def compare(
    word: str,
    rest: Sequence[Word],
    meanings: Mapping[Word, Meaning],
    unknown_files: Mapping[str, str],
    *,
    conditions: Mapping[Word, str] | None = None,
    has_all_words: bool = True,
    unasked: str = "not looked at for want of time",
) -> Comparison:
    """Sort what a server left out.

    Args:
        word: the name.
        rest: the words that are not in the answer.
        meanings: what the server says of those that it was asked about.
        unknown_files: why it does not know some of the files, in a few words.
        conditions: the condition under which code is read, of words in conditional code.
        has_all_words: whether all files were searched.
        unasked: what to say of words about which the server was not asked.
    """
    conditions = conditions or {}
    by_line: dict[tuple[str, int], list[Word]] = {}
    for each in rest:
        by_line.setdefault((each.path, each.line), []).append(each)
    in_text = quoted = of_others = 0
    missing: dict[tuple[str, str], list[int]] = {}
    for (path, line), words in by_line.items():
        doubts = [each for each in words if _is_doubtful(each, meanings)]
        if doubts:
            meaning = _worst(meanings.get(each) for each in doubts)
            meaning_text = unasked if meaning is None else _WHY[meaning]
            if meaning not in {"same", "copy", "bound"}:
                condition = next((text for each in doubts if (text := conditions.get(each))), "")
                meaning_text = f"{_CONDITIONAL} {condition}" if condition else meaning_text
                meaning_text = unknown_files.get(path, meaning_text)
            why = meaning_text
            missing.setdefault((path, why), []).append(line + 1)
        elif any(meanings.get(each) == "other" for each in words):
            of_others += 1
        else:
            in_text += 1
            quoted += any(each.kind == "quoted" for each in words)
    files = [MissingFile(path, tuple(lines), why) for (path, why), lines in missing.items()]
    return Comparison(word, in_text, quoted, of_others, files, has_all_words)


def _is_doubtful(word: Word, meanings: Mapping[Word, Meaning]) -> bool:
    meaning = meanings.get(word)
    return meaning in {"same", "copy", "bound"} or (word.kind == "code" and meaning != "other")


def _worst(meanings: Iterable[Meaning | None]) -> Meaning | None:
    met = set(meanings)
    worst_first: tuple[Meaning, ...] = ("same", "copy", "bound", "none")
    return next((meaning for meaning in worst_first if meaning in met), None)


def _name_file(file: MissingFile, show_path: Callable[[str], str]) -> str:
    count = len(file.lines)
    return show_path(file.path) + (f" ({count})" if count > 1 else f"#{file.lines[0]}")


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
