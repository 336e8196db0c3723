"""Tells which symbols of an outline are only imported there: TypeScript's servers list those, too. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from lm_tools_bridge.code_intelligence.wire.positions import Position

SUFFIXES: Final = frozenset({".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"})
_STATEMENT: Final = re.compile(
    r"^[ \t]*(?:import\b(?!\s*[(.])[^'\"`;]*['\"]|export\s+(?:type\s+)?\{[^}]*\})", re.MULTILINE
)
"""An import, or names that are exported from elsewhere or a second time."""


def imported(lines: Sequence[str]) -> Callable[[Position], bool]:
    """Tells of a place in a file of these suffixes whether it is in an import or a list of exports."""
    found = [match.span() for match in _STATEMENT.finditer("\n".join(lines))]
    if not found:
        return lambda place: False
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    begins = [begin for begin, _ in found]

    def is_imported(place: Position) -> bool:
        offset = starts[place.line - 1] + place.column - 1
        number = bisect_right(begins, offset) - 1
        return number >= 0 and offset < found[number][1]

    return is_imported
