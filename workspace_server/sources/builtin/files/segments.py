"""Filters the files of a walk, directory by directory, by the globs of a query. Pure.

A glob is a part for the directory and one for the name. The first is tested once for all files of a
directory. The last parts of many globs are tested against a name at once: most names fit none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from workspace_server.sources.builtin.files.patterns import BadGlob, PathFilter, glob_regex

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


_PLAIN: Final = re.compile(r"[^*?\[\]{}!\\]+")
_ANYWHERE: Final = "(?:[^/]+/)*"
_Matcher = tuple[str, ...] | Callable[[str], list[str]]
"""What tells which names pass: endings, of which a name must have one, or a function of a segment's text."""
_ANY_NAME: Final = ("",)


class Segment(msgspec.Struct, frozen=True, gc=False):
    """The visible files of one directory.

    One text for all names takes a third of their memory, and is searched at once.

    Attributes:
        base: the directory relative to the folder, with `/` at its end; "" for the folder.
        text: the names of the files, with a `/` before and behind each.
        count: how many files there are.
        is_whole: whether nothing in the directory is ignored, excluded or a link, so that these are all its
            files (but for a `.git`).
        hidden: the names of ignored and excluded entries, but for `.git`.
        links: the names of visible links, with `/` at the end if they lead to directories.
    """

    base: str
    text: str
    count: int
    is_whole: bool
    hidden: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the files."""
        return self.text[1:-1].split("/") if self.text else []


class SegmentFilter:
    """A `PathFilter` for segments: the same paths pass."""

    def __init__(self, wanted: PathFilter) -> None:
        groups: dict[str, list[str]] = {}
        for glob in wanted.globs:
            directory, name = _halves(glob)
            groups.setdefault(directory, []).append(name)
        anywhere = groups.pop(_ANYWHERE, [])
        self._below = [(re.compile(directory).fullmatch, names) for directory, names in groups.items()]
        self._anywhere = tuple(anywhere)
        self._matchers: dict[tuple[str, ...], _Matcher] = {}
        self._endings = {glob_regex(f"*{ending}"): ending for ending in map(_ending, wanted.globs) if ending}
        self._everywhere = self._matcher(self._anywhere) if anywhere else None

    def __call__(self, segment: Segment) -> Sequence[str]:
        """The names in the segment whose paths pass."""
        matcher = self._of(segment.base)
        if matcher is None:
            return ()
        if isinstance(matcher, tuple):  # much faster than an expression
            text = segment.text
            if not any(f"{ending}/" in text for ending in matcher):
                return ()
            return [name for name in segment.names if name.endswith(matcher)]
        return matcher(segment.text)

    def count(self, segment: Segment) -> int:
        """How many names in the segment pass."""
        matcher = self._of(segment.base)
        if matcher is _ANY_NAME:
            return segment.count
        if isinstance(matcher, tuple) and len(matcher) == 1:
            return segment.text.count(f"{matcher[0]}/")
        return len(self(segment))

    def _of(self, base: str) -> _Matcher | None:
        """What tells which files of a directory pass; None if none does."""
        if not self._below:
            return self._everywhere
        patterns = self._anywhere
        for matches, more in self._below:
            if matches(base):
                patterns = (*patterns, *more)
        if not patterns:
            return None
        matcher = self._matchers.get(patterns)
        if matcher is None:
            matcher = self._matchers[patterns] = self._matcher(patterns)
        return matcher

    def _matcher(self, patterns: tuple[str, ...]) -> _Matcher:
        if "" in patterns:
            return _ANY_NAME
        endings = [self._endings.get(pattern.removeprefix("(?:").removesuffix(")")) for pattern in patterns]
        if None not in endings:
            return tuple(ending for ending in endings if ending is not None)
        return re.compile(f"/({'|'.join(patterns)})(?=/)").findall


def _ending(glob: str) -> str | None:
    """What a name must end with, if the glob asks for nothing else of it."""
    last = glob.rpartition("/")[2]
    return last[1:] if last.startswith("*") and _PLAIN.fullmatch(last[1:]) else None


def _halves(glob: str) -> tuple[str, str]:
    """Regular expressions for the directory, with `/` at its end, and the name; "" is any name."""
    *above, last = [part for part in glob.split("/") if part not in {"", "."}] or ["**"]
    directory = glob_regex("/".join([*above, "x"])).removesuffix("x")
    if last == "**":
        return f"(?s:{directory}.*)", ""
    return directory, f"(?:{glob_regex(last)})"
