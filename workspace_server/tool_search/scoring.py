"""How well a tool fits a query: the tiers, written down one after the other. Pure.

This is the definition, one tool at a time. `index.py` gives the same scores for thousands of tools at once; a
test holds it to this file.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MAX_QUERY: Final = 256
"""Characters of a query that are looked at."""
MAX_WORDS: Final = 16
"""Words of a query that are looked at, stop words not counted."""

NAME_BEGINS: Final = 0.95
TOKEN_EQUALS: Final = 0.92
TOKEN_BEGINS: Final = 0.90
KEYWORD_EQUALS: Final = 0.85
NAME_CONTAINS: Final = 0.80
KEYWORD_CONTAINS: Final = 0.70
DESCRIPTION_WORD: Final = 0.60
DESCRIPTION_CONTAINS: Final = 0.50
NEAR_NAME: Final = 0.7
NEAR_KEYWORD: Final = 0.6
THRESHOLD: Final = 0.25
"""Tools that score less are no hits."""

_STOP_WORDS: Final = (
    "a an and are as at be by can do for from how i in is it me my of on or please that the this to "
    "use with you"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
PUNCTUATION: Final = ".,;:!?()[]{}\"'"
"""What is trimmed off the words of a description."""


def fold(text: str) -> str:
    """A text as it is compared: NFKC, lower case."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower()


def label(text: str) -> str:
    """A name or keyword as it is compared: folded, single blanks only."""
    return " ".join(fold(text).split())


def tokens(name: str) -> list[str]:
    """The parts of a folded name: between `_`, `-` and its ends."""
    return [token for token in name.replace("-", "_").split("_") if token]


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it is compared: the whole `text`, and the `words` that count. No words: everything fits."""

    text: str
    words: tuple[str, ...]


def read_query(text: str) -> Query:
    """The query in a text: stop words leave while another word remains.

    Only the first 256 characters and 16 words are read.
    """
    spoken = fold(text[:MAX_QUERY])[:MAX_QUERY].split()
    words = [word for word in spoken if word not in STOP_WORDS] or spoken[-1:]
    return Query(" ".join(spoken), tuple(words[:MAX_WORDS]))


@dataclass(frozen=True, slots=True)
class Wording:
    """What a tool is compared by; see `wording`."""

    name: str
    keywords: tuple[str, ...]
    description: str


def wording(name: str, keywords: Iterable[str], description: str) -> Wording:
    """The texts of a tool, folded. Blank keywords are none."""
    return Wording(label(name), tuple(filter(None, map(label, keywords))), fold(description))


def score(query: Query, tool: Wording) -> float:
    """How well the tool fits, 0 to 1, four decimals. Below 0.25 it is no hit."""
    if not query.words or query.text == tool.name:
        return 1.0
    total = 0.0  # added up one by one: newer Pythons' sum() rounds otherwise
    for word in query.words:
        total += word_score(word, tool)
    return round(total / len(query.words), 4)


def needs_whole(word: str) -> bool:
    """Whether a word is found in nearly everything, so that only its equals count."""
    return len(word) == 1 or word in STOP_WORDS


def word_score(word: str, tool: Wording) -> float:
    """The best tier that one word of a query reaches; 0 where it reaches none."""
    parts = tokens(tool.name)
    tagged = [part for keyword in tool.keywords for part in keyword.split()]
    tiers = [(TOKEN_EQUALS, word in parts), (KEYWORD_EQUALS, word in tagged)]
    if not needs_whole(word):
        described = tool.description.split()
        tiers += [
            (NAME_BEGINS, tool.name.startswith(word)),
            (TOKEN_BEGINS, any(part.startswith(word) for part in parts)),
            (NAME_CONTAINS, word in tool.name),
            (KEYWORD_CONTAINS, any(word in one for one in tagged)),
            (DESCRIPTION_WORD, any(one.strip(PUNCTUATION) == word for one in described)),
            (DESCRIPTION_CONTAINS, word in tool.description),
        ]
    reached = max(tier for tier, holds in [*tiers, (0.0, True)] if holds)
    if reached or needs_whole(word):
        return reached
    near = (NEAR_KEYWORD * likeness(word, keyword) for keyword in tool.keywords)
    return max(NEAR_NAME * likeness(word, tool.name), *near, 0.0)


def likeness(word: str, other: str) -> float:
    """1 − d / longer length for words that are alike, 0 for others."""
    longer = max(len(word), len(other))
    allowed = max_errors(longer)
    if abs(len(word) - len(other)) > allowed:
        return 0.0
    errors = distance(word, other)
    return similarity(errors, longer) if errors <= allowed else 0.0


def similarity(errors: int, longer: int) -> float:
    """1 − d / longer length."""
    return 1 - errors / longer


def max_errors(longer: int) -> int:
    """The largest distance at which two words, the longer one so long, are alike: similarity above 0.6."""
    return (2 * longer - 1) // 5


def distance(one: str, other: str) -> int:
    """Steps from one word to the other: insert, delete or replace a character, or swap two neighbours.

    No part is changed twice (optimal string alignment).
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            steps = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before, last = last, row
    return last[-1]
