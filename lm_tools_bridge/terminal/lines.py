"""Turns views into lines: of spans for a screen, or of plain text for pipes and files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lm_tools_bridge.terminal.columns import GAP, NUMERIC, arranged, cut, with_home, written
from lm_tools_bridge.terminal.screen import Line, Part, Screen, Span
from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Note, Table, Tone, View, tone_of
from lm_tools_bridge.text.printable import printable

_WORDS: Final = re.compile(r"(?:\blmtb (?:[^\s;,]+ )*[^\s]+|\S+)")
"""A word; or `lmtb` with what follows up to punctuation or the end."""
_DEEPEST: Final = 24
"""Columns by which later lines are indented at most."""


def broken(text: str, screen: Screen) -> Iterator[str]:
    """The lines of a text; later ones are indented like the first.

    A word or command that is longer than a line stays whole: a terminal breaks it so that it can be copied.
    """
    if not _is_long(text, screen):
        yield text
        return
    start = text[: len(text) - len(text.lstrip())]
    current, end = "", 0
    for word in _WORDS.finditer(text):
        longer = current + text[end : word.end()]
        if current.strip() and _is_long(longer, screen):
            yield current
            longer = start[:_DEEPEST] + word.group()
        current, end = longer, word.end()
    yield current


def _is_long(line: str, screen: Screen) -> bool:
    return screen.width is not None and screen.measure(line) > screen.width


_BELOW = "    "


def lines(view: View, screen: Screen) -> Iterator[Line]:
    """The lines of a view."""
    if isinstance(view, Table):
        yield from _indented(view, screen)
    elif isinstance(view, FactList):
        yield from _facts(view.facts, screen)
    else:
        yield from _note(Note(view) if isinstance(view, str) else view, screen)


def _indented(table: Table, screen: Screen) -> Iterator[Line]:
    width = None if screen.width is None else screen.width - table.indent
    for line in _table(table, screen._replace(width=width)):
        yield [Span(" " * table.indent), *line] if table.indent and line else line


def _table(table: Table, screen: Screen) -> Iterator[Line]:
    columns = table.columns
    cells = [
        [written(column.kind, value, screen) for column, value in zip(columns, row, strict=True)]
        for row in table.rows
    ]
    arrangement = arranged(columns, cells, screen)
    if arrangement is None:
        yield from _records(columns, cells, screen)
        return
    widths = _cut_to(arrangement.widths, columns, cells, screen)
    heads = [Span(columns[at].head, Part.HEAD) for at in widths]
    yield _aligned(heads, columns, widths, screen)
    groups = table.groups if len(set(table.groups)) > 1 else ()
    for number, row in enumerate(cells):
        if groups and (number == 0 or groups[number] != groups[number - 1]):
            yield from ([], [Span(screen.encode(printable(groups[number])), Part.HEAD)])
        spans = [Span(row[at], _style(columns[at], row[at], screen)) for at in widths]
        yield _aligned(spans, columns, widths, screen)
        for at in arrangement.below:
            if row[at] != "-":
                yield from _below(columns[at], row[at], screen)


def _cut_to(
    widths: Mapping[int, int], columns: Sequence[Column], cells: Sequence[list[str]], screen: Screen
) -> dict[int, int]:
    """Cut the cells of these columns. Returns the widths that they need now, which can be less."""
    for at, width in widths.items():
        for row in cells:
            row[at] = cut(columns[at].kind, row[at], width, screen)
    return {at: max(map(screen.measure, (columns[at].head, *(row[at] for row in cells)))) for at in widths}


def _style(column: Column, text: str, screen: Screen) -> Tone | Part:
    if text == "-":
        return Part.ASIDE
    if column.kind is Kind.STATE:
        tone = tone_of(text[1:].lstrip() if screen.marks else text)
        return tone or Part.TEXT
    return Part.ASIDE if column.kind is Kind.FOLDER else Part.TEXT


def _aligned(
    spans: Sequence[Span], columns: Sequence[Column], widths: Mapping[int, int], screen: Screen
) -> Line:
    """The spans in their columns, without spaces at the end."""
    line: Line = []
    for span, (at, width) in zip(spans, widths.items(), strict=True):
        room = " " * (width - screen.measure(span.text))
        line += [Span(room), span] if columns[at].kind in NUMERIC else [span, Span(room)]
        line.append(Span(" " * GAP))
    while line and not line[-1].text.strip():
        line.pop()
    return line


def _below(column: Column, text: str, screen: Screen) -> Iterator[Line]:
    """A cell below its row: a folder on one line, a text on as many as it needs."""
    style = Part.ASIDE if column.kind is Kind.FOLDER else Part.TEXT
    if column.kind is Kind.FOLDER and screen.width is not None:
        text = cut(column.kind, text, screen.width - len(_BELOW), screen)
    for line in broken(f"{_BELOW}{text}", screen):
        yield [Span(line, style)]


def _records(columns: Sequence[Column], cells: Sequence[Sequence[str]], screen: Screen) -> Iterator[Line]:
    """Each row as a list of facts, for a terminal that is too narrow for columns."""
    wide = max(screen.measure(column.head) for column in columns) + GAP
    for number, row in enumerate(cells):
        if number:
            yield []
        for column, text in zip(columns, row, strict=True):
            head = Span(column.head.ljust(wide), Part.HEAD)
            room = max(1, (screen.width or 0) - wide)
            cell_text = (
                cut(column.kind, text, room, screen) if column.kind in {Kind.FOLDER, Kind.TEXT} else text
            )
            yield [head, Span(cell_text, _style(column, text, screen))]


def _facts(facts: Sequence[Fact], screen: Screen) -> Iterator[Line]:
    wide = max((screen.measure(fact.label) for fact in facts), default=0) + GAP
    for fact in facts:
        label = fact.label + " " * (wide - screen.measure(fact.label))
        mark = _mark(fact.tone, screen)
        room = None if screen.width is None else max(screen.width - wide - len(mark), 20)
        text = with_home(screen.encode(printable(fact.text)), screen.home)
        for number, part in enumerate(broken(text, screen._replace(width=room))):
            start = Span(label, Part.LABEL) if number == 0 else Span(" " * wide)
            lead = Span(mark if number == 0 else " " * len(mark), fact.tone or Part.TEXT)
            yield [start, *([lead] if mark else []), Span(part)]


def _note(note: Note, screen: Screen) -> Iterator[Line]:
    mark = _mark(note.tone, screen)
    room = None if screen.width is None else screen.width - len(mark)
    text = with_home(screen.encode(printable(note.text)), screen.home)
    for number, part in enumerate(broken(text, screen._replace(width=room))):
        lead = Span(mark if number == 0 else " " * len(mark), note.tone or Part.TEXT)
        yield [*([lead] if mark else []), Span(part)]


def _mark(tone: Tone | None, screen: Screen) -> str:
    return f"{screen.marks[tone]} " if tone is not None and screen.marks else ""


def columns_of(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415  most texts are ASCII

    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


_SCREEN: Final = Screen(None, columns_of, {})


def plain(*views: View) -> str:
    """Views as one text, without a line feed at its end."""
    return "\n".join(
        "".join(span.text for span in line).rstrip() for view in views for line in lines(view, _SCREEN)
    )
