"""Holds what the language tools of a workspace need, and the arguments that all of them understand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workspace_server.results import well_formed
from workspace_server.sources.language_servers.server import LanguageServers
from workspace_server.sources.language_servers.tools.schemas import DEFAULT_WAIT_S
from workspace_server.tool import ToolError
from workspace_server.workspace import PathNotFound, Workspace

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
    """

    workspace: Workspace
    servers: LanguageServers
    opened_at: float
    environment: Environment
    editor: AskEditor = no_editor

    def shown(self, path: Path) -> str:
        """The path as texts show it: `Folder/…`, or absolute outside the workspace."""
        return self.workspace.workspace_path(path) or well_formed(path.as_posix())

    def file(self, text: str) -> Path:
        """The real path of an existing file of the workspace. Blocks.

        Raises:
            InvalidArguments: the path cannot be served.
            ToolError: nothing is there.
        """
        try:
            return self.workspace.resolve_file(text)
        except PathNotFound as error:
            raise ToolError(
                f'Error reading file "{well_formed(text)}": {error.cause}', {"cause": error.cause}
            ) from None


def wait_s(arguments: Mapping[str, Any]) -> float:
    """How long a call may wait for servers that still read the project."""
    return float(arguments.get("waitS", DEFAULT_WAIT_S))
