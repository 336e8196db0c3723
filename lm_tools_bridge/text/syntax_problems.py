"""Says what is wrong with a text of a person: line, column, the mistake, and what to write instead. Pure.

Every reader of a file that a person writes takes its words from here and from `jsonc_parser.py`, so that a
mistake has the same message wherever it is found. No message quotes a value, which may be a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.text.toml_text import MAX_PARTS

_TOML_PLACE: Final = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOML_MISTAKES: Final = (
    ("Invalid value", 'this is no TOML value; texts need quotes, such as name = "text"'),
    ("Expected '=' after a key", 'a "=" is missing after the name'),
    ("Invalid statement", "a line must be a [table], a name = value, or a # comment"),
    ("Invalid initial character for a key part", "a name must be letters, digits, - and _, or in quotes"),
    ("Unclosed array", 'a "]" or a comma is missing'),
    ("Unclosed inline table", 'a "}" or a comma is missing'),
    ("Unterminated string", "a closing quote is missing"),
    ("Expected newline or end of document", "there is more after the value; write one name = value a line"),
    ("Expected ']", 'a "]" is missing at the end of the table\'s name'),
    ("Expected '\"'", "a closing quote is missing"),
    ('Expected "\'"', "a closing quote is missing"),
    ("Cannot overwrite a value", "this name has a value already; remove one of them"),
    ("Duplicate inline table key", "this name has a value already; remove one of them"),
    ("Cannot declare", "this table is there already; put its keys into one table"),
    ("Cannot mutate immutable", "this table is written in { } already; put all its keys there"),
    ("Cannot redefine namespace", "this table is written in { } already; put all its keys there"),
    ("Unescaped '\\' in a string", 'in "…" a backslash is written \\\\; or use single quotes'),
    ("Invalid hex value", "a \\u in a text needs four hexadecimal digits, and a \\U eight"),
    ("Escaped character", "a \\u or \\U in a text names no character"),
    ("Illegal character", 'a text in one pair of quotes must end in its line; write """ for more lines'),
    ("Found invalid character", "there is a character that may not be written like this"),
    ("a key has more than", f"a name has more than {MAX_PARTS} parts"),
)
"""How the message of Python's parser begins -> what a person has to know."""


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Where a text cannot be parsed, counted from 1, and why; a place that is not known is None."""

    line: int | None
    text: str
    column: int | None = None

    def sentence(self) -> str:
        """The problem with its place, for a text of which the reader has no other name."""
        place = [f"line {self.line}"] if self.line is not None else []
        place += [f"column {self.column}"] if self.column is not None else []
        return f"{', '.join(place)}: {self.text}" if place else self.text


def toml_problem(error: ValueError | RecursionError, text: str = "") -> SyntaxProblem:
    """What an error of Python's TOML parser means.

    Args:
        error: what it raised for `text`.
        text: what it was given; it tells the last line, where the parser says only that the text ended.
    """
    if isinstance(error, RecursionError):
        return SyntaxProblem(None, "values are nested too deeply")
    message = str(error)
    place = _TOML_PLACE.search(message)
    if place is None:  # an integer with more digits than Python converts
        return SyntaxProblem(None, "a number is too long")
    words = next(
        (words for start, words in _TOML_MISTAKES if message.startswith(start)), "it is not valid TOML"
    )
    if place[1] is not None:
        return SyntaxProblem(int(place[1]), words, int(place[2]))
    return SyntaxProblem(text.rstrip().count("\n") + 1 if text else None, words)
