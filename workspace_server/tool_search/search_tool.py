"""Runs the tool `tool_search`: reads its arguments, indexes the view, and writes the result.

The caller passes only tools that the client may find.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.results import clean_text
from workspace_server.tool import ToolResult
from workspace_server.tool_search.definitions import DEFAULT_RESULTS, EXECUTE, MAX_RESULTS
from workspace_server.tool_search.hits import Found, Hit, merge
from workspace_server.tool_search.index import Index, Searchable
from workspace_server.tool_search.scoring import Query, read_query

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
        if self._index is None or version is not self._version or _failed(self._index):
            self._version = version
            self._index = asyncio.get_running_loop().create_task(_build(tools), name="tool-search-index")
            self._building.add(self._index)
            self._index.add_done_callback(self._building.discard)
        return await asyncio.shield(self._index)


def _failed(task: asyncio.Task[Index]) -> bool:
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


def answer(found: Found, starting: Sequence[str] = ()) -> ToolResult:
    """The result of a search: the same hits as JSON text and as structured content.

    Args:
        found: the hits.
        starting: names of servers that have not listed their tools yet.
    """
    hits = [hit.as_dict() for hit in found.hits]
    structured: dict[str, Any] = {"results": hits, "total": found.total, "truncated": found.total > len(hits)}
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
