"""Finds the tools that a caller may have meant by an unknown name: same words, spelt otherwise. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

MAX_LENGTH: Final = 128
LIMIT: Final = 5
_SAME_WORD: Final = 0.75
"""Similarity from which two words are spellings of one."""
_CUTOFF: Final = 0.5
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SEPARATOR: Final = "__"


def near_names(name: str, known: Iterable[tuple[str, str]]) -> list[str]:
    """Up to five known names, the most similar first.

    The tool parts decide, without namespaces: all words of one must occur, perhaps misspelt, in the other.
    So `read_graph` never suggests `create_branch`, however many letters they share.

    Args:
        name: the unknown name.
        known: each offered name, with the tool's own name at its source.
    """
    name = name[:MAX_LENGTH]
    part = name.partition(_SEPARATOR)[2] or name
    scored: list[tuple[float, str]] = []
    for offered, own in known:
        pairs = [(part, own)] if part != name else [(name, own), (name, offered)]
        if any(_is_same_deed(unknown, candidate) for unknown, candidate in pairs):
            score = max(_similarity(name.lower(), offered.lower()), *(_similarity(*pair) for pair in pairs))
            scored.append((score, offered))
    scored.sort(key=lambda entry: (-entry[0], entry[1]))
    return [offered for score, offered in scored if score >= _CUTOFF][:LIMIT]


def _is_same_deed(unknown: str, candidate: str) -> bool:
    mine, theirs = _words(unknown), _words(candidate)
    if not mine or not theirs:
        return False
    return "".join(mine) == "".join(theirs) or _contains(mine, theirs) or _contains(theirs, mine)


def _contains(words: Sequence[str], others: Sequence[str]) -> bool:
    return all(any(_similarity(word, other) >= _SAME_WORD for other in others) for word in words)


def _words(name: str) -> list[str]:
    """The words of a name in snake, kebab or camel case, in lower case."""
    text = name.lower() if name.isupper() else name
    return [word.lower() for word in _WORD.findall(text)]


def _similarity(word: str, other: str) -> float:
    return 1.0 if word == other else difflib.SequenceMatcher(None, word, other).ratio()
