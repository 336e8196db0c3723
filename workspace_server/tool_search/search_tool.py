"""Runs the tool `tool_search`: indexes the view, merges hits of other servers, and writes the result.

The caller passes only tools that the client may find.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.results import clean_text
from workspace_server.tool import ToolResult
from workspace_server.tool_search.definitions import DEFAULT_RESULTS, EXECUTE, MAX_RESULTS
from workspace_server.tool_search.index import Index, Searchable
from workspace_server.tool_search.scoring import THRESHOLD, Query, read_query

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

    def renamed(self, shown_name: Callable[[str], str]) -> Found:
        """The same with other names: `shown_name` gives them for the offered ones."""
        return replace(self, hits=tuple(replace(hit, name=shown_name(hit.name)) for hit in self.hits))


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
    entries = _list_of(result.get("structuredContent")) or _in_text(result.get("content"))
    return [hit for entry in entries[:MAX_RESULTS] if (hit := _read_hit(entry, rename)) is not None]


def _list_of(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        value = value.get("results", value.get("result"))  # some frameworks wrap arrays in `result`
    return value if isinstance(value, list) else []


def _in_text(content: object) -> list[Any]:
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, Mapping) else None
    try:
        return _list_of(msgspec.json.decode(text)) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []  # text instead of hits: nothing was found


def _read_hit(entry: object, rename: Callable[[str], str]) -> Hit | None:
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


__all__ = ["SearchTool", "Searchable"]

NOTHING: Final = "No tools found. Try different keywords or a broader search term."


class SearchTool:
    """Searches views, with one index at a time. Owns the tasks that build indexes; `close` ends them."""

    def __init__(self) -> None:
        self._version: object = self  # no view yet
        self._index: asyncio.Task[Index] | None = None
        self._building: set[asyncio.Task[Index]] = set()

    async def search(
        self,
        tools: Iterable[Searchable],
        version: object,
        arguments: Mapping[str, Any],
        remote: Sequence[Hit] = (),
    ) -> Found:
        """What a `tool_search` finds; invalid arguments are treated as absent.

        Args:
            tools: the tools that can be found; used only if `version` is new.
            version: identifies the tools; the same object means the same tools.
            arguments: decoded, unchecked.
            remote: hits of other servers under their offered names, callable ones only.
        """
        index = await self._index_of(tools, version)
        return find(index, read_query(_query(arguments)), _limit(arguments), remote)

    async def close(self) -> None:
        """Cancel running builds. Idempotent."""
        for task in tuple(self._building):
            task.cancel()
        await asyncio.gather(*self._building, return_exceptions=True)

    async def _index_of(self, tools: Iterable[Searchable], version: object) -> Index:
        """The index of exactly this version. Concurrent searches share one build; cancelling one keeps it."""
        if self._index is None or version is not self._version or _has_failed(self._index):
            self._version = version
            self._index = asyncio.get_running_loop().create_task(_build(tools), name="tool-search-index")
            self._building.add(self._index)
            self._index.add_done_callback(self._building.discard)
        return await asyncio.shield(self._index)


def _has_failed(task: asyncio.Task[Index]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _build(tools: Iterable[Searchable]) -> Index:
    """Build the index on the event loop, in steps of 1 ms: a thread would block the loop for longer."""
    index = Index()
    for _ in index.fill(tools):
        await asyncio.sleep(0)
    return index


def find(index: Index, query: Query, max_results: int, remote: Sequence[Hit] = ()) -> Found:
    """The best hits of a query among the indexed tools and the hits of other servers."""
    ranked = index.rank(query)
    if remote:
        return merge([_hit(*ranked_tool) for ranked_tool in ranked], remote, max_results)
    return Found(tuple(_hit(*ranked_tool) for ranked_tool in ranked[:max_results]), len(ranked))


def _hit(tool: Searchable, score: float) -> Hit:
    keywords = tuple(dict.fromkeys(tool.keywords))
    return Hit(tool.name, tool.description, score, tool.definition["inputSchema"], keywords)


def answer(matches: Found, starting: Sequence[str] = ()) -> ToolResult:
    """The result of a search: the same hits as JSON text and as structured content.

    Args:
        matches: the hits.
        starting: names of servers that have not listed their tools yet.
    """
    hits = [hit.as_dict() for hit in matches.hits]
    structured: dict[str, Any] = {
        "results": hits,
        "total": matches.total,
        "truncated": matches.total > len(hits),
    }
    blocks = []
    if starting:
        names = [clean_text(name) for name in starting]
        note = _still_starting(names)
        structured |= {"starting": names, "note": note}
        blocks = [{"type": "text", "text": note}]
    # verbatim, so that text and structured content stay equal
    text = jsonrpc.dumps(hits).decode() if hits else "" if starting else NOTHING
    return ToolResult(text, structured, blocks=tuple(blocks), verbatim=True)


def _still_starting(names: Sequence[str]) -> str:
    """What a model has to know of servers whose tools cannot be found yet."""
    are = "is still starting, and its" if len(names) == 1 else "are still starting, and their"
    return (
        f"{', '.join(names)} {are} tools cannot be found yet. Search again in some seconds, or call a tool"
        f" whose name you know with {EXECUTE}, which waits for its server."
    )


def _query(arguments: Mapping[str, Any]) -> str:
    value = arguments.get("query")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def _limit(arguments: Mapping[str, Any]) -> int:
    value = arguments.get("max_results")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return DEFAULT_RESULTS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DEFAULT_RESULTS
    if isinstance(value, float) and math.isnan(value):
        return DEFAULT_RESULTS
    return int(max(1, min(MAX_RESULTS, value)))
