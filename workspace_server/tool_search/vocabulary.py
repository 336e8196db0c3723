"""Which tools use which words, and which words contain a given piece. Pure.

Most words are used by many tools. Searching the different words once, instead of every tool's text, makes a
search as cheap as the vocabulary is small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence


class Vocabulary:
    """Words and the numbers of the tools that use them. Words contain no line feeds."""

    def __init__(self) -> None:
        self._tools: defaultdict[str, list[int]] = defaultdict(list)
        self._text = ""

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def add(self, words: Iterable[str], tool: int) -> None:
        """Enter the words of one tool; the same word twice counts once."""
        tools = self._tools
        for word in set(words):
            tools[word].append(tool)
        self._text = ""

    def users(self, word: str) -> Sequence[int]:
        """The tools that use exactly this word."""
        return self._tools.get(word, ())

    def containing(self, part: str) -> Iterator[tuple[str, Sequence[int]]]:
        """Every word with `part` in it (no blanks, not empty), and its tools."""
        if not self._text:
            self._text = "\n".join(["", *self._tools, ""])
        text = self._text
        place = text.find(part)
        while place >= 0:
            end = text.index("\n", place)
            word = text[text.rindex("\n", 0, place) + 1 : end]
            yield word, self._tools[word]
            place = text.find(part, end)
