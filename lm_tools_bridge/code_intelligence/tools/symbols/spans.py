"""Writes ranges of text as results have them: lines and characters from 1. Pure."""

from __future__ import annotations

from lm_tools_bridge.code_intelligence.wire.positions import Position, Span


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
