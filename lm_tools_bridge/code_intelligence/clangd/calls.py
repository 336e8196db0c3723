"""Runs the clangd tools by their names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.answers import Answer, ClangdFailure
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, begin
from lm_tools_bridge.code_intelligence.clangd.hierarchies import call_hierarchy, type_hierarchy
from lm_tools_bridge.code_intelligence.clangd.lsp_request import lsp_request
from lm_tools_bridge.code_intelligence.clangd.references import (
    implementations,
    references,
    switch_source_header,
)
from lm_tools_bridge.code_intelligence.clangd.status import status
from lm_tools_bridge.code_intelligence.clangd.symbol_bundle import symbol_bundle
from lm_tools_bridge.code_intelligence.clangd.symbol_info import symbol_info
from lm_tools_bridge.code_intelligence.clangd.symbol_search import symbol_search
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from workspace_server.tool import ToolResult

PREFIX: Final = "lm_clangd_"
_CALLS: Final[Mapping[str, Callable[[ClangdCall, Mapping[str, Any]], Awaitable[Answer]]]] = {
    "switchSourceHeader": switch_source_header,
    "symbolSearch": symbol_search,
    "symbolInfo": symbol_info,
    "symbolReferences": references,
    "symbolImplementations": implementations,
    "callHierarchy": call_hierarchy,
    "typeHierarchy": type_hierarchy,
    "symbolBundle": symbol_bundle,
    "lspRequest": lsp_request,
}
_NEEDS_NO_INDEX: Final = frozenset({"switchSourceHeader", "lspRequest"})
"""Tools whose answer says nothing of the index: they neither wait for it nor mention it."""


async def run(
    name: str, arguments: Mapping[str, Any], workplace: Workplace, settings: ClangdSettings
) -> ToolResult:
    """The result of a tool; failures are results, too."""
    short = name.removeprefix(PREFIX)
    if short == "status":
        return await status(workplace.servers, settings)
    is_indexed = short not in _NEEDS_NO_INDEX
    try:
        call = await begin(workplace, settings, waits_for_index=is_indexed)
        answer = await _CALLS[short](call, arguments)
    except ClangdFailure as failure:
        return failure.result()
    return answer.result(call.freshness if is_indexed else None)
