"""Chooses the diagnostics of one answer, and writes them by repeated message and by file. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from lm_tools_bridge.code_intelligence.tools.definitions import SEVERITIES
from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.text.text_tokens import text_tokens

MAX_TOKENS: Final = 8_000
"""Of an answer's text, and of its structured content: a model that reads more forgets what it wanted."""
LEAST_ENDING: Final = 120
"""Characters of an ending that is written once: shorter ones are easier to read where they stand."""
MANY_FILES: Final = 3
"""In so many files, a message is written once with all its places."""
MOST_COUNTED: Final = 8
"""Codes and files that are counted in an answer that does not show all: what to look at first."""
_BETWEEN: Final = 4
"""Tokens of what joins two entries."""
Message = tuple[int, str | None, str | int | None, str]
"""What two diagnostics of one message have in common."""


class Ending(NamedTuple):
    """What several messages have in common at their end; they refer to it by number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """All diagnostics of a question in the order in which they are shown.

    Attributes:
        items: those with the same message follow each other, if many files have it.
        repeated: the messages of many files, each with the number of these.
        endings: by the shortened messages.
    """

    items: Sequence[Diagnostic]
    repeated: Mapping[Message, int]
    endings: Mapping[str, Ending]


@dataclass(frozen=True, slots=True)
class DiagnosticPage:
    """The diagnostics of one answer; `following` is the offset of the next one's."""

    items: Sequence[Diagnostic]
    following: int | None
    endings: Sequence[Ending]


def arrange_diagnostics(diagnostics: Iterable[Diagnostic]) -> Diagnostics:
    """The diagnostics with shortened messages: errors first, then messages of many files, then by file."""
    shortened, endings = _without_endings(list(diagnostics))
    files: dict[Message, set[Path]] = {}
    for diagnostic in shortened:
        files.setdefault(_message(diagnostic), set()).add(diagnostic.path)
    repeated = {message: len(paths) for message, paths in files.items() if len(paths) >= MANY_FILES}

    def order(diagnostic: Diagnostic) -> tuple[Any, ...]:
        message = _message(diagnostic)
        count = repeated.get(message, 0)
        return (diagnostic.severity, -count, str(message) if count else "", diagnostic.order)

    return Diagnostics(sorted(shortened, key=order), repeated, endings)


def _message(diagnostic: Diagnostic) -> Message:
    return (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message)


def _without_endings(
    diagnostics: Sequence[Diagnostic],
) -> tuple[list[Diagnostic], dict[str, Ending]]:
    """The diagnostics with long endings that several messages share replaced by numbers, and these endings.

    A type checker tells with each missing import where it looked for it.
    """
    shorter: dict[str, str] = {}
    endings: dict[str, Ending] = {}
    for number, group in enumerate(_with_one_ending({each.message for each in diagnostics}), 1):
        ending = Ending(number, _common_ending(group[0], group[-1]))
        for message in group:
            shorter[message] = f"{message.removesuffix(ending.text)}… (ending {number})"
            endings[shorter[message]] = ending
    return [replace(each, message=shorter.get(each.message, each.message)) for each in diagnostics], endings


def _with_one_ending(messages: Iterable[str]) -> list[list[str]]:
    """Groups of messages that end alike, of which the first and the last have the least in common."""
    groups: list[list[str]] = []
    for message in sorted(messages, key=lambda text: text.split(" ")[::-1]):
        if not groups or len(_common_ending(groups[-1][-1], message)) < LEAST_ENDING:
            groups.append([])
        groups[-1].append(message)
    return [group for group in groups if len(group) > 1]


def _common_ending(message: str, other: str) -> str:
    """The words that two different messages have in common at their end."""
    count = 0
    pairs = zip(reversed(message.split(" ")), reversed(other.split(" ")), strict=False)
    for word, other_word in pairs:
        if word != other_word:
            break
        count += len(word) + 1
    return message[len(message) - count + 1 :] if 0 < count <= min(len(message), len(other)) else ""


def text_page(
    diagnostics: Diagnostics, span: slice, head_tokens: float, shown_path: Callable[[Path], str]
) -> DiagnosticPage:
    """The diagnostics of a span that fit into an answer's text; at least one, if there is one.

    Args:
        diagnostics: all of them.
        span: which of them to show at most.
        head_tokens: those of what stands above them.
        shown_path: how texts name a file.
    """

    def costs(diagnostic: Diagnostic) -> Iterator[tuple[object, str]]:
        message, path = _message(diagnostic), diagnostic.path
        is_repeated = message in diagnostics.repeated
        home = message if is_repeated else path
        yield (home, message), diagnostic.text_without_place()
        yield (home, path), shown_path(path)
        yield diagnostic.identity, diagnostic.start() if is_repeated else diagnostic.place()

    return _choose_page(diagnostics, span, head_tokens, costs)


def structured_page(
    diagnostics: Diagnostics,
    span: slice,
    head_tokens: float,
    file_members: Callable[[Path], Mapping[str, Any]],
) -> DiagnosticPage:
    """As `text_page`, for the structured content, of which each diagnostic takes several times as much.

    Args:
        diagnostics, span, head_tokens: as there.
        file_members: what it says of a file.
    """

    def costs(diagnostic: Diagnostic) -> Iterator[tuple[object, str]]:
        yield diagnostic.path, _json(file_members(diagnostic.path))
        yield diagnostic.identity, _json(diagnostic.structured())

    return _choose_page(diagnostics, span, head_tokens, costs)


def _choose_page(
    diagnostics: Diagnostics,
    span: slice,
    tokens: float,
    costs: Callable[[Diagnostic], Iterator[tuple[object, str]]],
) -> DiagnosticPage:
    """The diagnostics that fit; `costs` names what one of them writes that stands there once."""
    items: list[Diagnostic] = []
    written: set[object] = set()
    endings: set[Ending] = set()
    for diagnostic in diagnostics.items[span]:
        ending = diagnostics.endings.get(diagnostic.message)
        if ending is not None and ending not in endings:
            tokens += text_tokens(ending.text) + _BETWEEN
        for what, words in costs(diagnostic):
            if what not in written:
                written.add(what)
                tokens += text_tokens(words) + _BETWEEN
        if items and tokens > MAX_TOKENS:
            break
        items.append(diagnostic)
        endings |= set() if ending is None else {ending}
    end = span.start + len(items)
    return DiagnosticPage(items, end if end < len(diagnostics.items) else None, sorted(endings))


def _json(members: Mapping[str, Any]) -> str:
    return jsonrpc.dumps(members).decode()


def page_lines(
    page: DiagnosticPage, repeated: Mapping[Message, int], shown_path: Callable[[Path], str]
) -> Iterator[str]:
    """The diagnostics of a page as text: messages of many files, then the other ones by file."""
    yield from (f"ending {number}: {text}" for number, text in page.endings)
    for message, items in groupby((each for each in page.items if _message(each) in repeated), _message):
        group = list(items)
        yield "---"
        yield f"in {repeated[message]} files: {group[0].text_without_place()}"
        for path, places in groupby(group, lambda each: each.path):
            yield f"{shown_path(path)} {', '.join(each.start() for each in places)}"
    for path, others in by_file([each for each in page.items if _message(each) not in repeated]):
        yield "---"
        yield f"file: {shown_path(path)}"
        same: dict[Message, list[Diagnostic]] = {}
        for each in others:
            same.setdefault(_message(each), []).append(each)
        yield from (each[0].text(", ".join(item.place() for item in each)) for each in same.values())


def by_file(diagnostics: Sequence[Diagnostic]) -> list[tuple[Path, list[Diagnostic]]]:
    """By file; those with errors come first."""
    files: dict[Path, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        files.setdefault(diagnostic.path, []).append(diagnostic)
    return list(files.items())


def severity_counts(diagnostics: Diagnostics) -> dict[str, int]:
    """How many there are of each severity, the worst first."""
    counts = Counter(diagnostic.severity for diagnostic in diagnostics.items)
    return {SEVERITIES[severity]: counts[severity] for severity in sorted(counts)}


def frequent_codes(diagnostics: Diagnostics) -> list[tuple[str, int]]:
    """The most frequent codes, each with its source."""
    names = (f"{each.source or ''} {each.code or ''}".strip() for each in diagnostics.items)
    return Counter(name for name in names if name).most_common(MOST_COUNTED)


def frequent_files(diagnostics: Diagnostics) -> list[tuple[Path, int]]:
    """The files with the most diagnostics."""
    return Counter(each.path for each in diagnostics.items).most_common(MOST_COUNTED)
