"""Reads TOON, as `lmtb_toon.py` writes it and with the freedoms of other writers. Standard library only.

Accepted, too: tab or `|` as delimiter in a header, indentation of any width, further members of a list item
that are indented like its dash, and lists without a header.
"""

from __future__ import annotations

import json
import re
from typing import Any

_HEADER = re.compile(
    r"""("(?:[^"\\]|\\.)*"|[^\[\]{}:"]*)\[#?(\d+)([\t|,]?)\](?:\{(.*?)\})?:(?:[ ](.*)|)""", re.DOTALL
)
_MEMBER = re.compile(r'("(?:[^"\\]|\\.)*"|[^:"]+):(?: (.*)|)', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 200

Line = tuple[int, str]
"""A line: its indentation in spaces, and its text."""


def decode(text: str) -> Any:
    """The JSON value that `text` stands for.

    Raises:
        ValueError: the text is not TOON, or nested more than 200 levels deep.
    """
    lines: list[Line] = []
    for line in text.split("\n"):
        bare = line.rstrip("\r").lstrip(" ")
        if bare.strip():
            lines.append((len(line.rstrip("\r")) - len(bare), bare))
    return _Reader(lines).value()


class _Reader:
    """Reads lines from the first to the last."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        self._at = 0

    def value(self) -> Any:
        """The value of the whole text."""
        if not self._lines:
            return {}
        found: Any
        first = self._lines[0][1]
        header = _HEADER.fullmatch(first)
        if header and not header[1].strip():
            self._at = 1
            found = self._list(header, self._lines[0][0], 0)
        elif _is_item(first):
            found = self._items(self._lines[0][0], 0)
        elif len(self._lines) == 1 and not _MEMBER.fullmatch(first) and not header:
            self._at = 1
            found = _scalar(first)
        else:
            found = self._members(self._lines[0][0], {}, 0)
        if self._at < len(self._lines):
            raise ValueError(f"unexpected line: {self._lines[self._at][1]}")
        return found

    def _line(self) -> Line | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _members(self, indent: int, found: dict[str, Any], depth: int) -> dict[str, Any]:
        """Add the members of an object that are indented by `indent`."""
        while (line := self._line()) is not None and line[0] == indent and not _is_item(line[1]):
            self._at += 1
            self._member(line[1], indent, found, depth)
        return found

    def _member(self, text: str, indent: int, found: dict[str, Any], depth: int) -> None:
        """Read one member; what belongs to it is indented more than `indent`."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        header = _HEADER.fullmatch(text)
        if header and header[1].strip():
            found[_key(header[1])] = self._list(header, indent, depth)
            return
        member = _MEMBER.fullmatch(text)
        if member is None:
            raise ValueError(f"not a member: {text}")
        rest = (member[2] or "").strip()
        found[_key(member[1])] = _scalar(rest) if rest else self._below(indent, depth)

    def _below(self, indent: int, depth: int) -> Any:
        """The object or list in the lines after `key:`; an empty object if there are none."""
        line = self._line()
        if line is None or line[0] <= indent:
            return {}
        if _is_item(line[1]):
            return self._items(line[0], depth + 1)
        return self._members(line[0], {}, depth + 1)

    def _list(self, header: re.Match[str], indent: int, depth: int) -> list[Any]:
        """The list with this header, whose rows are indented more than `indent`."""
        delimiter = header[3] or ","
        inline = (header[5] or "").strip(" ")
        if inline:
            found = [_scalar(part) for part in _split(inline, delimiter)]
        elif header[4] is not None:
            found = self._rows([_key(part) for part in _split(header[4], delimiter)], delimiter, indent)
        else:
            line = self._line()
            below = line is not None and line[0] > indent and _is_item(line[1])
            found = self._items(line[0], depth + 1) if line is not None and below else []
        if len(found) != int(header[2]):
            raise ValueError(f"a list of {header[2]} has {len(found)} items")
        return found

    def _rows(self, columns: list[str], delimiter: str, indent: int) -> list[Any]:
        found: list[Any] = []
        while (line := self._line()) is not None and line[0] > indent:
            values = _split(line[1], delimiter)
            if len(values) != len(columns):
                raise ValueError(f"a row of {len(columns)} columns has {len(values)} values: {line[1]}")
            found.append(dict(zip(columns, map(_scalar, values), strict=True)))
            self._at += 1
        return found

    def _items(self, indent: int, depth: int) -> list[Any]:
        """The items of a list; each begins with a dash that is indented by `indent`."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        found: list[Any] = []
        while (line := self._line()) is not None and line[0] == indent and _is_item(line[1]):
            self._at += 1
            found.append(self._item(line[1][1:].strip(" "), indent, depth))
        return found

    def _item(self, text: str, indent: int, depth: int) -> Any:
        if not text:
            return {}
        header = _HEADER.fullmatch(text)
        if header and not header[1].strip():
            return self._list(header, indent, depth)
        if header is None and _MEMBER.fullmatch(text) is None:
            return _scalar(text)
        found: dict[str, Any] = {}
        # what belongs to the first member is indented more than its text, which begins two after the dash
        after = self._line()
        is_flat = after is not None and after[0] == indent and not _is_item(after[1])
        self._member(text, indent if is_flat else indent + 1, found, depth + 1)
        while (line := self._line()) is not None and line[0] >= indent and not _is_item(line[1]):
            before = self._at
            self._members(line[0], found, depth + 1)
            if self._at == before:
                break
        return found


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _split(text: str, delimiter: str) -> list[str]:
    """The parts of a row; a delimiter inside quotes is no delimiter."""
    parts: list[str] = []
    begin, quoted, at = 0, False, 0
    while at < len(text):
        char = text[at]
        if quoted and char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif char == delimiter and not quoted:
            parts.append(text[begin:at].strip(" "))
            begin = at + 1
        at += 1
    return [*parts, text[begin:].strip(" ")]


def _key(text: str) -> str:
    text = text.strip()
    return str(_unquoted(text)) if text.startswith('"') else text


def _unquoted(text: str) -> str:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        raise ValueError(f"not a string: {text}") from None
    if not isinstance(value, str):
        raise ValueError(f"not a string: {text}")
    return value


def _scalar(text: str) -> Any:
    text = text.strip(" ")
    if text.startswith('"'):
        return _unquoted(text)
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    return float(text) if number[1] or number[2] else int(text)
