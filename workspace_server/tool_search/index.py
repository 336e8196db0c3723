"""Indexes the tools of one view: computes the scores of `scoring.py` for all tools at once. Pure.

Built once per view, in short steps, and not changed afterwards.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from typing import Any, Final

from workspace_server import naming
from workspace_server.tool_search import scoring
from workspace_server.tool_search.scoring import Query, Spellings

STEP: Final = 50
"""Tools indexed in one step, which takes about 1 ms."""


@dataclass(frozen=True, slots=True)
class Searchable:
    """A tool to be indexed: its offered name, its definition under that name, and its keywords."""

    name: str
    definition: Mapping[str, Any]
    keywords: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The description, or an empty string."""
        text = self.definition.get("description")
        return text if isinstance(text, str) else ""


class Index:
    """The index of one view. Build it with `Index.of`, or step by step with `fill`."""

    def __init__(self) -> None:
        self.tools: list[Searchable] = []
        self._names = Vocabulary()
        self._tokens = Vocabulary()
        self._keywords = Vocabulary()
        self._keyword_words = Vocabulary()
        self._described = Vocabulary()
        self._spellings = Spellings()

    @classmethod
    def of(cls, tools: Iterable[Searchable]) -> Index:
        """The index of these tools, built in one go."""
        index = cls()
        deque(index.fill(tools), maxlen=0)
        return index

    def fill(self, tools: Iterable[Searchable]) -> Iterator[None]:
        """Index all tools, in steps of about 1 ms; the caller may do other work between the steps."""
        for number, tool in enumerate(tools, 1):
            self.tools.append(tool)
            if number % (10 * STEP) == 0:
                yield
        self.tools.sort(key=lambda tool: naming.sort_key(tool.name))
        for number, tool in enumerate(self.tools):
            self._add(number, tool)
            if number % STEP == 0:
                yield
        yield from self._spellings.fill({*self._names, *self._keywords})

    def _add(self, number: int, tool: Searchable) -> None:
        words = scoring.tool_texts(tool.name, tool.keywords, tool.description)
        self._names.add((words.name,), number)
        self._tokens.add(scoring.tokens(words.name), number)
        self._keywords.add(words.keywords, number)
        self._keyword_words.add(chain.from_iterable(map(methodcaller("split"), words.keywords)), number)
        self._described.add(words.description.split(), number)

    def rank(self, query: Query) -> list[tuple[Searchable, float]]:
        """All hits with their scores, sorted by score, then name."""
        if not query.words:
            return [(tool, 1.0) for tool in self.tools]
        scores = self._scores(query)
        hits = sorted(number for number, score in scores.items() if score >= scoring.THRESHOLD)
        hits.sort(key=scores.__getitem__, reverse=True)  # stable: equal scores stay sorted by name
        return [(self.tools[number], scores[number]) for number in hits]

    def _scores(self, query: Query) -> dict[int, float]:
        per_word = {word: self._word_scores(word) for word in query.words}
        totals: dict[int, float] = {}
        for word in query.words:
            for number, score in per_word[word].items():
                totals[number] = totals.get(number, 0.0) + score
        means = {total: round(total / len(query.words), 4) for total in set(totals.values())}
        scores = {number: means[total] for number, total in totals.items()}
        return scores | dict.fromkeys(self._names.users(query.text), 1.0)

    def _word_scores(self, word: str) -> dict[int, float]:
        """The values of `scoring.word_score` for all tools where it is not 0."""
        if scoring.needs_whole(word):
            exact = dict.fromkeys(self._keyword_words.users(word), scoring.KEYWORD_EQUALS)
            return exact | dict.fromkeys(self._tokens.users(word), scoring.TOKEN_EQUALS)
        best: dict[int, float] = {}
        for tier, users in sorted(self._tiers(word).items()):
            best.update(dict.fromkeys(chain.from_iterable(users), tier))
        if len(best) < len(self.tools):
            for number, score in self._near(word).items():
                best.setdefault(number, score)
        return best

    def _tiers(self, word: str) -> Mapping[float, list[Sequence[int]]]:
        """The tools at each tier; a tool appears once for each of its words that reaches the tier."""
        tools_by_score: defaultdict[float, list[Sequence[int]]] = defaultdict(list)
        for name, users in self._names.containing(word):
            tools_by_score[scoring.NAME_BEGINS if name.startswith(word) else scoring.NAME_CONTAINS].append(
                users
            )
        for token, users in self._tokens.containing(word):
            if token.startswith(word):
                tools_by_score[scoring.TOKEN_EQUALS if token == word else scoring.TOKEN_BEGINS].append(users)
        for tag, users in self._keyword_words.containing(word):
            tools_by_score[scoring.KEYWORD_EQUALS if tag == word else scoring.KEYWORD_CONTAINS].append(users)
        for text, users in self._described.containing(word):
            whole = text.strip(scoring.PUNCTUATION) == word
            tools_by_score[scoring.DESCRIPTION_WORD if whole else scoring.DESCRIPTION_CONTAINS].append(users)
        return tools_by_score

    def _near(self, word: str) -> dict[int, float]:
        """The tools with a name or keyword that is similar to the word, allowing typing errors."""
        best: dict[int, float] = {}
        for term, errors in self._spellings.near(word):
            alike = scoring.similarity(errors, max(len(term), len(word)))
            for weight, among in ((scoring.NEAR_NAME, self._names), (scoring.NEAR_KEYWORD, self._keywords)):
                for number in among.users(term):
                    best[number] = max(best.get(number, 0.0), weight * alike)
        return best


# Most words are used by many tools, so searching the distinct words is cheaper than searching every tool.


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
