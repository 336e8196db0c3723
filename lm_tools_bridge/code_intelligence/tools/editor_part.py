"""Asks the editor that has the project open for its problems: for files where it shows some, those count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import FileDiagnostics
from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic, diagnostics_of
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import AskEditor, Problems

SOURCE: Final = "vscode.languages.getDiagnostics"
FRESHNESS: Final = Freshness(
    "editor", "unknown", "it is what VS Code shows, which does not say whether its checks are finished"
)
NOTHING_SHOWN: Final = (
    "VS Code shows no problems. It does not say whether anything checks these files, or has finished."
)


@dataclass(frozen=True, slots=True)
class EditorPart:
    """What the editor shows. `files` are those for which it shows any problem."""

    files: frozenset[Path]
    found: Sequence[Diagnostic]


async def ask(editor: AskEditor, paths: Sequence[Path] | None, texts: Texts) -> EditorPart | None:
    """Ask the editor; None as for `AskEditor`."""
    problems = await editor(paths)
    return None if problems is None else await asyncio.to_thread(_part, problems, paths, texts)


def _part(problems: Problems, paths: Sequence[Path] | None, texts: Texts) -> EditorPart:
    wanted = None if paths is None else frozenset(paths)
    files = [
        FileDiagnostics(path, texts.lines(path), items)
        for path, items in problems.items()
        if wanted is None or path in wanted
    ]
    return EditorPart(frozenset(file.path for file in files), list(diagnostics_of(files, "utf-16", texts)))


def without_editors(found: Iterable[Diagnostic], part: EditorPart | None) -> Iterable[Diagnostic]:
    """The diagnostics of files for which the editor shows none."""
    return found if part is None else (one for one in found if one.path not in part.files)
