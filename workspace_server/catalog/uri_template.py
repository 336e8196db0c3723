"""Matches URIs with URI templates (RFC 6570), without extracting values. Pure.

Generous on purpose: it finds the servers to ask for a resource, and each server decides for itself.
"""

from __future__ import annotations

import re
from typing import Final

MAX_LENGTH: Final = 8192
MAX_EXPRESSIONS: Final = 32
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_ENDS: Final = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}
"""The characters that end the value of an expression, by the expression's operator."""


def steps(template: str, uri: str) -> int:
    """An estimate of the steps that `matches` takes."""
    begin, _, rest = template.partition("{")
    return (rest.count("{") + 1) * len(uri) if rest and uri.startswith(begin) else 1


def matches(template: str, uri: str) -> bool:
    """Whether the template can expand to this URI; False if either is too long to check."""
    if len(uri) > MAX_LENGTH or len(template) > MAX_LENGTH:
        return False
    pieces = _EXPRESSION.split(template)
    if len(pieces) > 1 + 3 * MAX_EXPRESSIONS or not uri.startswith(pieces[0]):
        return False
    positions = {len(pieces[0])}  # positions in the URI up to which the template has matched
    for operator, literal in zip(pieces[1::3], pieces[3::3], strict=True):
        positions = _after(uri, _spanned(uri, positions, _ENDS[operator]), literal)
        if not positions:
            return False
    return len(uri) in positions


def _spanned(uri: str, positions: set[int], ends: str) -> set[int]:
    """All positions that can be reached from these without crossing one of `ends`."""
    reached = set()
    is_inside = False
    for position in range(min(positions), len(uri) + 1):
        is_inside = position in positions or (is_inside and uri[position - 1] not in ends)
        if is_inside:
            reached.add(position)
    return reached


def _after(uri: str, positions: set[int], literal: str) -> set[int]:
    return (
        {position + len(literal) for position in positions if uri.startswith(literal, position)}
        if literal
        else positions
    )
