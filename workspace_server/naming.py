"""The names tools and prompts are offered by: namespaces, clashes, reserved words. Pure.

Names are looked up in the table made here, never taken apart again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, Protocol, TypeVar

from protocol.issues import Issue
from workspace_server.source import Source

SEPARATOR: Final = "__"
MAX_LENGTH: Final = 64
SCRIPT_SOURCES: Final = ("script", "script_user", "script_system")
BARE_RANK: Final = (*SCRIPT_SOURCES, "builtin")
"""Ids of the sources whose tools keep bare names, nearest first; an id is also the alias prefix."""
RESERVED_NAMESPACES: Final = frozenset(BARE_RANK)
RESERVED_NAMES: Final = frozenset({"tool_search", "execute_tool", "execute_code"})
RESERVED_PREFIXES: Final = ("lm_", "lmToolsBridge")
INTERNAL_PREFIX: Final = "openllm_"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class Item(Protocol):
    """What has a name at its source: a tool or a prompt."""

    @property
    def name(self) -> str:
        """That name."""


T = TypeVar("T", bound=Item)
Listing = tuple[Source, Sequence[T]]
"""A source with what it offers; no name appears twice."""


@dataclass(frozen=True, slots=True)
class Named(Generic[T]):
    """A source's item and the name it is offered by."""

    name: str
    item: T
    source: Source


def sort_key(name: str) -> tuple[str, str]:
    """The order of every list: lower-cased name, then the raw name."""
    return name.lower(), name


def namespace_issue(source: Source) -> Issue | None:
    """The issue of a source that claims a namespace of ours."""
    if source.namespace not in RESERVED_NAMESPACES:
        return None
    message = f'Source "{source.id}" wants the namespace "{source.namespace}", which is reserved'
    details = f"source {source.id}, namespace {source.namespace}"
    return Issue("error", "config", "CONFIG_NAMESPACE_RESERVED", message, details=details)


def is_internal_tool(name: str, prefix: str = INTERNAL_PREFIX) -> bool:
    """Whether a name belongs to the internal tools, which no client is ever shown. Case-sensitive."""
    return name.startswith(prefix)


def assign(
    listings: Sequence[Listing[T]], internal_prefix: str | None = INTERNAL_PREFIX, word: str = "tool"
) -> tuple[list[Named[T]], list[Issue]]:
    """Give every item its offered name.

    Args:
        listings: the sources with their items.
        internal_prefix: the beginning of internal tools' names, which nobody else may use; None where no name
            is reserved.
        word: what an item is called in issues.

    Returns:
        The named items in list order, and issues about reserved and clashing names.
    """
    issues: list[Issue] = []
    named: dict[str, Named[T]] = {}
    for wanted in (*_bare(listings, internal_prefix, issues), *_namespaced(listings)):
        entry, keeper = wanted, named.get(wanted.name)
        if keeper is not None:
            entry = _alias(wanted, named)
            issues.append(_clash(keeper, entry, word))
        named[entry.name] = entry
    ordered = sorted(named.values(), key=lambda entry: sort_key(entry.name))
    issues.extend(_twins(ordered, word))
    return ordered, issues


def prefix_of(source: Source) -> str:
    """What stands before the names of a source's tools; `_` as separator levels `-` before it."""
    if source.namespace is None:
        return ""
    namespace = source.namespace.replace("-", "_") if source.separator == "_" else source.namespace
    return namespace + source.separator


def is_bare(source: Source) -> bool:
    """Whether it is somebody else's server whose tools keep their own names."""
    return source.namespace is None and source.kind in ("stdio", "remote")


def _bare(listings: Sequence[Listing[T]], internal_prefix: str | None, issues: list[Issue]) -> list[Named[T]]:
    named = []
    for source, items in sorted((pair for pair in listings if pair[0].namespace is None), key=_rank):
        for item in items:
            if source.kind != "builtin" and _is_reserved(item.name, internal_prefix):
                message = f'The name "{item.name}" is reserved; the tool of source "{source.id}" is left out'
                details = f"source {source.id}"
                issues.append(Issue("warning", "names", "TOOL_NAME_RESERVED", message, item.name, details))
            else:
                named.append(Named(_fit(item.name), item, source))
    return named


def _alias(entry: Named[T], taken: Mapping[str, Named[T]]) -> Named[T]:
    full = entry.source.id + SEPARATOR + entry.item.name
    name = _fit(full)
    return Named(_hashed(full) if name in taken else name, entry.item, entry.source)


def _rank(pair: Listing[T]) -> tuple[int, str]:
    identity = pair[0].id
    return (BARE_RANK.index(identity) if identity in BARE_RANK else len(BARE_RANK), identity)


def _is_reserved(name: str, internal_prefix: str | None) -> bool:
    if internal_prefix is None:
        return False
    return name in RESERVED_NAMES or name.startswith((*RESERVED_PREFIXES, internal_prefix))


def _clash(keeper: Named[T], loser: Named[T], word: str) -> Issue:
    message = f'Two sources offer "{keeper.name}"'
    details = f"{keeper.source.id} keeps it; the {word} of {loser.source.id} is now {loser.name}"
    return _issue(word, "CLASH", message, keeper.name, details)


def _issue(word: str, problem: str, message: str, name: str, details: str) -> Issue:
    tool = name if word == "tool" else None
    return Issue("warning", "names", f"{word.upper()}_NAME_{problem}", message, tool, details)


def _namespaced(listings: Sequence[Listing[T]]) -> list[Named[T]]:
    wanted = [
        (prefix_of(source) + item.name, item, source)
        for source, items in listings
        if source.namespace is not None
        for item in items
    ]
    shaped = Counter(_UNFIT.sub("_", full) for full, _, _ in wanted)
    return [
        Named(_hashed(full) if shaped[_UNFIT.sub("_", full)] > 1 else _fit(full), item, source)
        for full, item, source in wanted
    ]


def _fit(full: str) -> str:
    name = _UNFIT.sub("_", full)
    return name if len(name) <= MAX_LENGTH else _hashed(full)


def _hashed(full: str) -> str:
    """The first 55 characters, `_`, and 8 hex digits of the full name's SHA-256."""
    return f"{_UNFIT.sub('_', full)[:55]}_{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def _twins(named: Sequence[Named[T]], word: str) -> list[Issue]:
    issues = []
    for first, second in pairwise(named):
        if first.name.lower() == second.name.lower():
            message = f'"{first.name}" and "{second.name}" differ only in case'
            details = f"{first.name}, {second.name}"
            issues.append(_issue(word, "SIMILAR", message, second.name, details))
    return issues
