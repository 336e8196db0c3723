"""Parses TOML, and refuses what parsers take minutes for: keys of very many parts. Pure.

The time that `tomllib` takes for a key grows with the square of its parts, that of tomlkit with their third
power. A file of 24 KB would keep a processor busy for seconds, one of 1 MB for hours. The check before takes
linear time.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

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
