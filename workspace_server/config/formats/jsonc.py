"""JSON as editors write it: with comments and trailing commas. Errors know their line.

What a file means is `mcp_json.py` and `editor_settings.py`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

# a string that is never closed matches up to the end: looking for its end again and again is quadratic
_STRING: Final = r'("(?:\\.|[^"\\])*+"?)'
_COMMENT: Final = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_NOT_NEWLINE: Final = re.compile(r"[^\n]")
_OFFSET: Final = re.compile(r"\(byte (\d+)\)")


class ConfigFileError(Exception):
    """A text that is not what its file should hold. `line` counts from 1; None where it is not known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_object(data: bytes) -> dict[str, Any]:
    """The object a file holds; an empty file, or one of comments only, is an empty object.

    Raises:
        ConfigFileError: it is no JSON, or no object.
    """
    text = decode(data)
    # what is taken out leaves blanks behind, so that places in the text stay where they are
    bare = _COMMENT.sub(lambda found: found[1] or _NOT_NEWLINE.sub(" ", found[0]), text)
    bare = _TRAILING_COMMA.sub(lambda found: found[1] or " ", bare)
    if not bare.strip():
        return {}
    raw = bare.encode()
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(raw, error) from None
    if not isinstance(value, dict):
        raise ConfigFileError("it must be an object")
    return value


def decode(data: bytes) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        ConfigFileError: it is no UTF-8.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ConfigFileError("it is not UTF-8", data.count(b"\n", 0, error.start) + 1) from None


def _broken(raw: bytes, error: Exception) -> ConfigFileError:
    if isinstance(error, RecursionError):
        return ConfigFileError("it is nested too deeply")
    found = _OFFSET.search(str(error))
    if found is None:  # it ends too early
        return ConfigFileError("it is not valid JSON", raw.rstrip().count(b"\n") + 1)
    return ConfigFileError("it is not valid JSON", raw.count(b"\n", 0, int(found[1])) + 1)
