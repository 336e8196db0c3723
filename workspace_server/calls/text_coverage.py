"""Tells whether texts say everything that structured content says, for models that see only texts. Pure.

A text says a value if it contains it as a word, or is JSON that contains it. Names of members do not count:
a sentence seldom repeats them. In doubt the answer is no: to say something twice costs less than to lose it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

MAX_LEAVES: Final = 5_000
"""Strings, numbers and truth values that are looked for, some 30 ms; with more the answer is no."""
MAX_SEARCHED: Final = 16 * 1024 * 1024
"""Characters that searches for strings may pass over, some 30 ms as well; then the answer is no."""
_MAX_PARTS_OF_WORDS: Final = 64
"""Occurrences of a string inside other words after which it counts as not said."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TRUTH: Final = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)


class SaidTexts:
    """The texts that a model sees.

    Args:
        texts: the texts, in order.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._searched = 0

    def say(self, value: Any) -> bool:
        """Whether the texts say every string, number and truth value in `value`."""
        return all(number < MAX_LEAVES and self._says(leaf) for number, leaf in enumerate(_leaves(value)))

    def _says(self, leaf: Any) -> bool:
        if isinstance(leaf, bool):
            return ("true" if leaf else "false") in self._truths
        if isinstance(leaf, int | float):
            return _size(leaf) in self._numbers
        text = str(leaf).strip()
        return not text or text in self._strings or self._contain_word(text)

    @cached_property
    def _whole(self) -> str:
        return "\n".join(self._texts)

    @cached_property
    def _strings(self) -> frozenset[str]:
        """The texts, and the strings in those that are JSON."""
        texts = {text.strip() for text in self._texts}
        for text in self._texts:
            try:
                decoded = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                continue
            texts.update(leaf.strip() for leaf in _leaves(decoded) if isinstance(leaf, str))
        return frozenset(texts)

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(float(number) for number in _NUMBER.findall(self._whole))

    @cached_property
    def _truths(self) -> frozenset[str]:
        return frozenset(word.lower() for word in _TRUTH.findall(self._whole))

    def _contain_word(self, word: str) -> bool:
        """Whether the word stands in the texts, not only as a part of longer words."""
        whole, start = self._whole, 0
        for _ in range(_MAX_PARTS_OF_WORDS):
            if self._searched > MAX_SEARCHED:
                return False
            at = whole.find(word, start)
            self._searched += (len(whole) if at < 0 else at) - start
            if at < 0:
                return False
            if not (_continues(whole, at) or _continues(whole, at + len(word))):
                return True
            start = at + 1
        return False


def _leaves(value: Any) -> Iterator[str | int | float | bool]:
    """The strings, numbers and truth values in a value that was decoded from JSON."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif item is not None:
            yield item


def _size(number: float) -> float:
    """The number without its sign: in a text, `2-3` may be a range."""
    try:
        return abs(float(number))
    except OverflowError:
        return math.inf


def _continues(text: str, at: int) -> bool:
    """Whether the characters before and at this position belong to one word."""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()
