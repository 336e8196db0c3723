"""Finds terms that are similar to a word, allowing typing errors: compares all at once. Pure.

A column of the edit distance table is kept as bits (Myers 1999; with swaps: Hyyrö 2003), and the columns of
all terms of one length stand side by side in one integer. So the work is a few dozen big-integer operations
per character of the word, whatever the terms look like. The distance itself is defined in `scoring.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from workspace_server.tool_search.scoring import MAX_QUERY, max_errors

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
