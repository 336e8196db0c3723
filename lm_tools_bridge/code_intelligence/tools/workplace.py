"""Holds what the language tools of a workspace need, and the arguments that all of them understand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lm_tools_bridge.code_intelligence.library_folders import LanguageFiles
from lm_tools_bridge.code_intelligence.server import LanguageServers
from lm_tools_bridge.code_intelligence.tools.schemas import DEFAULT_WAIT_S, MAX_WAIT_S
from workspace_server.files.project_copies import ProjectCopies
from workspace_server.files.single_flight import LocalFiles
from workspace_server.results import well_formed
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.tool import InvalidArguments, ToolError
from workspace_server.workspace import POINTER, PathNotFound, Workspace, absolute_text, elsewhere

if TYPE_CHECKING:
    from lm_tools_bridge.code_intelligence.tools.texts import Texts

MAX_KNOWN: Final = 1_000
"""Names that are remembered: the files that a session works with, not all of a project."""
FEW: Final = 20
"""So many files are read at once where that cannot hang: it takes less time than to switch to a thread."""
_T = TypeVar("_T")
Environment = Callable[[], Awaitable[Mapping[str, str]]]
"""The variables for programs that a tool starts."""
Problems = Mapping[Path, Sequence[Mapping[str, Any]]]
"""LSP diagnostics with UTF-16 positions, by real path; only files that have some."""
AskEditor = Callable[[Sequence[Path] | None], Awaitable[Problems | None]]
"""The problems of these files, or of the project; None without an editor, or without an answer."""


async def no_editor(_: Sequence[Path] | None) -> Problems | None:
    """The editor of a workspace that has none."""
    return None


@dataclass(frozen=True, slots=True)
class Workplace:
    """One workspace as the language tools see it.

    Attributes:
        workspace: its folders.
        servers: its language servers.
        opened_at: when its server started, in seconds since 1970.
        environment: see `Environment`.
        editor: asks the editor that has the project open for its problems.
        searches: what its searches share.
        compares_words: whether answers are compared with the words in the project's files.
        disk: runs short file operations.
        undoable: what the last rename changed (`editing/effects.py`); empty if it cannot be taken back.
    """

    workspace: Workspace
    servers: LanguageServers
    opened_at: float
    environment: Environment
    editor: AskEditor = no_editor
    searches: KeptSearches = field(default_factory=KeptSearches)
    compares_words: bool = True
    undoable: list[Any] = field(init=False, compare=False, default_factory=list)
    disk: LocalFiles = field(init=False, compare=False)
    _files: LanguageFiles = field(init=False, compare=False)
    _names: dict[str, tuple[str, str | None]] = field(init=False, compare=False, default_factory=dict)
    _known_texts: set[str] = field(init=False, compare=False, default_factory=set)

    def __post_init__(self) -> None:
        """Files of the workspace are read at once where they are on local disks."""
        folders = [folder.path for folder in self.workspace.folders]
        object.__setattr__(self, "disk", LocalFiles(folders))
        object.__setattr__(self, "_files", LanguageFiles(folders, self.servers, self.environment))

    async def texts(self) -> Texts:
        """The text of files that one call may show."""
        from lm_tools_bridge.code_intelligence.tools.texts import Texts  # noqa: PLC0415  for calls only

        return Texts(await self._files.gate(), self.servers.links_out)

    def shown_path(self, path: Path) -> str:
        """The path as texts show it: `Folder/…`, or absolute outside the workspace."""
        absolute, in_workspace = self.names(path)
        return in_workspace or absolute

    def names(self, path: Path) -> tuple[str, str | None]:
        """The path as results carry it: absolute, and as `Folder/…` in the workspace."""
        text = str(path)
        names = self._names.get(text)
        if names is None:
            if len(self._names) >= MAX_KNOWN:
                self._names.clear()
            names = self._names[text] = absolute_text(path), self.workspace.workspace_path(path)
        return names

    def copies(self) -> ProjectCopies:
        """The git worktrees inside the project, for one call."""
        return ProjectCopies([folder.path for folder in self.workspace.folders])

    async def own(self, paths: Iterable[Path]) -> Set[Path]:
        """Those paths that lie in no git worktree inside the project."""
        each = list(dict.fromkeys(paths))
        return await self.run(each, lambda: self.copies().without(each))

    def file(self, text: str) -> Path:
        """The real path of an existing file of the workspace. Blocks.

        Raises:
            InvalidArguments: the path cannot be served, or lies in a git worktree inside the project: servers
                would answer from the main tree's point of view.
            ToolError: nothing is there.
        """
        try:
            path = self.workspace.resolve_file(text)
            copy = self.copies().around(path)
            if copy is not None:
                raise InvalidArguments(POINTER, in_copy(self.workspace, copy))
            return path
        except PathNotFound as error:
            raise ToolError(
                f'Error reading file "{well_formed(text)}": {error.cause}', {"cause": error.cause}
            ) from None

    async def run(self, paths: Sequence[Path], function: Callable[[], _T]) -> _T:
        """The result of a function that reads these files: at once if they are few, and that cannot hang."""
        if len(paths) <= FEW:
            return await self.disk.run(paths, function)
        return await asyncio.to_thread(function)

    async def find_file(self, text: str) -> Path:
        """As `file`, without blocking."""
        if text in self._known_texts:
            return await self.disk.run((), self.file, text)
        path = await asyncio.to_thread(self.file, text)
        # what leads over links may lead to another disk the next time
        if str(path).endswith(text) and len(self._known_texts) < MAX_KNOWN:
            self._known_texts.add(text)
        return path


def in_copy(workspace: Workspace, copy: Path) -> str:
    """Why a language server of the workspace must not answer about a file in a git worktree inside it."""
    other = elsewhere(copy, "a git worktree with its own language servers")
    return f"not a file of {absolute_text(workspace.root)}: it lies in {other}"


def wait_s(arguments: Mapping[str, Any]) -> float:
    """How long a call may wait for servers that still read the project."""
    return min(max(0.0, float(arguments.get("waitS", DEFAULT_WAIT_S))), MAX_WAIT_S)
