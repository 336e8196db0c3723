"""Runs the clangd tools by their names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.call_hierarchy import call_hierarchy
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall, begin
from lm_tools_bridge.code_intelligence.clangd.failures import ClangdFailure
from lm_tools_bridge.code_intelligence.clangd.lsp_request import lsp_request
from lm_tools_bridge.code_intelligence.clangd.references import implementations, references
from lm_tools_bridge.code_intelligence.clangd.results import Answer, result
from lm_tools_bridge.code_intelligence.clangd.status import status
from lm_tools_bridge.code_intelligence.clangd.switch_header import switch_source_header
from lm_tools_bridge.code_intelligence.clangd.symbol_bundle import symbol_bundle
from lm_tools_bridge.code_intelligence.clangd.symbol_info import symbol_info
from lm_tools_bridge.code_intelligence.clangd.symbol_search import symbol_search
from lm_tools_bridge.code_intelligence.clangd.type_hierarchy import type_hierarchy
from lm_tools_bridge.code_intelligence.library_folders import LanguageFiles
from lm_tools_bridge.code_intelligence.server import LanguageServers
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from workspace_server.config.model import ClangdSettings
from workspace_server.tool import ToolResult
from workspace_server.workspace import Workspace

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


async def run(  # noqa: PLR0917  what one call is about
    name: str,
    arguments: Mapping[str, Any],
    workspace: Workspace,
    servers: LanguageServers,
    settings: ClangdSettings,
    files: LanguageFiles,
) -> ToolResult:
    """The result of a tool; failures are results, too."""
    short = name.removeprefix(PREFIX)
    if short == "status":
        return await status(servers, settings)
    indexed = short not in _NEEDS_NO_INDEX
    texts = Texts(await files.gate(), servers.links_out)
    try:
        call = await begin(workspace, servers, settings, texts, wait_s=None if indexed else 0)
        answer = await _CALLS[short](call, arguments)
    except ClangdFailure as failure:
        return failure.result()
    return result(answer, call.freshness if indexed else None)
