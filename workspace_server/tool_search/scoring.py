"""Defines how well a tool matches a query: one score per tool, from a list of tiers, and similar terms. Pure.

`index.py` computes the same scores for thousands of tools at once; a test compares the two. A column of the
edit distance table is kept as bits (Myers 1999), so that a word is compared with all terms at once.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MAX_QUERY: Final = 256
"""How many characters of a query are used."""
MAX_WORDS: Final = 16
"""How many words of a query are used, without stop words."""

# Only their order matters: names before keywords before descriptions, whole words before parts, spelt right
# before spelt similarly. A query of several words gets their mean, compared with `THRESHOLD`.
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
"""The lowest score of a hit."""

_STOP_WORDS: Final = (
    "a an and are as at be by can do for from how i in is it me my of on or please that the this to "
    "use with you"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
PUNCTUATION: Final = ".,;:!?()[]{}\"'"
"""Characters that are stripped from the words of a description."""


def fold(text: str) -> str:
    """A text in the form in which texts are compared: NFKC, lower case."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower()


def label(text: str) -> str:
    """A name or keyword in the form in which they are compared: folded, with single blanks."""
    return " ".join(fold(text).split())


def tokens(name: str) -> list[str]:
    """The parts of a folded name: between `_`, `-` and its ends."""
    return [token for token in name.replace("-", "_").split("_") if token]


@dataclass(frozen=True, slots=True)
class Query:
    """A query: the whole folded `text`, and the `words` that count. Without words every tool matches."""

    text: str
    words: tuple[str, ...]


def read_query(text: str) -> Query:
    """Parse a query. Stop words are dropped unless nothing else is left.

    Only the first 256 characters and 16 words are used.
    """
    all_words = fold(text[:MAX_QUERY])[:MAX_QUERY].split()
    words = [word for word in all_words if word not in STOP_WORDS] or all_words[-1:]
    return Query(" ".join(all_words), tuple(words[:MAX_WORDS]))


@dataclass(frozen=True, slots=True)
class ToolTexts:
    """The folded texts of a tool; see `tool_texts`."""

    name: str
    keywords: tuple[str, ...]
    description: str


def tool_texts(name: str, keywords: Iterable[str], description: str) -> ToolTexts:
    """The folded texts of a tool. Blank keywords are dropped."""
    return ToolTexts(label(name), tuple(filter(None, map(label, keywords))), fold(description))


def score(query: Query, tool: ToolTexts) -> float:
    """The score of a tool, 0 to 1, rounded to four decimals. Below `THRESHOLD` the tool is no hit."""
    if not query.words or query.text == tool.name:
        return 1.0
    total = 0.0  # added one by one: sum() of newer Python versions rounds differently
    for word in query.words:
        total += word_score(word, tool)
    return round(total / len(query.words), 4)


def needs_whole(word: str) -> bool:
    """Whether a word is part of so many others that only exact matches count."""
    return len(word) == 1 or word in STOP_WORDS


def word_score(word: str, tool: ToolTexts) -> float:
    """The best tier that one word of a query reaches; 0 if none."""
    parts = tokens(tool.name)
    tagged = [part for keyword in tool.keywords for part in keyword.split()]
    tiers = [(TOKEN_EQUALS, word in parts), (KEYWORD_EQUALS, word in tagged)]
    if not needs_whole(word):
        described = tool.description.split()
        tiers += [
            (NAME_BEGINS, tool.name.startswith(word)),
            (TOKEN_BEGINS, any(part.startswith(word) for part in parts)),
            (NAME_CONTAINS, word in tool.name),
            (KEYWORD_CONTAINS, any(word in keyword for keyword in tagged)),
            (
                DESCRIPTION_WORD,
                any(described_word.strip(PUNCTUATION) == word for described_word in described),
            ),
            (DESCRIPTION_CONTAINS, word in tool.description),
        ]
    reached = max(tier for tier, holds in [*tiers, (0.0, True)] if holds)
    if reached or needs_whole(word):
        return reached
    near = (NEAR_KEYWORD * similarity_of(word, keyword) for keyword in tool.keywords)
    return max(NEAR_NAME * similarity_of(word, tool.name), *near, 0.0)


def similarity_of(word: str, other: str) -> float:
    """1 − distance / longer length for similar words, 0 for others."""
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
    """The largest distance of two similar words (similarity above 0.6), given the length of the longer."""
    return (2 * longer - 1) // 5


def distance(word: str, other: str) -> int:
    """The edit distance of two words: inserts, deletes, replacements, and swaps of two neighbours.

    No part is edited twice (optimal string alignment distance).
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(word, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            steps = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == word[i - 2]:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before, last = last, row
    return last[-1]


MAX_REMEMBERED: Final = 256
"""How many characters per term length have their positions cached."""
_LONGEST: Final = MAX_QUERY * 5 // 3
"""Longer terms match no word of a query: more than 2/5 of their characters would be missing."""


class Spellings:
    """Terms that can be searched by similarity. `fill` adds them once."""

    def __init__(self) -> None:
        self._sheets: dict[int, _Sheet] = {}

    def fill(self, terms: Iterable[str]) -> Iterator[None]:
        """Add all terms, in short steps. Terms too long for any word of a query are left out."""
        by_length: defaultdict[int, list[str]] = defaultdict(list)
        for term in terms:
            by_length[len(term)].append(term)
        yield
        for length, same in by_length.items():
            if 2 <= length <= _LONGEST:
                self._sheets[length] = _Sheet(same, length)
                yield

    def near(self, word: str) -> Iterator[tuple[str, int]]:
        """Every similar term (at most `scoring.max_errors` away), with its distance from the word."""
        for length, sheet in self._sheets.items():
            allowed = max_errors(max(length, len(word)))
            if abs(length - len(word)) <= allowed:
                yield from sheet.near(word, allowed)


class _Sheet:
    """Terms of one length, each in a field of `length + 1` bits; the top bit is free for carries."""

    def __init__(self, terms: Sequence[str], length: int) -> None:
        self._terms = terms
        self._length = length
        self._lowest = int(("0" * length + "1") * len(terms), 2)
        self._rows = self._lowest * ((1 << length) - 1)
        self._carry = self._lowest << length
        # "\n" fills the free bits: no word of a query has one
        self._text = "".join(f"{term}\n" for term in terms)[::-1]
        self._blank = dict.fromkeys(map(ord, self._text), "0")
        self._places: dict[str, int] = {}
        for character in map(chr, self._blank):
            if character.isascii() and character != "\n":
                self._where(character)

    def _where(self, character: str) -> int:
        """Bits where the terms have this character."""
        places = self._places.get(character)
        if places is None:
            if ord(character) not in self._blank:
                return 0
            places = int(self._text.translate({**self._blank, ord(character): "1"}), 2)
            if len(self._places) < MAX_REMEMBERED:
                self._places[character] = places
        return places

    def near(self, word: str, allowed: int) -> Iterator[tuple[str, int]]:
        """The terms at most `allowed` steps away, and their distances."""
        distances = self._distances(word)
        nearer = 0
        for errors in range(allowed + 1):
            # a field overflows into its free bit if its distance is larger than `errors`
            room = self._lowest * ((1 << self._length) - 1 - errors)
            reached = ((distances + room) & self._carry) ^ self._carry
            yield from ((self._terms[field], errors) for field in self._fields(reached ^ nearer))
            nearer = reached

    def _distances(self, word: str) -> int:
        """The distance of every term from the word, one number per field.

        Per character of the word, the table's next column: `vertical` and `horizontal` are the places where
        it is one more, or one less, than its neighbour above or to the left; `diagonal` where it is no more
        than its neighbour to the upper left.
        """
        lowest, rows, last = self._lowest, self._rows, self._length - 1
        vertical_more, vertical_less, diagonal, before = rows, 0, 0, 0
        distances = lowest * self._length
        for character in word:
            same = self._where(character)
            swapped = (((diagonal ^ rows) & same) << 1) & before
            carried = ((same & vertical_more) + vertical_more) ^ vertical_more
            diagonal = (carried | same | vertical_less | swapped) & rows
            horizontal_more = vertical_less | ((diagonal | vertical_more) ^ rows)
            horizontal_less = diagonal & vertical_more
            distances += (horizontal_more >> last) & lowest
            distances -= (horizontal_less >> last) & lowest
            horizontal_more = (horizontal_more << 1) | lowest
            vertical_more = ((horizontal_less << 1) | ((diagonal | horizontal_more) ^ rows)) & rows
            vertical_less = horizontal_more & diagonal
            before = same
        return distances

    def _fields(self, carries: int) -> Iterator[int]:
        """The numbers of the fields whose free bit is set."""
        if not carries:
            return
        text = f"{carries:b}"
        top = len(text) - 1
        place = text.find("1")
        while place >= 0:
            yield (top - place) // (self._length + 1)
            place = text.find("1", place + 1)
