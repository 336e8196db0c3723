"""The tool `lm_fileOutline`: the symbols that a file declares, as a tree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import asking, listing
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import OUTLINE, Symbol, outline
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from workspace_server.call_context import CallContext
from workspace_server.results import well_formed
from workspace_server.tool import ToolError, ToolResult
from workspace_server.workspace import absolute_text

DEFAULT_LIMIT: Final = 300
"""A line for each symbol: the outline of nearly every file that a person wrote."""
DEFAULT_DEPTH: Final = 3
"""Module, class and method: deeper symbols are local to a function."""


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """List the symbols of `filePath`.

    Raises:
        InvalidArguments: at `/filePath`.
        ToolError: no server can list them.
    """
    path = await asyncio.to_thread(workplace.file, arguments["filePath"])
    waiting = Waiting(wait_s(arguments), context)
    obtained = await workplace.servers.for_file(path, "symbols", wait_s=waiting.left_s)
    running, unavailable = asking.split(obtained)
    servers = [each for each in running if each.supports(OUTLINE)]
    if not servers:
        raise asking.no_server(unavailable, workplace.shown_path(path))

    texts = await workplace.texts()

    async def work(server: LanguageServer) -> list[Symbol]:
        return await outline(server, path, texts)

    part = await asking.ask(servers[0], work, waiting, settles=False)
    if part.value is None:
        raise ToolError(f"the outline of {workplace.shown_path(path)} is not known: {part.freshness.text()}")
    depth = int(arguments.get("depth", DEFAULT_DEPTH))
    symbols = [each for each in part.value if len(each.path) <= depth]
    span = listing.page(arguments, DEFAULT_LIMIT)
    page = symbols[span]
    end = span.start + len(page)
    following = end if end < len(symbols) else None
    structured = {
        "absolutePath": absolute_text(path),
        "workspacePath": workplace.workspace.workspace_path(path),
        "total": len(symbols),
        "count": len(page),
        "nextOffset": following,
        "symbols": [_members(each) for each in page],
        "freshness": [part.freshness.structured()],
    }
    head = [
        "File outline summary",
        f"file: {workplace.shown_path(path)}",
        f"count: {len(page)}" + (f"/{len(symbols)}" if len(page) != len(symbols) else ""),
        *([f"nextOffset: {following}"] if following is not None else []),
        f"freshness: {part.freshness.text()}",
        "---",
    ]
    return ToolResult(well_formed("\n".join([*head, *_tree(page)])), structured)


def _members(symbol: Symbol) -> dict[str, Any]:
    return {
        "namePath": symbol.name_path,
        "kind": symbol.kind,
        "line": symbol.place.span.start.line,
        "character": symbol.place.span.start.column,
        "lastLine": symbol.whole.end.line,
        "signature": symbol.place.first_line(),
    }


def _tree(symbols: Sequence[Symbol]) -> list[str]:
    """A line per symbol, indented by depth: lines, kind, and the line of source that declares it."""
    return [
        f"{'  ' * (len(symbol.path) - 1)}{symbol.place.span.start.line}-{symbol.whole.end.line} "
        f"{symbol.kind} {symbol.path[-1]}: {symbol.place.first_line()}"
        for symbol in symbols
    ]
