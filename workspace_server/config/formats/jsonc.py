"""Parses JSON with comments and trailing commas, and reports the line of an error. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

# an unterminated string matches up to the end, else the search for its end would be quadratic
_STRING: Final = r'("(?:\\.|[^"\\])*+"?)'
_COMMENT: Final = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_NOT_NEWLINE: Final = re.compile(r"[^\n]")


class ConfigFileError(Exception):
    """A file cannot be read or parsed. `line` and `column` count from 1; None if they are not known."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column

    @property
    def place(self) -> str:
        """Line and column, to be appended to the name of the file."""
        return "".join(
            f", {word} {number}"
            for word, number in (("line", self.line), ("column", self.column))
            if number is not None
        )


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object in a file; a file that is empty or has comments only is an empty object.

    Raises:
        ConfigFileError: the file is not JSON, or not an object.
    """
    text = decode(data)
    # comments become blanks, so that offsets and line numbers stay the same
    bare = _COMMENT.sub(lambda match: match[1] or _NOT_NEWLINE.sub(" ", match[0]), text)
    bare = _TRAILING_COMMA.sub(lambda match: match[1] or " ", bare)
    if not bare.strip():
        return {}
    raw = bare.encode()
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise _broken(text) from None
    if not isinstance(value, dict):
        raise ConfigFileError("it must be an object")
    return value


def decode(data: bytes) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        ConfigFileError: the file is not UTF-8.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ConfigFileError("it is not UTF-8", data.count(b"\n", 0, error.start) + 1) from None


def _broken(text: str) -> ConfigFileError:
    from lm_tools_bridge.text.jsonc_parser import json_problem  # noqa: PLC0415  only for broken files

    problem = json_problem(text, comments=True)
    return ConfigFileError(problem.text, problem.line, problem.column)
