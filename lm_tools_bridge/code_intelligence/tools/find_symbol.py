"""The tool `lm_findSymbol`: finds declarations by name or name path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lm_tools_bridge.code_intelligence.tools import listing
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.listing import Entry, Listing
from lm_tools_bridge.code_intelligence.tools.schemas import SYMBOL_KINDS
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import name_query
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_search import Findings, search
from lm_tools_bridge.code_intelligence.tools.word_check.absence import find_absences, limit_by_absences
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from workspace_server.call_context import CallContext
from workspace_server.tool import InvalidArguments, ToolResult

DEFAULT_LIMIT: Final = 50
"""With four lines each; a name that more symbols have wants a longer name path."""


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Find the declarations.

    Raises:
        InvalidArguments: at `/query`, `/kinds` or `/filePath`.
        ToolError: no server can be asked.
    """
    unknown = [kind for kind in arguments.get("kinds", ()) if kind not in SYMBOL_KINDS]
    if unknown:
        raise InvalidArguments("/kinds", f"{unknown[0]} is none of {', '.join(SYMBOL_KINDS)}")
    try:
        query = name_query(arguments["query"], arguments.get("match", "exact"))
    except ValueError as error:
        raise InvalidArguments("/query", str(error)) from None
    file = arguments.get("filePath")
    path = None if file is None else await workplace.find_file(file)
    texts = await workplace.texts()
    findings = await search(workplace, query, path, Waiting(wait_s(arguments), context), texts)
    if not findings.symbols and path is None and query.match == "exact":
        absences = await find_absences(workplace, arguments["query"], texts)
        limited = limit_by_absences(findings.freshness, absences, workplace)
        findings = replace(findings, freshness=limited)
    return await workplace.run(
        [symbol.place.path for symbol, _ in findings.symbols], lambda: _result(workplace, arguments, findings)
    )


def _result(workplace: Workplace, arguments: Mapping[str, Any], findings: Findings) -> ToolResult:
    kinds = arguments.get("kinds")
    symbols = [symbol for symbol, _ in findings.symbols if kinds is None or symbol.kind in kinds]
    entries = [
        Entry(
            symbol.structured(workplace),
            (symbol.place.text(workplace), symbol.title(), *symbol.place.preview()),
        )
        for symbol in symbols
    ]
    matches = Listing("Find symbol summary", "symbols", entries, findings.freshness, findings.unavailable)
    return listing.result(matches, arguments, DEFAULT_LIMIT)
