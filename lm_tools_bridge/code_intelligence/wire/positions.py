"""Converts positions between ours (lines and columns from 1, in characters) and a server's units. Pure.

A server's text and ours may differ, and a server may lie: its positions are moved into the text. Those of a
caller are refused if they lie outside.

Results have ranges of text with lines and characters from 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.server import PositionEncoding

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_MOST: Final = 2**31 - 1
"""The largest number of LSP (`uinteger`)."""


class Position(msgspec.Struct, frozen=True, order=True):
    """A place between two characters: line and column count from 1, in Unicode code points."""

    line: int
    column: int


class Span(msgspec.Struct, frozen=True):
    """The text from `start` up to `end`, which it does not contain."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class OutsideText:
    """A position that the text does not have. `reason` is for a model."""

    reason: str


def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends, as LSP counts them: `\\n`, `\\r\\n` and `\\r` end a line.

    A text that ends with a line end has an empty last line; an empty text has one line.
    """
    return text.split("\n") if "\r" not in text else _LINE_END.split(text)


def to_server(
    position: Position, lines: Sequence[str], encoding: PositionEncoding
) -> dict[str, int] | OutsideText:
    """A caller's position as LSP `Position`."""
    if not 1 <= position.line <= len(lines):
        return OutsideText(f"line {position.line} does not exist; the file has {len(lines)} lines")
    line = lines[position.line - 1]
    if not 1 <= position.column <= len(line) + 1:
        return OutsideText(
            f"column {position.column} does not exist in line {position.line}; its last is {len(line) + 1}"
        )
    before = line[: position.column - 1]
    return {"line": position.line - 1, "character": _units(before, encoding)}


def from_server(value: Any, lines: Sequence[str] | None, encoding: PositionEncoding) -> Position | None:
    """An LSP `Position` as ours, moved to the nearest place in the text; None if it is no position at all.

    Args:
        value: whatever a server sent.
        lines: the text that it is about; None if unknown: columns are then right for ASCII text only.
        encoding: the unit of `character`.
    """
    if type(value) is not dict and not isinstance(value, Mapping):  # thousands: the first is much faster
        return None
    line, character = _number(value.get("line")), _number(value.get("character"))
    if line is None or character is None:
        return None
    if lines is None:
        return Position(line + 1, character + 1)
    if line >= len(lines):
        last = lines[-1] if lines else ""
        return Position(max(1, len(lines)), len(last) + 1)
    return Position(line + 1, _characters(lines[line], character, encoding) + 1)


def span_from_server(value: Any, lines: Sequence[str] | None, encoding: PositionEncoding) -> Span | None:
    """An LSP `Range` as ours, moved into the text; None if it is none.

    An end before the start becomes the start.
    """
    if type(value) is not dict and not isinstance(value, Mapping):
        return None
    start = from_server(value.get("start"), lines, encoding)
    end = from_server(value.get("end"), lines, encoding)
    if start is None or end is None:
        return None
    return Span(start, max(start, end))


def order_of(value: Any) -> tuple[int, int, int, int] | None:
    """The numbers of an LSP `Range`, by which ranges of one file can be sorted; None if it is none."""
    if type(value) is not dict and not isinstance(value, Mapping):
        return None
    start, end = value.get("start"), value.get("end")
    if not isinstance(start, Mapping) or not isinstance(end, Mapping):
        return None
    first, second = _number(start.get("line")), _number(start.get("character"))
    third, fourth = _number(end.get("line")), _number(end.get("character"))
    if first is None or second is None or third is None or fourth is None:
        return None
    return first, second, third, fourth


def span_to_server(
    span: Span, lines: Sequence[str], encoding: PositionEncoding
) -> dict[str, Any] | OutsideText:
    """A caller's span as LSP `Range`."""
    start = to_server(span.start, lines, encoding)
    end = to_server(span.end, lines, encoding)
    if isinstance(start, OutsideText):
        return start
    if isinstance(end, OutsideText):
        return end
    if span.end < span.start:
        return OutsideText("the end lies before the start")
    return {"start": start, "end": end}


def _number(value: Any) -> int | None:
    if type(value) is int and 0 <= value <= _MOST:  # all that servers send, but for hostile ones
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return max(0, min(value, _MOST))


def _units(text: str, encoding: PositionEncoding) -> int:
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _characters(line: str, units: int, encoding: PositionEncoding) -> int:
    """How many whole characters these units hold; all of the line beyond its end."""
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    if encoding == "utf-8":
        before = line.encode("utf-8", "surrogatepass")[:units]
        return sum(byte & 0xC0 != 0x80 for byte in before) - _cut_utf_8(before)
    before = line.encode("utf-16-le", "surrogatepass")[: 2 * units]
    high = before[1::2]
    whole = len(high) - sum(0xDC <= byte <= 0xDF for byte in high)
    return whole - (bool(high) and 0xD8 <= high[-1] <= 0xDB)


def _cut_utf_8(text: bytes) -> int:
    """1 if the last character of these bytes lacks some of its bytes, else 0."""
    for behind, byte in enumerate(reversed(text[-4:]), 1):
        if byte & 0xC0 != 0x80:
            size = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return int(size > behind)
    return 0


def order(span: Span) -> tuple[int, int, int, int]:
    """The sort key of a span."""
    return (span.start.line, span.start.column, span.end.line, span.end.column)


def members(span: Span) -> dict[str, int]:
    """As in `structuredContent`."""
    return {
        "startLine": span.start.line,
        "startCharacter": span.start.column,
        "endLine": span.end.line,
        "endCharacter": span.end.column,
    }


def text(span: Span) -> str:
    """As in texts, e.g. `2:7-2:8`."""
    return f"{span.start.line}:{span.start.column}-{span.end.line}:{span.end.column}"


def lines(span: Span) -> str:
    """The lines alone, e.g. `2` or `2-5`. A span that ends at the beginning of a line does not include it."""
    last = max(span.start.line, span.end.line - (span.end.column == 1))
    return str(span.start.line) if last == span.start.line else f"{span.start.line}-{last}"


def on_line(line: int, column: int, length: int) -> Span:
    """The span of so many characters in one line."""
    return Span(Position(line, column), Position(line, column + length))
