"""Turns the locations of clangd into places with paths, lines and previews. Reads the files it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.wire import document_uris
from lm_tools_bridge.code_intelligence.wire.positions import Span, span_from_server
from workspace_server.files.project_copies import ProjectCopies
from workspace_server.results import clean_text
from workspace_server.workspace import Workspace, absolute_text

MAX_PREVIEW: Final = 300
"""Longest line of a preview, in characters."""


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file.

    Attributes:
        path: the file, absolute.
        workspace_path: `Folder/…`, None for a file outside the workspace.
        span: where in the file.
        preview: the line on which it starts, None if the file could not be read.
    """

    path: Path
    workspace_path: str | None
    span: Span
    preview: str | None

    @property
    def text(self) -> str:
        """`path#line`, or `path#first-last` for several lines."""
        first, last = self.span.start.line, self.span.end.line
        if last > first and self.span.end.column == 1:
            last -= 1  # it ends before the first character of that line
        lines = str(first) if last <= first else f"{first}-{last}"
        return f"{self.workspace_path or absolute_text(self.path)}#{lines}"

    def structured(self) -> dict[str, Any]:
        """The location as in `structuredContent`."""
        members = {
            "absolutePath": absolute_text(self.path),
            "workspacePath": self.workspace_path,
            "startLine": self.span.start.line,
            "startCharacter": self.span.start.column,
            "endLine": self.span.end.line,
            "endCharacter": self.span.end.column,
        }
        return members if self.preview is None else {**members, "preview": self.preview}


class Places:
    """The files that one call is about, each read once.

    Args:
        workspace: names the folders.
        encoding: the unit of the server's positions.
        texts: the text that the call may show.
    """

    def __init__(self, workspace: Workspace, encoding: PositionEncoding, texts: Texts) -> None:
        self._workspace = workspace
        self._encoding = encoding
        self._copies = ProjectCopies([folder.path for folder in workspace.folders])
        self.texts = texts

    async def of(self, found: Any) -> list[Place]:
        """The places in a result: a `Location`, a `LocationLink`, or a list of them.

        Others are left out, and so is what lies in git worktrees inside the project.
        """
        listed = found if isinstance(found, list) else [found]
        pairs = [pair for one in listed if (pair := _location(one)) is not None]
        if pairs:
            own = await asyncio.to_thread(self._copies.without, [path for path, _ in pairs])
            pairs = [(path, span) for path, span in pairs if path in own]
        return [place for path, span in pairs if (place := await self.at(path, span)) is not None]

    async def at(self, path: Path, span: Any) -> Place | None:
        """The place of a `Range` in a file; None if it is none."""
        lines = await self.lines(path)
        converted = span_from_server(span, lines, self._encoding)
        if converted is None:
            return None
        preview = None
        if lines is not None and converted.start.line <= len(lines):
            preview = clean_text(lines[converted.start.line - 1].strip()[:MAX_PREVIEW])
        return Place(path, self._workspace.workspace_path(path), converted, preview)

    async def lines(self, path: Path) -> Sequence[str] | None:
        """The lines of a file as it is on disk; None as for `Texts.lines`."""
        return await asyncio.to_thread(self.texts.lines, path)

    async def may_say(self, words: str, about: Iterable[Path]) -> bool:
        """As `Texts.may_say`."""
        return await asyncio.to_thread(self.texts.may_say, words, list(about))


def _location(found: Any) -> tuple[Path, Any] | None:
    if not isinstance(found, Mapping):
        return None
    path = document_uris.to_path(found.get("targetUri", found.get("uri")), Path)
    span = found.get("targetSelectionRange", found.get("range"))
    return None if path is None else (path, span)
