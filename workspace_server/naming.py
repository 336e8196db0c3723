"""Assigns offered names to tools and prompts: namespaces, clashes, reserved names. Pure.

Names are looked up in the resulting table and never split into their parts again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, Protocol, TypeVar

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.source import Source

SEPARATOR: Final = "__"
# The APIs of models accept no longer names of tools, and clients drop a tool with one.
MAX_LENGTH: Final = 64
SCRIPT_SOURCES: Final = ("script", "script_user", "script_system")
BARE_RANK: Final = (*SCRIPT_SOURCES, "builtin", "language_servers")
"""Ids of the sources whose tools have no namespace, by precedence. An id is also the prefix of aliases."""
RESERVED_NAMESPACES: Final = frozenset(BARE_RANK)
RESERVED_NAMES: Final = frozenset({"tool_search", "search_project_tools", "execute_tool", "execute_code"})
RESERVED_PREFIXES: Final = ("lm_", "lmToolsBridge")
INTERNAL_PREFIX: Final = "openllm_"
OWN_KINDS: Final = frozenset({"builtin", "language-server"})
"""Kinds of sources that may use reserved names, because this program defines their tools."""
_OWN_PREFIX: Final = "lm_"
"""Windows of VS Code name their tools like this, because ours have these names from them."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class Item(Protocol):
    """A tool or a prompt."""

    @property
    def name(self) -> str:
        """Its name at its source."""


T = TypeVar("T", bound=Item)
SourceItems = tuple[Source, Sequence[T]]
"""A source and its items, without duplicate names."""


@dataclass(frozen=True, slots=True)
class Named(Generic[T]):
    """A source's item with its offered name."""

    name: str
    item: T
    source: Source


def sort_key(name: str) -> tuple[str, str]:
    """The sort key of every list: the name in lower case, then the name itself."""
    return name.lower(), name


def namespace_issue(source: Source) -> Issue | None:
    """The issue about a source with a reserved namespace; None if it is not reserved."""
    if source.namespace not in RESERVED_NAMESPACES:
        return None
    message = f'Source "{source.id}" wants the namespace "{source.namespace}", which is reserved'
    details = f"source {source.id}, namespace {source.namespace}"
    return Issue("error", "config", "CONFIG_NAMESPACE_RESERVED", message, details=details)


def is_internal_tool(name: str, prefix: str = INTERNAL_PREFIX) -> bool:
    """Whether a name belongs to the internal tools, which no client ever sees. Case-sensitive."""
    return name.startswith(prefix)


def assign(
    listings: Sequence[SourceItems[T]], internal_prefix: str | None = INTERNAL_PREFIX, word: str = "tool"
) -> tuple[list[Named[T]], list[Issue]]:
    """Assign an offered name to every item.

    Args:
        listings: the sources with their items.
        internal_prefix: the reserved prefix of internal tools; None if no names are reserved.
        word: the word for an item in issues.

    Returns:
        The named items in list order, and issues about reserved and clashing names.
    """
    issues: list[Issue] = []
    tools_by_name: dict[str, Named[T]] = {}
    for candidate in (*_bare(listings, internal_prefix, issues), *_namespaced(listings)):
        entry, keeper = candidate, tools_by_name.get(candidate.name)
        if keeper is not None:
            if _is_same_tool(keeper, candidate):
                continue
            entry = _alias(candidate, tools_by_name)
            issues.append(_clash(keeper, entry, word))
        tools_by_name[entry.name] = entry
    ordered = sorted(tools_by_name.values(), key=lambda entry: sort_key(entry.name))
    issues.extend(_twins(ordered, word))
    return ordered, issues


def prefix_of(source: Source) -> str:
    """The prefix of a source's tool names. With the separator `_`, each `-` of the namespace becomes `_`."""
    if source.namespace is None:
        return ""
    namespace = source.namespace.replace("-", "_") if source.separator == "_" else source.namespace
    return namespace + source.separator


def usual_name(source: Source, name: str) -> str:
    """The name of a source's tool if nothing else has it, also of one that is left out."""
    return _fit(prefix_of(source) + name)


def is_bare(source: Source) -> bool:
    """Whether the source is an MCP server whose tools have no namespace."""
    return source.namespace is None and source.kind in ("stdio", "remote")


def has_foreign_names(source: Source) -> bool:
    """Whether others chose the names of its tools, so that any name may be one of them."""
    return is_bare(source) or source.kind == "editor"


def _bare(
    listings: Sequence[SourceItems[T]], internal_prefix: str | None, issues: list[Issue]
) -> list[Named[T]]:
    named_tools = []
    for source, items in sorted((pair for pair in listings if pair[0].namespace is None), key=_rank):
        for item in items:
            if _is_refused(source, item.name, internal_prefix):
                message = f'The name "{item.name}" is reserved; the tool of source "{source.id}" is left out'
                details = f"source {source.id}"
                issues.append(Issue("warning", "names", "TOOL_NAME_RESERVED", message, item.name, details))
            else:
                named_tools.append(Named(_fit(item.name), item, source))
    return named_tools


def _is_same_tool(keeper: Named[T], other: Named[T]) -> bool:
    """Whether an editor offers what we offer under this name; one of them is enough."""
    return keeper.source.kind in OWN_KINDS and other.source.kind == "editor"


def _alias(entry: Named[T], taken_names: Mapping[str, Named[T]]) -> Named[T]:
    full = entry.source.id + SEPARATOR + entry.item.name
    name = _fit(full)
    return Named(_hashed(full) if name in taken_names else name, entry.item, entry.source)


def _rank(pair: SourceItems[T]) -> tuple[int, str]:
    identity = pair[0].id
    return (BARE_RANK.index(identity) if identity in BARE_RANK else len(BARE_RANK), identity)


def _is_refused(source: Source, name: str, internal_prefix: str | None) -> bool:
    """Whether a source without namespace may not use this name."""
    is_allowed = source.kind in OWN_KINDS or (source.kind == "editor" and name.startswith(_OWN_PREFIX))
    return not is_allowed and is_reserved(name, internal_prefix)


def is_reserved(name: str, internal_prefix: str | None = INTERNAL_PREFIX) -> bool:
    """Whether only tools of this program may have the name; none is reserved without an internal prefix."""
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


def _namespaced(listings: Sequence[SourceItems[T]]) -> list[Named[T]]:
    full_names = [
        (prefix_of(source) + item.name, item, source)
        for source, items in listings
        if source.namespace is not None
        for item in items
    ]
    shaped = Counter(_UNFIT.sub("_", full) for full, _, _ in full_names)
    return [
        Named(_hashed(full) if shaped[_UNFIT.sub("_", full)] > 1 else _fit(full), item, source)
        for full, item, source in full_names
    ]


def _fit(full: str) -> str:
    name = _UNFIT.sub("_", full)
    return name if len(name) <= MAX_LENGTH else _hashed(full)


def _hashed(full: str) -> str:
    """The first 55 characters of the name, `_`, and 8 hex digits of its SHA-256."""
    return f"{_UNFIT.sub('_', full)[:55]}_{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def _twins(named_tools: Sequence[Named[T]], word: str) -> list[Issue]:
    issues = []
    for first, second in pairwise(named_tools):
        if first.name.lower() == second.name.lower():
            message = f'"{first.name}" and "{second.name}" differ only in case'
            details = f"{first.name}, {second.name}"
            issues.append(_issue(word, "SIMILAR", message, second.name, details))
    return issues
