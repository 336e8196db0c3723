"""The tool `tool_search`: reads what was asked for, has an index of the view, words the answer.

Scores are defined in `scoring.py`; the index is `index.py`. Which tools a caller may find is not decided
here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from protocol import jsonrpc
from workspace_server.tool import ToolResult
from workspace_server.tool_search import definitions
from workspace_server.tool_search.definitions import DEFAULT_RESULTS, MAX_RESULTS
from workspace_server.tool_search.hits import Found, Hit, merge
from workspace_server.tool_search.index import Index, Searchable
from workspace_server.tool_search.scoring import Query, read_query

__all__ = ["SearchTool", "Searchable"]

NOTHING: Final = "No tools found. Try different keywords or a broader search term."


class SearchTool:
    """Searches views, one index at a time. Owns the tasks that build indexes: `close` ends them."""

    DEFINITION: Final = definitions.TOOL_SEARCH

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
    ) -> ToolResult:
        """The answer to a call of `tool_search`; arguments that make no sense are read as if absent.

        Args:
            tools: what may be found; read only if `version` is new.
            version: the same object as before where the tools are the same as before.
            arguments: decoded, unchecked.
            remote: hits of remotes under their names here, without those that may not be called.
        """
        index = await self._index_of(tools, version)
        return answer(find(index, read_query(_query(arguments)), _limit(arguments), remote))

    async def close(self) -> None:
        """End what is being built. Idempotent."""
        for task in tuple(self._building):
            task.cancel()
        await asyncio.gather(*self._building, return_exceptions=True)

    async def _index_of(self, tools: Iterable[Searchable], version: object) -> Index:
        """The index of this version and no other; built once however many ask, also if one of them leaves."""
        if self._index is None or version is not self._version or _failed(self._index):
            self._version = version
            self._index = asyncio.get_running_loop().create_task(_build(tools), name="tool-search-index")
            self._building.add(self._index)
            self._index.add_done_callback(self._building.discard)
        return await asyncio.shield(self._index)


def _failed(task: asyncio.Task[Index]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _build(tools: Iterable[Searchable]) -> Index:
    """Build in the event loop, a millisecond at a time: a thread would hold the others up for longer."""
    index = Index()
    for _ in index.fill(tools):
        await asyncio.sleep(0)
    return index


def find(index: Index, query: Query, max_results: int, remote: Sequence[Hit] = ()) -> Found:
    """The best hits of a query among the indexed tools and those of others."""
    ranked = index.rank(query)
    if remote:
        return merge([_hit(*one) for one in ranked], remote, max_results)
    return Found(tuple(_hit(*one) for one in ranked[:max_results]), len(ranked))


def _hit(tool: Searchable, score: float) -> Hit:
    keywords = tuple(dict.fromkeys(tool.keywords))
    return Hit(tool.name, tool.description, score, tool.definition["inputSchema"], keywords)


def answer(found: Found) -> ToolResult:
    """The result of a search: the same hits as JSON text and as structured content."""
    hits = [hit.as_dict() for hit in found.hits]
    structured = {"results": hits, "total": found.total, "truncated": found.total > len(hits)}
    # verbatim, or a schema could read differently in the two
    return ToolResult(jsonrpc.dumps(hits).decode() if hits else NOTHING, structured, verbatim=True)


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
