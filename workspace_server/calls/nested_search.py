"""Forwards a `tool_search` to the sources that have one of their own, and renames their hits.

All sources are asked at the same time, for at most `DEADLINE_S` seconds. Hits that this client may not call
are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from workspace_server import naming
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool_search.definitions import MAX_RESULTS
from workspace_server.tool_search.hits import Hit, read_hits

DEADLINE_S: Final = 2.0


async def hits(view: View, arguments: Mapping[str, Any]) -> Sequence[Hit]:
    """The hits of all sources that forward unlisted names, under the names these tools have here."""
    query = arguments.get("query")
    sources = [source for source in view.snapshot.sources if source.accepts_unlisted]
    if not sources or not isinstance(query, str) or not query.strip():
        return ()
    found = await asyncio.gather(
        *(source.nested_search(query, MAX_RESULTS, DEADLINE_S) for source in sources)
    )
    return [
        hit
        for source, result in zip(sources, found, strict=True)
        if result is not None
        for hit in read_hits(result, _offered_name(source))
        if view.forwarded(hit.name) is not None
    ]


def _offered_name(source: Source) -> Callable[[str], str]:
    return lambda name: naming.prefix_of(source) + name
