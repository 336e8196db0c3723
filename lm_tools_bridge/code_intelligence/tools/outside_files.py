"""Files outside the workspace: `lm_getDiagnostics` may be asked about them, and says that it is not sure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import DiagnosticsAnswer
from lm_tools_bridge.code_intelligence.tools.asking import Part
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from workspace_server.workspace import OutsideWorkspace

_REASON: Final = (
    "the file lies outside the workspace, so it may be checked with other settings, or not at all"
)


def existing(workplace: Workplace, text: str) -> Path:
    """The real path of a file, which may lie outside if `text` is absolute or leads over a link. Blocks.

    A file of another project is refused: its own servers know better.

    Raises:
        InvalidArguments, ToolError: as `Workplace.file`.
    """
    try:
        return workplace.file(text)
    except OutsideWorkspace as refused:
        if refused.project is not None and not _is_named_inside(workplace, text):
            raise
        for folder in workplace.workspace.folders:
            named = os.path.normpath(folder.path / text)
            is_named_inside = Path(text).is_absolute() or Path(named).is_relative_to(folder.path)
            real = Path(os.path.realpath(named))
            if is_named_inside and real.is_file():
                return real
        raise


def _is_named_inside(workplace: Workplace, text: str) -> bool:
    """Whether the path leads out of the workspace over a link in it."""
    return any(Path(os.path.normpath(text)).is_relative_to(one.path) for one in workplace.workspace.folders)


def in_doubt(
    workplace: Workplace, paths: Sequence[Path] | None, part: Part[DiagnosticsAnswer]
) -> Part[DiagnosticsAnswer]:
    """The part; what is said of a file outside is never called complete: it may be of no project."""
    is_outside = paths is not None and not all(map(workplace.workspace.contains, paths))
    if not is_outside or part.freshness.state != "fresh":
        return part
    return replace(part, freshness=Freshness(part.freshness.provider, "unknown", _REASON))
