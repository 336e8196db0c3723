"""Splits names of symbols, as each language writes them, into paths, and compares them with queries. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Match = Literal["exact", "prefix", "regex", "fuzzy"]
MAX_PATTERN: Final = 200
"""Characters of an expression, which is compared with one name, not with a path."""
MAX_REPETITIONS: Final = 3
"""With three in a row, `re` takes at most the third power of a name's length."""
MAX_NAME: Final = 100
"""Characters of a name that an expression is tried on."""
_RECEIVER: Final = re.compile(r"\(\*?([^()]+)\)\.(.+)")  # Go writes methods as `(*Stack).Push`
_PARTS: Final = re.compile(r"::|[/.#]")
_UNWRITTEN: Final = re.compile(
    r"v\d\w*|_V\d+|__\w+|lts_\d+|abi_\w+|\(anonymous.*\)|<anonymous.*>|[A-Z][A-Z\d]*_[A-Z\d_]+"
)
"""Namespaces of C++ that names leave out: inline ones for versions, nameless ones, macros that open some."""
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class NameQuery:
    """What a caller wants.

    Attributes:
        containers: names of what the symbol lies in, the outermost first.
        name: the last part.
        match: how `name` is compared.
        whole: whether nothing may lie outside of `containers`.
    """

    containers: tuple[str, ...]
    name: str
    match: Match
    whole: bool = False

    def fits(self, path: Sequence[str]) -> bool:
        """Whether a symbol with this path, as of `path_of`, is wanted."""
        if not path or not self._compare()(path[-1]):
            return False
        above = path[:-1]
        # a caller writes `fmt/print` as the code does, not `fmt/v12/print`
        return self._lies_in(above) or self._lies_in(
            [name for name in above if not _UNWRITTEN.fullmatch(name)]
        )

    def _lies_in(self, above: Sequence[str]) -> bool:
        if self.whole and len(above) != len(self.containers):
            return False
        near = above[len(above) - len(self.containers) :] if self.containers else ()
        return len(near) == len(self.containers) and all(
            _is_container(container, word) for container, word in zip(near, self.containers, strict=True)
        )

    @property
    def literal(self) -> str:
        """The longest word that each fitting name contains, for servers and searches; may be empty."""
        if self.match in ("exact", "prefix"):
            return self.name
        if self.match == "fuzzy":
            return self.name[:1]
        plain = re.sub(r"\\.|\[[^\]]*\]?|\([^)]*\)?|\{[^}]*\}?|\w[?*]", " ", self.name)
        return "" if "|" in plain else max(_WORD.findall(plain), key=len, default="")

    def _compare(self) -> Callable[[str], bool]:
        text = self.name
        if self.match == "exact":
            return lambda name: name == text
        lowered = text.lower()
        if self.match == "prefix":
            return lambda name: name.lower().startswith(lowered)
        if self.match == "fuzzy":
            return lambda name: _has_in_order(name.lower(), lowered)
        pattern = re.compile(text)
        return lambda name: pattern.search(name[:MAX_NAME]) is not None


def is_unwritten(name: str) -> bool:
    """Whether names of code leave this part of a path out, because it has no name of its own."""
    return _UNWRITTEN.fullmatch(name) is not None


def name_query(text: str, match: Match = "exact") -> NameQuery:
    """Read a name or name path; `/`, `.`, `::` and `#` separate its parts.

    Raises:
        ValueError: it is empty, or no valid regular expression.
    """
    whole = text.startswith("/")
    if match == "regex":
        head, _, name = text.strip("/").rpartition("/")
        containers = [part for part in _PARTS.split(head) if part]
        _check_pattern(name)
    else:
        *containers, name = [part for part in _PARTS.split(text.strip()) if part] or [""]
    if not name:
        raise ValueError("it has no name")
    return NameQuery(tuple(containers), name, match, whole)


def path_of(names: Sequence[str]) -> tuple[str, ...]:
    """The name path of a symbol from its containers' names and its own, as its server writes them."""
    return tuple(part for name in names for part in _split(name))


def _split(name: str) -> list[str]:
    if (receiver := _RECEIVER.fullmatch(name)) is not None:
        return [receiver[1], receiver[2]]
    plain = name.partition("(")[0].strip() or name  # some servers add the parameters
    parts = [part for part in plain.split("::") if part]
    return parts or [name]


def _is_container(name: str, word: str) -> bool:
    """Rust's `impl Display for Stack` is a part of `Stack`, `List<T>` of `List`."""
    return name == word or name.partition("<")[0].split()[-1:] == [word]


def _has_in_order(name: str, letters: str) -> bool:
    rest = iter(name)
    return all(letter in rest for letter in letters)


def _check_pattern(pattern: str) -> None:
    """Names are short, but some expressions would still run for ever, so what may be repeated is limited."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the expression is longer than {MAX_PATTERN} characters")
    plain = re.sub(r"\\.|\[[^\]]*\]", "x", pattern)
    if re.search(r"\)[*+{]", plain) or len(re.findall(r"[*+{]", plain)) > MAX_REPETITIONS:
        raise ValueError(f"groups cannot be repeated, and at most {MAX_REPETITIONS} repetitions are possible")
    try:
        re.compile(pattern)
    except (re.error, RecursionError) as error:
        raise ValueError(f"invalid regular expression: {error}") from None
