"""Searching where others hide tools behind a search of their own.

Asked at the same time, for a limited time; what a hit may not be called by here is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from workspace_server import naming
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool_search.definitions import MAX_RESULTS
from workspace_server.tool_search.hits import Hit, read_hits

DEADLINE_S: Final = 2.0


async def hits(view: View, arguments: Mapping[str, Any]) -> Sequence[Hit]:
    """What the sources that hide tools find, under the names these have here."""
    query = arguments.get("query")
    sources = [source for source in view.snapshot.sources if source.forwards]
    if not sources or not isinstance(query, str) or not query.strip():
        return ()
    found = await asyncio.gather(
        *(source.nested_search(query, MAX_RESULTS, DEADLINE_S) for source in sources)
    )
    return [
        hit
        for source, result in zip(sources, found, strict=True)
        if result is not None
        for hit in read_hits(result, _renamed(source))
        if view.hidden_behind(hit.name) is not None
    ]


def _renamed(source: Source) -> Any:
    return lambda name: naming.prefix_of(source) + name
