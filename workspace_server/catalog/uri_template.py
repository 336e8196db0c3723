"""Whether a URI may come from a URI template (RFC 6570). Pure.

Generous: it finds who should be asked for a resource, and the server that is asked decides. Values are not
taken out of the URI.
"""

from __future__ import annotations

import re
from typing import Final

MAX_LENGTH: Final = 8192
MAX_EXPRESSIONS: Final = 32
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_ENDS: Final = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}
"""By the operator of an expression, the characters that end what it stands for."""


def steps(template: str, uri: str) -> int:
    """About how much work it is to see whether they match."""
    begin, _, rest = template.partition("{")
    return (rest.count("{") + 1) * len(uri) if rest and uri.startswith(begin) else 1


def matches(template: str, uri: str) -> bool:
    """Whether some values of the template's variables give this URI; False for one too long to say."""
    if len(uri) > MAX_LENGTH or len(template) > MAX_LENGTH:
        return False
    pieces = _EXPRESSION.split(template)
    if len(pieces) > 1 + 3 * MAX_EXPRESSIONS or not uri.startswith(pieces[0]):
        return False
    places = {len(pieces[0])}  # where in the URI what was read of the template may end
    for operator, literal in zip(pieces[1::3], pieces[3::3], strict=True):
        places = _after(uri, _spanned(uri, places, _ENDS[operator]), literal)
        if not places:
            return False
    return len(uri) in places


def _spanned(uri: str, places: set[int], ends: str) -> set[int]:
    """All places that can be reached from these without passing one of `ends`, in one walk."""
    reached = set()
    is_inside = False
    for place in range(min(places), len(uri) + 1):
        is_inside = place in places or (is_inside and uri[place - 1] not in ends)
        if is_inside:
            reached.add(place)
    return reached


def _after(uri: str, places: set[int], literal: str) -> set[int]:
    return {place + len(literal) for place in places if uri.startswith(literal, place)} if literal else places
