"""The tool `lm_clangd_switchSourceHeader`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry
from lm_tools_bridge.code_intelligence.wire import document_uris
from workspace_server.workspace import Workspace, absolute_text


async def switch_source_header(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The header of a source file, or the source file of a header."""
    target = await call.target(arguments, with_position=False)
    uri = await call.ask("textDocument/switchSourceHeader", target.params["textDocument"])
    paired = document_uris.to_path(uri, Path)
    source = _names(target.path, call.workspace)
    found = None if paired is None else _names(paired, call.workspace)
    shown = "(not found)" if found is None else _shown(found)
    return Answer(
        "switchSourceHeader",
        None,
        {"found": found is not None, "source": source, "paired": found},
        entries=[Entry(f"{_shown(source)}#1", f"paired file: {shown}")],
        extras={"found": found is not None},
        text_counts=Counts(int(found is not None), int(found is not None)),
    )


def _names(path: Path, workspace: Workspace) -> dict[str, str | None]:
    return {"absolutePath": absolute_text(path), "workspacePath": workspace.workspace_path(path)}


def _shown(names: Mapping[str, str | None]) -> str:
    return str(names["workspacePath"] or names["absolutePath"])
