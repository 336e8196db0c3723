"""Parses TOML, refuses keys of very many parts, and finds the line of a key for messages. Pure.

The time that `tomllib` takes for a key grows with the square of its parts, that of tomlkit with their third
power. A file of 24 KB would keep a processor busy for seconds, one of 1 MB for hours. The check before takes
linear time.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

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


MAX_PARTS: Final = 16
"""Most parts of one key, as `a.b.c` has three."""
MAX_DOTS: Final = 5_000
"""Most dots in the keys and numbers of a text that is edited."""

# A string or a comment, to its end or to where a parser gives up. A multi-line string can end in five quotes.
_OPAQUE: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_.-])(?:[A-Za-z0-9_-]++[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}")


class LongKeyError(tomllib.TOMLDecodeError):
    """A key has more than `MAX_PARTS` parts. `line` counts from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(f"a key has more than {MAX_PARTS} parts (at line {line}, column 1)")
        self.line = line
        self.reason = f"a key has more than {MAX_PARTS} parts"


class TooManyKeysError(ValueError):
    """The keys of a text have too many parts together to edit it."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text.

    Raises:
        LongKeyError: a key has too many parts.
        tomllib.TOMLDecodeError: the text is not TOML.
        ValueError: it contains an integer of more digits than Python reads.
        RecursionError: it is nested too deeply.
    """
    _bare(text)
    return tomllib.loads(text)


def check_editable(text: str) -> None:
    """Check a text before tomlkit parses it.

    Raises:
        LongKeyError: a key has too many parts.
        TooManyKeysError: all keys together have.
    """
    if _bare(text).count(".") > MAX_DOTS:
        raise TooManyKeysError(f"its keys contain more than {MAX_DOTS} dots; edit the file by hand")


def _bare(text: str) -> str:
    """The text with a letter for each string and comment.

    Raises:
        LongKeyError: a key has too many parts.
    """
    bare = _OPAQUE.sub("s", text)
    if _LONG_KEY.search(bare) is not None:
        raise LongKeyError(_line_of_long_key(text))
    return bare


def _line_of_long_key(text: str) -> int:
    in_place = _OPAQUE.sub(lambda match: "s" + "\n" * match[0].count("\n"), text)
    match = _LONG_KEY.search(in_place)
    return 1 if match is None else in_place.count("\n", 0, match.start()) + 1
