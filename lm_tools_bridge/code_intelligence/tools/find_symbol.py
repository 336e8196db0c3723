"""The tool `lm_findSymbol`: finds declarations by name or name path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.tools import listing
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.listing import Entry, Listing
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import name_query
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_search import Findings, search
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from workspace_server.call_context import CallContext
from workspace_server.tool import InvalidArguments, ToolResult

DEFAULT_LIMIT: Final = 50


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Find the declarations.

    Raises:
        InvalidArguments: at `/query` or `/filePath`.
        ToolError: no server can be asked.
    """
    try:
        wanted = name_query(arguments["query"], arguments.get("match", "exact"))
    except ValueError as error:
        raise InvalidArguments("/query", str(error)) from None
    file = arguments.get("filePath")
    path = None if file is None else await workplace.find_file(file)
    texts = await workplace.texts()
    found = await search(workplace, wanted, path, Waiting(wait_s(arguments), context), texts)
    return await workplace.run(
        [one.place.path for one, _ in found.symbols], lambda: _result(workplace, arguments, found)
    )


def _result(workplace: Workplace, arguments: Mapping[str, Any], found: Findings) -> ToolResult:
    kinds = arguments.get("kinds")
    symbols = [one for one, _ in found.symbols if kinds is None or one.kind in kinds]
    entries = [
        Entry(
            one.structured(workplace),
            (one.place.text(workplace), one.title(), *one.place.preview()),
        )
        for one in symbols
    ]
    shown = Listing("Find symbol summary", "symbols", entries, found.freshness, found.unavailable)
    return listing.result(shown, arguments, DEFAULT_LIMIT)
