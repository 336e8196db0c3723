"""Search hits: reads those of other servers, and merges them with our own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from workspace_server.results import clean_text
from workspace_server.tool_search.definitions import MAX_RESULTS
from workspace_server.tool_search.scoring import THRESHOLD

_ANY_OBJECT: Final = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool found by a search."""

    name: str
    description: str
    score: float
    input_schema: Mapping[str, Any]
    keywords: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The hit as JSON; `keywords` only if there are any."""
        members: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "score": self.score,
            "inputSchema": self.input_schema,
        }
        return {**members, "keywords": list(self.keywords)} if self.keywords else members


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: the best hits, and the total number of hits."""

    hits: tuple[Hit, ...]
    total: int

    def renamed(self, shown: Callable[[str], str]) -> Found:
        """The same with other names: `shown` gives them for the offered ones."""
        return replace(self, hits=tuple(replace(hit, name=shown(hit.name)) for hit in self.hits))


def merge(own: Sequence[Hit], remote: Sequence[Hit], max_results: int) -> Found:
    """Merge all hits, sorted by score, then name; our own definition of a tool takes precedence.

    Args:
        own: all hits among our own tools, best first.
        remote: hits of other servers under their offered names, callable ones only.
        max_results: how many to show.
    """
    own_names = {hit.name for hit in own}
    more: dict[str, Hit] = {}
    for hit in sorted(remote, key=_rank):
        if hit.name not in own_names:
            more.setdefault(hit.name, hit)
    merged = sorted([*own, *more.values()], key=_rank)
    return Found(tuple(merged[:max_results]), len(merged))


def _rank(hit: Hit) -> tuple[float, str, str]:
    return -hit.score, hit.name.lower(), hit.name


def read_hits(result: Mapping[str, Any], rename: Callable[[str], str]) -> list[Hit]:
    """The hits in another server's answer to `tool_search`. Invalid entries are skipped.

    Args:
        result: the decoded `CallToolResult`.
        rename: maps the server's tool names to offered names.
    """
    if result.get("isError") is True:
        return []
    entries = _listed(result.get("structuredContent")) or _in_text(result.get("content"))
    return [hit for entry in entries[:MAX_RESULTS] if (hit := _read(entry, rename)) is not None]


def _listed(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        value = value.get("results", value.get("result"))  # some frameworks wrap arrays in `result`
    return value if isinstance(value, list) else []


def _in_text(content: object) -> list[Any]:
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, Mapping) else None
    try:
        return _listed(msgspec.json.decode(text)) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []  # text instead of hits: nothing was found


def _read(entry: object, rename: Callable[[str], str]) -> Hit | None:
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("name"), str) or not name:
        return None
    description, schema = entry.get("description"), entry.get("inputSchema", entry.get("input_schema"))
    keywords = entry.get("keywords")
    return Hit(
        rename(name),
        clean_text(description) if isinstance(description, str) else "",
        _score(entry.get("score")),
        schema if isinstance(schema, Mapping) else _ANY_OBJECT,
        tuple(clean_text(word) for word in keywords if isinstance(word, str))
        if isinstance(keywords, list)
        else (),
    )


def _score(value: object) -> float:
    """The hit's score; a hit without a valid one gets the lowest score that counts."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124  NaN
        return THRESHOLD
    return round(float(min(max(value, 0), 1)), 4)
