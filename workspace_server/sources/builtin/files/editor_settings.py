"""Reads the search settings of an editor from the workspace's files.

Later sources win for each key: the editor's defaults, `*.code-workspace` in the root, the folder's
`.vscode/settings.json`. Conditional excludes (`{"when": …}`) are not supported and left out. Blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import regular_file
from workspace_server.config.formats.jsonc import ConfigFileError, parse_object
from workspace_server.workspace import Folder, Workspace

DEFAULT_EXCLUDES: Final[Mapping[str, Mapping[str, bool]]] = {
    "files.exclude": dict.fromkeys(("**/.svn", "**/.hg", "**/.DS_Store", "**/Thumbs.db"), True),
    "search.exclude": dict.fromkeys(("**/node_modules", "**/bower_components"), True),
}


@dataclass(frozen=True, slots=True)
class SearchRules:
    """What a search leaves out: exclude globs, and whether ignore files apply and links are followed."""

    excludes: tuple[str, ...] = ()
    use_ignore_files: bool = True
    use_global_ignore_files: bool = True
    follow_symlinks: bool = True


def read_rules(workspace: Workspace, folder: Folder, *, include_ignored: bool = False) -> SearchRules:
    """Read the rules of one folder. With `include_ignored` only the setting for links applies."""
    merged: dict[str, Any] = {}
    excludes: dict[str, dict[str, Any]] = {key: dict(value) for key, value in DEFAULT_EXCLUDES.items()}
    for settings in _layers(workspace, folder):
        merged.update(settings)
        for key, globs_of_key in excludes.items():
            value = settings.get(key)
            globs_of_key.update(value if isinstance(value, dict) else {})

    def flag(name: str) -> bool:
        return merged.get(f"search.{name}", True) is not False

    globs = tuple(
        glob for globs_of_key in excludes.values() for glob, value in globs_of_key.items() if value is True
    )
    use_ignore = flag("useIgnoreFiles") and not include_ignored
    return SearchRules(
        excludes=() if include_ignored else globs,
        use_ignore_files=use_ignore,
        use_global_ignore_files=use_ignore and flag("useGlobalIgnoreFiles"),
        follow_symlinks=flag("followSymlinks"),
    )


def _layers(workspace: Workspace, folder: Folder) -> Iterator[Mapping[str, Any]]:
    try:
        projects = sorted(workspace.root.glob("*.code-workspace"))
    except OSError:
        projects = []
    for project in projects:
        settings = _object(workspace, project).get("settings")
        if isinstance(settings, dict):
            yield settings
    yield _object(workspace, folder.path / ".vscode" / "settings.json")


def _object(workspace: Workspace, path: Path) -> dict[str, Any]:
    """The object in a settings file; empty if the file is missing, invalid or outside the workspace."""
    if not workspace.contains(Path(os.path.realpath(path))):
        return {}
    try:
        return parse_object(regular_file.read_text(path).encode())
    except ConfigFileError:
        return {}
