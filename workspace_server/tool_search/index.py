"""All tools of one view, searched at once: the scores of `scoring.py`, without comparing every tool. Pure.

Built once per view, in short steps; searched from then on without being changed.
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
from workspace_server.tool_search.scoring import Query
from workspace_server.tool_search.spelling import Spellings
from workspace_server.tool_search.vocabulary import Vocabulary

STEP: Final = 50
"""Tools entered in one step: about a millisecond of work."""


@dataclass(frozen=True, slots=True)
class Searchable:
    """A tool to be found: its definition under its offered name, and all words it is tagged with."""

    name: str
    definition: Mapping[str, Any]
    keywords: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The description, or an empty string."""
        said = self.definition.get("description")
        return said if isinstance(said, str) else ""


class Index:
    """The tools of one view. Make it with `Index.of`, or step by step with `fill`."""

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
        """The index of these tools, built at once."""
        index = cls()
        deque(index.fill(tools), maxlen=0)
        return index

    def fill(self, tools: Iterable[Searchable]) -> Iterator[None]:
        """Enter all tools, in steps of about a millisecond; what is between the steps is up to the caller."""
        for number, tool in enumerate(tools, 1):
            self.tools.append(tool)
            if number % (10 * STEP) == 0:
                yield
        self.tools.sort(key=lambda tool: naming.sort_key(tool.name))
        for number, tool in enumerate(self.tools):
            self._enter(number, tool)
            if number % STEP == 0:
                yield
        yield from self._spellings.fill({*self._names, *self._keywords})

    def _enter(self, number: int, tool: Searchable) -> None:
        said = scoring.wording(tool.name, tool.keywords, tool.description)
        self._names.add((said.name,), number)
        self._tokens.add(scoring.tokens(said.name), number)
        self._keywords.add(said.keywords, number)
        self._keyword_words.add(chain.from_iterable(map(methodcaller("split"), said.keywords)), number)
        self._described.add(said.description.split(), number)

    def rank(self, query: Query) -> list[tuple[Searchable, float]]:
        """Every hit and its score: by score, then name."""
        if not query.words:
            return [(tool, 1.0) for tool in self.tools]
        scores = self._scores(query)
        hits = sorted(number for number, score in scores.items() if score >= scoring.THRESHOLD)
        hits.sort(key=scores.__getitem__, reverse=True)  # stable: equals stay in the order of names
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
        """What `scoring.word_score` gives, for every tool where it is not 0."""
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
        """The tools at each tier, several times where several of their words reach it."""
        found: defaultdict[float, list[Sequence[int]]] = defaultdict(list)
        for name, users in self._names.containing(word):
            found[scoring.NAME_BEGINS if name.startswith(word) else scoring.NAME_CONTAINS].append(users)
        for token, users in self._tokens.containing(word):
            if token.startswith(word):
                found[scoring.TOKEN_EQUALS if token == word else scoring.TOKEN_BEGINS].append(users)
        for tag, users in self._keyword_words.containing(word):
            found[scoring.KEYWORD_EQUALS if tag == word else scoring.KEYWORD_CONTAINS].append(users)
        for said, users in self._described.containing(word):
            whole = said.strip(scoring.PUNCTUATION) == word
            found[scoring.DESCRIPTION_WORD if whole else scoring.DESCRIPTION_CONTAINS].append(users)
        return found

    def _near(self, word: str) -> dict[int, float]:
        """The tools whose name or keywords look like the word with typing errors."""
        best: dict[int, float] = {}
        for term, errors in self._spellings.near(word):
            alike = scoring.similarity(errors, max(len(term), len(word)))
            for weight, among in ((scoring.NEAR_NAME, self._names), (scoring.NEAR_KEYWORD, self._keywords)):
                for number in among.users(term):
                    best[number] = max(best.get(number, 0.0), weight * alike)
        return best
