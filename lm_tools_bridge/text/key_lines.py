"""Finds the line of a key in the text of a TOML or JSON file, for messages about it. Pure."""

from __future__ import annotations

import re
from typing import Final

_START_OF_KEY: Final = r"(?:^|[{,])[ \t]*[\"']?(?:[\w-]+\.)*"
_END_OF_KEY: Final = r"[\"']?[ \t]*[=:]"
_HEADER: Final = r"^[ \t]*\[\[?[ \t]*(?:[\w-]+\.)*{}[ \t]*\]"
_NUMBERED: Final = re.compile(r"(.+)\[(\d+)\]")


def line_of(content: bytes, key: str = "", entry: str | None = None) -> int | None:
    """The line, counted from 1, that sets a key; None if there is none.

    Args:
        content: the file.
        key: with dots in front of its last part, the last part suffices, as TOML writes it in a table.
        entry: the table or object that has the key: its name, the value of its `namespace`, or the position
            among its like, such as `servers[2]`. Without a line of the key, the entry's line counts.
    """
    text = content.decode("utf-8", "replace")
    extent = (0, len(text)) if entry is None else _extent(text, entry)
    if extent is None:
        return None
    start, end = extent
    for name in filter(None, dict.fromkeys((key, key.rpartition(".")[2]))):
        position = _key(text, name, start, end)
        if position is not None:
            return _line(text, position)
    return _line(text, start) if entry is not None else None


def _key(text: str, name: str, start: int, end: int) -> int | None:
    word = re.escape(name)
    pattern = f"{_START_OF_KEY}{word}{_END_OF_KEY}|{_HEADER.format(word)}"
    match = re.compile(pattern, re.MULTILINE).search(text, start, end)
    return match.end() - 1 if match else None


def _extent(text: str, entry: str) -> tuple[int, int] | None:
    """Where an entry begins and ends."""
    match = re.search(rf"namespace[ \t]*=[ \t]*[\"']{re.escape(entry)}[\"']", text)
    if match is not None:
        start = text.rfind("[[", 0, match.start())
    elif numbered := _NUMBERED.fullmatch(entry):
        headers = re.finditer(rf"\[\[[ \t]*{re.escape(numbered[1])}[ \t]*\]\]", text)
        start = next((header.start() for n, header in enumerate(headers, 1) if n == int(numbered[2])), -1)
    else:
        position = _key(text, entry, 0, len(text))
        return None if position is None else (position, len(text))
    if start < 0:
        return None
    following = re.compile(r"^[ \t]*\[\[", re.MULTILINE).search(text, start + 2)
    return start, following.start() if following else len(text)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
