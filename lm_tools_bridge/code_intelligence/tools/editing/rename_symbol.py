"""The tool `lm_renameSymbol`: renames a symbol in all files, or shows what that would change."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.editing import edit_results
from lm_tools_bridge.code_intelligence.tools.editing.edit_results import Proposal
from lm_tools_bridge.code_intelligence.tools.editing.new_names import why_no_name
from lm_tools_bridge.code_intelligence.tools.references import target_members
from lm_tools_bridge.code_intelligence.tools.symbols import uses
from lm_tools_bridge.code_intelligence.tools.symbols.target import find_target
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from workspace_server.call_context import CallContext
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

_METHOD: Final = "textDocument/rename"


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Rename the symbol to `newName`.

    Raises:
        InvalidArguments: the symbol is not named, or not uniquely.
        ToolError: it cannot be renamed; no file was changed, or the message says so.
    """
    new = arguments["newName"]
    _check(new)
    begun, waiting, texts = time.time_ns(), Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_target(workplace, arguments, _METHOD, waiting, texts)
    _check(new, target.path)

    async def work(server: LanguageServer) -> Any:
        return await server.request(_METHOD, {**target.params, "newName": new}) or {}

    part = await uses.ask(workplace, target, work, waiting)
    if part.value is None:
        raise ToolError(
            f"it cannot be renamed: {part.freshness.text()}. No file was changed",
            {"freshness": [part.freshness.structured()]},
        )
    if aliases := target.server.aliases(target.path):
        reason = f"uses over {workplace.shown(aliases[0])}, another name of this file, are not among them"
        part = replace(part, freshness=Freshness(target.server.specification.name, "partial", reason))
        if arguments.get("apply", True):
            raise ToolError(f"{reason}. No file was changed; apply: false shows what is known")
    about, head = target_members(target, workplace)
    proposal = Proposal(
        "Rename symbol summary",
        part.value,
        target.server.encoding,
        begun,
        part.freshness,
        target.unavailable,
        about,
        head,
        new,
    )
    return await edit_results.finish(workplace, proposal, texts, apply=arguments.get("apply", True))


def _check(new: str, path: Path | None = None) -> None:
    """Refuse what is no name, in any language or in that of a file: few servers look."""
    reason = why_no_name(new, None if path is None else path.suffix)
    if reason:
        raise InvalidArguments("/newName", reason)
