"""Words why a value does not fit a setting. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_TYPES: Final[Mapping[str, str]] = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "array": "a list",
    "object": "a table",
}  # fmt: skip
_BOUNDS: Final[Mapping[str, str]] = {
    ">=": "at least {}", ">": "greater than {}", "<=": "at most {}", "<": "less than {}",
}  # fmt: skip
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(?: (>=|>|<=|<) ([-0-9.e]+))?(.*)")
_PLACE: Final = re.compile(r" - at `\$\.?([^`]*)`\Z")


def worded_fault(error: Exception) -> str:
    """Why a value does not fit, such as `must be a whole number`.

    Args:
        error: a `msgspec.ValidationError`, or another one whose text is in words already.
    """
    text = str(error)
    place = _PLACE.search(text)
    plain = text[: place.start()] if place is not None else text
    match = _EXPECTED.match(plain)
    if match is None:
        return plain
    where = f"{place[1]} " if place is not None and place[1] else ""
    if match[2] is not None:
        return f"{where}must be {_BOUNDS[match[2]].format(match[3].removesuffix('.0'))}"
    if "matching regex" in match[4]:
        return f"{where}must be an address that begins with http:// or https://"
    if "length" in match[4]:
        return f"{where}must not be empty"
    kinds = [_TYPES[kind] for kind in match[1].split(" | ") if kind in _TYPES]
    return f"{where}must be {' or '.join(kinds)}" if kinds else plain
