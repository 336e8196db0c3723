"""The names tools are offered by: namespaces, clashes, reserved words. Pure (T-2, T-8 to T-10).

Names are looked up in the table made here, never taken apart again.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from protocol.issues import Issue
from workspace_server.source import Source, Tool

SEPARATOR: Final = "__"
MAX_LENGTH: Final = 64
SCRIPT_SOURCES: Final = ("script", "script_user", "script_system")
BARE_RANK: Final = (*SCRIPT_SOURCES, "builtin")
"""Ids of the sources whose tools keep bare names, nearest first; an id is also the alias prefix (T-9)."""
RESERVED_NAMESPACES: Final = frozenset(BARE_RANK)
RESERVED_NAMES: Final = frozenset({"tool_search", "execute_tool", "execute_code"})
RESERVED_PREFIXES: Final = ("lm_", "lmToolsBridge")
INTERNAL_PREFIX: Final = "openllm_"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Named:
    """A source's tool and the name it is offered by."""

    name: str
    tool: Tool
    source: Source


def sort_key(name: str) -> tuple[str, str]:
    """The order of every list: lower-cased name, then the raw name (T-2)."""
    return name.lower(), name


def namespace_issue(source: Source) -> Issue | None:
    """The issue of a source that claims a namespace of ours (T-10)."""
    if source.namespace not in RESERVED_NAMESPACES:
        return None
    message = f'Source "{source.id}" wants the namespace "{source.namespace}", which is reserved'
    details = f"source {source.id}, namespace {source.namespace}"
    return Issue("error", "config", "CONFIG_NAMESPACE_RESERVED", message, details=details)


def is_internal_tool(name: str, prefix: str = INTERNAL_PREFIX) -> bool:
    """Whether a name belongs to the internal tools, which no client is ever shown (T-170). Case-sensitive."""
    return name.startswith(prefix)


def assign(
    listings: Sequence[tuple[Source, Sequence[Tool]]], internal_prefix: str = INTERNAL_PREFIX
) -> tuple[list[Named], list[Issue]]:
    """Give every tool its offered name.

    Args:
        listings: the sources with their tools; no name appears twice within one source.
        internal_prefix: the beginning of internal tools' names, which nobody else may use.

    Returns:
        The named tools in list order, and issues about reserved and clashing names.
    """
    issues: list[Issue] = []
    named: dict[str, Named] = {}
    for wanted in (*_bare(listings, internal_prefix, issues), *_namespaced(listings)):
        entry, keeper = wanted, named.get(wanted.name)
        if keeper is not None:
            entry = _alias(wanted, named)
            issues.append(_clash(keeper, entry))
        named[entry.name] = entry
    ordered = sorted(named.values(), key=lambda entry: sort_key(entry.name))
    issues.extend(_twins(ordered))
    return ordered, issues


def prefix_of(source: Source) -> str:
    """What stands before the names of a source's tools; `_` as separator levels `-` before it (T-87)."""
    if source.namespace is None:
        return ""
    namespace = source.namespace.replace("-", "_") if source.separator == "_" else source.namespace
    return namespace + source.separator


def _bare(
    listings: Sequence[tuple[Source, Sequence[Tool]]], internal_prefix: str, issues: list[Issue]
) -> list[Named]:
    named = []
    for source, tools in sorted((pair for pair in listings if pair[0].namespace is None), key=_rank):
        for tool in tools:
            if source.kind != "builtin" and _is_reserved(tool.name, internal_prefix):
                message = f'The name "{tool.name}" is reserved; the tool of source "{source.id}" is left out'
                details = f"source {source.id}"
                issues.append(Issue("warning", "names", "TOOL_NAME_RESERVED", message, tool.name, details))
            else:
                named.append(Named(_fit(tool.name), tool, source))
    return named


def _alias(entry: Named, taken: Mapping[str, Named]) -> Named:
    full = entry.source.id + SEPARATOR + entry.tool.name
    name = _fit(full)
    return Named(_hashed(full) if name in taken else name, entry.tool, entry.source)


def _rank(pair: tuple[Source, Sequence[Tool]]) -> tuple[int, str]:
    identity = pair[0].id
    return (BARE_RANK.index(identity) if identity in BARE_RANK else len(BARE_RANK), identity)


def _is_reserved(name: str, internal_prefix: str) -> bool:
    return name in RESERVED_NAMES or name.startswith((*RESERVED_PREFIXES, internal_prefix))


def _clash(keeper: Named, loser: Named) -> Issue:
    message = f'Two sources offer "{keeper.name}"'
    details = f"{keeper.source.id} keeps it; the tool of {loser.source.id} is now {loser.name}"
    return Issue("warning", "names", "TOOL_NAME_CLASH", message, keeper.name, details)


def _namespaced(listings: Sequence[tuple[Source, Sequence[Tool]]]) -> list[Named]:
    wanted = [
        (prefix_of(source) + tool.name, tool, source)
        for source, tools in listings
        if source.namespace is not None
        for tool in tools
    ]
    shaped = Counter(_UNFIT.sub("_", full) for full, _, _ in wanted)
    return [
        Named(_hashed(full) if shaped[_UNFIT.sub("_", full)] > 1 else _fit(full), tool, source)
        for full, tool, source in wanted
    ]


def _fit(full: str) -> str:
    name = _UNFIT.sub("_", full)
    return name if len(name) <= MAX_LENGTH else _hashed(full)


def _hashed(full: str) -> str:
    """The first 55 characters, `_`, and 8 hex digits of the full name's SHA-256 (T-8)."""
    return f"{_UNFIT.sub('_', full)[:55]}_{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def _twins(named: Sequence[Named]) -> list[Issue]:
    issues = []
    for first, second in pairwise(named):
        if first.name.lower() == second.name.lower():
            message = f'"{first.name}" and "{second.name}" differ only in case'
            details = f"{first.name}, {second.name}"
            issues.append(Issue("warning", "names", "TOOL_NAME_SIMILAR", message, second.name, details))
    return issues
