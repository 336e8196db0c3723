"""Draws the box of a reply of Markdown while it arrives: drafts, replaced by whole blocks once each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len

from lm_tools_bridge.agent.interaction import Box
from lm_tools_bridge.agent.screen import screen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.segment import Segment


def rows_of_block(markdown: str, columns: int) -> list[str]:
    """The rows of a block, each filled up to this many columns. The text holds no control characters."""
    rows = _rows(_markdown()(markdown), columns)
    while rows and not _text(rows[-1]).strip():
        rows.pop()
    while rows and not _text(rows[0]).strip():
        rows.pop(0)
    return _escaped(rows)


def _text(row: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in row)


def _rows(what: Any, columns: int) -> list[list[Segment]]:
    console = _console()
    return console.render_lines(what, console.options.update(width=columns), pad=True)


def _escaped(rows: Sequence[Sequence[Segment]]) -> list[str]:
    """The rows with escape sequences for their colours; all at once, since each printing takes long."""
    from rich.segment import Segment, Segments

    console = _console()
    with console.capture() as captured:
        console.print(Segments([segment for row in rows for segment in (*row, Segment.line())]), end="")
    return captured.get().split("\n")[:-1]


@cache
def _console() -> Console:
    import io

    from rich.console import Console  # the first reply needs it, not the prompt

    # with its size it does not ask the terminal for each row
    return Console(
        file=io.StringIO(), force_terminal=True, color_system="standard", markup=False, emoji=False,
        highlight=False, legacy_windows=False, width=1000, height=1000,
    )  # fmt: skip


@cache
def _markdown() -> Callable[[str], Markdown]:
    from markdown_it import MarkdownIt
    from rich.markdown import Heading, Markdown
    from rich.text import Text

    class PlainHeading(Heading):
        """A heading at the left, without a box."""

        def __rich_console__(self, *_: Any) -> Any:
            self.text.justify = "left"
            yield Text.assemble(self.text, style="bold")

    # rich leaves out HTML and definitions of references: a reply that speaks of <b> would lose words
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")

    class OurMarkdown(Markdown):
        elements: ClassVar[dict[str, Any]] = {**Markdown.elements, "heading_open": PlainHeading}

    # each new Markdown makes a parser of its own, which takes as long as a block
    empty = OurMarkdown("", hyperlinks=False)

    def parsed(markup: str) -> Markdown:
        document = copy(empty)
        document.markup, document.parsed = markup, parser.parse(markup)
        return document

    return parsed


_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$")
_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]")


@dataclass(frozen=True, slots=True)
class Draft:
    """Text of a block that is not whole yet."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A whole block, which takes the place of all drafts since the last one."""

    markdown: str


@dataclass(frozen=True, slots=True)
class Code:
    """A whole line of a code block, which takes the place of its drafts."""

    line: str


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line between blocks, or a line that shows nothing, such as the end of a code block."""

    shows: bool


Part = Draft | Block | Code | Blank


class ReplyBlocks:
    """One reply. Its work grows with the text, not with the number of pieces."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._fence = ""
        self._is_blank = False

    def feed(self, text: str) -> Iterator[Part]:
        """The parts that a piece of the reply gives."""
        first, *later_lines = text.split("\n")
        yield from self._add(first)
        for line in later_lines:
            yield from self._end_line()
            yield from self._add(line)

    def end(self) -> Iterator[Part]:
        """The rest of the reply."""
        if self._line:
            yield from self._end_line()
        yield from self._finished()

    def _add(self, text: str) -> Iterator[Part]:
        if not text:
            return
        begins_anew = self._is_blank and not self._line and not text[0].isspace()
        if begins_anew and not self._fence:
            yield from self._finished()
            yield Blank(True)
        self._line.append(text)
        yield Draft(text)

    def _end_line(self) -> Iterator[Part]:
        line = "".join(self._line)
        self._line.clear()
        if self._fence:
            yield self._code(line)
            return
        opening = _FENCE.match(line)
        if opening is not None or _HEADING.match(line) or (self._in_list() and _ITEM.match(line)):
            yield from self._finished()
        if opening is not None:
            self._fence = opening[1]
            yield Blank(False)
            return
        if not line.strip():
            yield from self._blank()
            return
        self._lines.append(line)
        self._is_blank = False
        if _HEADING.match(line):
            yield from self._finished()
        else:
            yield Draft("\n")

    def _blank(self) -> Iterator[Part]:
        if self._lines:
            self._lines.append("")
            yield Draft("\n")
        self._is_blank = True

    def _code(self, line: str) -> Part:
        closing = line.strip()
        if closing.startswith(self._fence) and not closing.strip(self._fence[0]):
            self._fence = ""
            return Blank(False)
        return Code(line)

    def _in_list(self) -> bool:
        return bool(self._lines) and _ITEM.match(self._lines[0]) is not None

    def _finished(self) -> Iterator[Part]:
        block = "\n".join(self._lines).rstrip()
        self._lines.clear()
        self._is_blank = False
        if block:
            yield Block(block)


_CODE: Final = "\x1b[36m{}\x1b[0m"
_INVISIBLE: Final = str.maketrans("", "", "\r\ufe0e\ufe0f\u200d")
"""What changes how an emoji looks, and the other half of a line's end: not worth an escape in prose."""


class ReplyBox:
    """One reply on a terminal.

    Args:
        size: the terminal's columns and rows, now.
        rows_of_block: the coloured rows of a block, filled up to a number of columns.
        heading: the style of the first line, with `{}` for the line.
    """

    def __init__(
        self,
        size: Callable[[], tuple[int, int]],
        rows_of_block: Callable[[str, int], list[str]],
        heading: str = "{}",
    ) -> None:
        self._size = size
        self._heading = heading
        self._rows_of_block = rows_of_block
        self._blocks = ReplyBlocks()
        self._total = 0
        self._inner = 0
        self._drawn_for = (0, 0)
        self._rows = 0
        self._used = 0

    def feed(self, text: str) -> str:
        """What to print for a piece of the reply."""
        printed = [] if self._total else [self._begin()]
        visible = screen.shown(text.translate(_INVISIBLE))
        printed.extend(piece for part in self._blocks.feed(visible) for piece in self._drawn(part))
        return "".join(printed)

    def end(self) -> str:
        """What to print at its end; nothing if nothing came."""
        if not self._total:
            return ""
        printed = [piece for part in self._blocks.end() for piece in self._drawn(part)]
        printed.extend(self._replace_drafts([]))
        return "".join([*printed, screen.bottom(self._total), "\n"])

    def _begin(self) -> str:
        self._drawn_for = self._size()
        self._total = screen.width(self._drawn_for[0])
        self._inner = self._total - 4
        return f"{self._heading.format(screen.top(Box.ASSISTANT, self._total))}\n"

    def _drawn(self, part: Part) -> Iterator[str]:
        if isinstance(part, Draft):
            yield from self._draft(part.text)
        elif isinstance(part, Block):
            yield from self._replace_drafts(self._rows_of_block(part.markdown, self._inner))
        elif isinstance(part, Code):
            rows = screen.wrapped(part.line, self._inner)
            yield from self._replace_drafts([self._filled(row, _CODE) for row in rows])
        else:
            yield from self._replace_drafts([self._filled("")] if part.shows else [])

    def _filled(self, row: str, style: str = "{}") -> str:
        return style.format(row) + " " * (self._inner - cell_len(row))

    def _draft(self, text: str) -> Iterator[str]:
        for at, line in enumerate(text.split("\n")):
            if at:
                yield self._close_row()
            remainder = line
            while remainder:
                if not self._rows or self._used < 0:
                    yield self._open_row()
                head = screen.cut(remainder, self._inner - self._used)
                yield head
                self._used += cell_len(head)
                remainder = remainder[len(head) :]
                if remainder:
                    yield self._close_row()

    def _open_row(self) -> str:
        self._rows += 1
        self._used = 0
        return "│ "

    def _close_row(self) -> str:
        opened = "" if self._rows and self._used >= 0 else self._open_row()
        filled = " " * (self._inner - self._used)
        self._used = -1
        return f"{opened}{filled} │\n"

    def _replace_drafts(self, rows: list[str]) -> Iterator[str]:
        """Take away the drafts, if all of them are still on the screen as they were drawn, for these rows."""
        is_open = self._rows > 0 and self._used >= 0
        up = self._rows - is_open
        if self._rows and (self._size() != self._drawn_for or up >= self._drawn_for[1] - 1):
            # a terminal of another size has wrapped them anew, or they have left it: they stay
            if is_open:
                yield self._close_row()
            self._take_size()
        else:
            if self._rows:
                yield f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J"
            for row in rows:
                yield f"│ {row} │\n"
        self._rows = 0
        self._used = 0

    def _take_size(self) -> None:
        self._drawn_for = self._size()
        self._total = screen.width(self._drawn_for[0])
        self._inner = self._total - 4
