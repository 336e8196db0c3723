"""Cuts a reply of Markdown that arrives in pieces into blocks that are whole, each told once. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
