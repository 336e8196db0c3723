"""Tables in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is left-aligned, the others right-aligned."""
    lines = [columns, ["---"] + ["--:"] * (len(columns) - 1)]
    lines += [[cell(one) for one in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """The text of a value: floats as by `figure`, thousands in groups, a dash for None."""
    match value:
        case None:
            return "–"
        case int():
            return f"{value:,}"
        case float():
            return figure(value)
    return str(value)


def figure(value: float) -> str:
    """A number with two decimals below 10, one below 100, otherwise none."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
