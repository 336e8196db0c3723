"""Keeps secrets out of log lines and messages: by the names of members, and by known values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

HIDDEN: Final = "[hidden]"
"""Stands in the place of a secret."""
_SHORTEST_SECRET: Final = 6
"""Characters of a value; shorter ones are too common to be secrets."""
_SHORTEST_LINE: Final = 8
_SECRET_NAME: Final = re.compile(
    r"(?i)pass(word|phrase|wd)|pass$|[a-z0-9]_pwd$|secret|token|(api|private|access|account|signing|master|encryption)[_-]?key"
    r"|authorization|credential|cookie|nonce"
)
_values: Final[set[str]] = set()


def is_secret_name(name: str) -> bool:
    """Whether the name of a member, variable or header says that its value is confidential."""
    return _SECRET_NAME.search(name) is not None


def redacted(value: Any) -> Any:
    """A JSON value in which the members with the name of a secret are hidden."""
    if isinstance(value, dict):
        return {key: HIDDEN if is_secret_name(key) else redacted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner) for inner in value]
    return value


def hide(*values: str) -> None:
    """Mask these values in every line from now on, unless they are too short to be secrets."""
    for value in values:
        _values.update(_forms(value))


def hide_members(members: Mapping[str, str]) -> None:
    """`hide` the values of the members with the name of a secret."""
    hide(*(value for name, value in members.items() if is_secret_name(name)))


def mask(text: str, values: Iterable[str] = ()) -> str:
    """`text` with every hidden value, and with these values, replaced."""
    secrets = _values.union(*(_forms(value) for value in values))
    for value in sorted(secrets, key=len, reverse=True):  # a secret may begin with another
        text = text.replace(value, HIDDEN)
    return text


def _forms(value: str) -> set[str]:
    """A value as it may stand in a line: whole, one of its own lines, quoted in JSON or in an address."""
    pieces = {value, *(line for line in value.splitlines() if len(line) >= _SHORTEST_LINE)}
    forms = {form for piece in pieces for form in (piece, *_quoted(piece))}
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}


def _quoted(text: str) -> tuple[str, str, str, str]:
    in_json = msgspec.json.encode(text).decode()[1:-1], json.dumps(text)[1:-1]
    return *in_json, quote(text), quote(text, safe="")
