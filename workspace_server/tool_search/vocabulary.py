"""Maps words to the tools that use them, and finds the words that contain a given text. Pure.

Most words are used by many tools, so searching the distinct words is cheaper than searching every tool.
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
        """Add the words of one tool; duplicates count once."""
        tools = self._tools
        for word in set(words):
            tools[word].append(tool)
        self._text = ""

    def users(self, word: str) -> Sequence[int]:
        """The tools that use exactly this word."""
        return self._tools.get(word, ())

    def containing(self, part: str) -> Iterator[tuple[str, Sequence[int]]]:
        """Every word that contains `part` (not empty, no blanks), with its tools."""
        if not self._text:
            self._text = "\n".join(["", *self._tools, ""])
        text = self._text
        place = text.find(part)
        while place >= 0:
            end = text.index("\n", place)
            word = text[text.rindex("\n", 0, place) + 1 : end]
            yield word, self._tools[word]
            place = text.find(part, end)
