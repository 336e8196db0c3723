"""Tests the names of entries against the last parts of many globs at once. Pure.

A walk meets many names that no rule is about. One look at the name spares it the rules themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from workspace_server.sources.builtin.files.patterns import BadGlob, glob_regex

_WILD: Final = frozenset("*?[\\")


@dataclass(frozen=True, slots=True)
class NameTest:
    """Which names the last parts of some globs may match: too many rather than too few.

    Attributes:
        literals: names without wildcards.
        regexes: for the names with wildcards.
        texts: find any of these names in a text that has a `/` before and behind each name.
        everything: whether one of the globs may match any name.
    """

    literals: frozenset[str] = frozenset()
    regexes: tuple[re.Pattern[str], ...] = ()
    texts: tuple[re.Pattern[str], ...] = ()
    everything: bool = False

    @classmethod
    def of(cls, globs: Iterable[str]) -> NameTest:
        """The test for the last parts of globs."""
        literals: set[str] = set()
        wild: list[str] = []
        for glob in globs:
            if glob in {"", "*", "**"}:
                return cls(everything=True)
            if _WILD.isdisjoint(glob):
                literals.add(glob)
            else:
                wild.append(glob)
        try:
            regex = "|".join(f"(?:{glob_regex(glob)})" for glob in dict.fromkeys(wild))
            either = "|".join([*map(re.escape, sorted(literals)), *([regex] if wild else ())])
            texts = (re.compile(f"/(?:{either})(?=/)"),) if either else ()
            return cls(frozenset(literals), (re.compile(regex),) if wild else (), texts)
        except (BadGlob, re.error):
            return cls(everything=True)

    def __or__(self, other: NameTest) -> NameTest:
        """The names of either."""
        return NameTest(
            self.literals | other.literals,
            tuple(dict.fromkeys(self.regexes + other.regexes)),
            tuple(dict.fromkeys(self.texts + other.texts)),
            self.everything or other.everything,
        )

    def is_in(self, text: str) -> bool:
        """Whether a glob may match a name in a text that has a `/` before and behind each name."""
        for regex in self.texts:
            if regex.search(text):
                return True
        return self.everything

    def among(self, names: Sequence[str]) -> Sequence[str]:
        """Those of `names` that a glob may match."""
        if self.everything:
            return names
        literals = self.literals
        matching = [] if literals.isdisjoint(names) else [name for name in names if name in literals]
        for regex in self.regexes:
            matches = regex.fullmatch
            matching += [name for name in names if matches(name)]
        return matching
