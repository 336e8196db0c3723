"""Tables in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under columns; floats get as many digits as they deserve, the first column is text."""
    lines = [columns, ["---"] + ["--:"] * (len(columns) - 1)]
    lines += [[cell(one) for one in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """A value as people read it: three digits that count, thousands in groups, nothing as a dash."""
    match value:
        case None:
            return "–"
        case int():
            return f"{value:,}"
        case float():
            return figure(value)
    return str(value)


def figure(value: float) -> str:
    """A number with the digits that count."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
