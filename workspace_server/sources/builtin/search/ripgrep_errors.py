"""Reads the messages of ripgrep 13 to 15 about a search that it refuses. Pure."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from workspace_server.sources.builtin.search.query import BadRegex, EngineUnavailable, TextQuery

_WRAPPER: Final = "(?:"
_PART: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?|.", re.DOTALL)


def raise_for(stderr: str, query: TextQuery) -> NoReturn:
    """Raise what the messages of ripgrep mean.

    Raises:
        BadRegex: the query is not a valid regular expression.
        EngineUnavailable: anything else.
    """
    stderr = stderr.replace("\r\n", "\n")
    parse = re.search(r"regex parse error:\n    (.*)\n    ( *)\^.*\n(?:error: )?(.*)", stderr)
    if query.regex and parse:
        raise BadRegex(parse[3], _position(parse[1], len(parse[2]), query.text))
    literal = re.search(r"the literal .* is not allowed in a regex", stderr)
    if query.regex and literal:
        at = re.search(r"(?<!\\)(?:\\\\)*\\[nr]", query.text)
        raise BadRegex(
            "a line end cannot be matched; lines are searched one by one", at.end() - 2 if at else None
        )
    if query.regex and re.search("regex|size limit|nest", stderr, re.IGNORECASE):
        raise BadRegex(" ".join(stderr.split())[:500], None)
    raise EngineUnavailable(stderr)


def _position(shown: str, marked: int, text: str) -> int | None:
    """The position in `text` of the character that is marked in `shown`, which may be `(?:text)`."""
    if shown != f"{_WRAPPER}{text})":
        return marked
    if len(_WRAPPER) <= marked < len(_WRAPPER) + len(text):
        return marked - len(_WRAPPER)
    # a group of the query has closed the wrapper, or was closed by its end, so that the wrapper is marked
    opened: list[int] = []
    for part in _PART.finditer(text):
        if part[0] == "(":
            opened.append(part.start())
        elif part[0] == ")":
            if not opened:
                return part.start()
            opened.pop()
    return opened[-1] if opened else None
