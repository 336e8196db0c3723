"""Reads the search settings of an editor from the workspace's files.

Later sources win for each key: the editor's defaults, `*.code-workspace` in the root, the folder's
`.vscode/settings.json`. Conditional excludes (`{"when": …}`) are not supported and left out. Blocks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from workspace_server.workspace import Folder, Workspace

# Settings and ignore files that a person wrote have some kilobytes.
MAX_FILE_BYTES: Final = 1024 * 1024

DEFAULT_EXCLUDES: Final[Mapping[str, Mapping[str, bool]]] = {
    "files.exclude": dict.fromkeys(("**/.svn", "**/.hg", "**/.DS_Store", "**/Thumbs.db"), True),
    "search.exclude": dict.fromkeys(("**/node_modules", "**/bower_components"), True),
}

# an unclosed string matches up to the end of the text; otherwise the search for its end takes quadratic time
_STRING: Final = r'("(?:\\.|[^"\\])*+"?)'
_COMMENT: Final = re.compile(_STRING + r"|//[^\r\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)


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


def parse_jsonc(text: str) -> Any:
    """Parse JSON with `//` and `/* */` comments and trailing commas.

    Raises:
        ValueError: the text is invalid.
    """
    bare = _COMMENT.sub(lambda match: match[1] or " ", text.removeprefix("\ufeff"))
    bare = _TRAILING_COMMA.sub(lambda match: match[1] or "", bare)
    try:
        return msgspec.json.decode(bare)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def read_small_file(path: Path) -> str | None:
    """The text of a regular file of at most `MAX_FILE_BYTES`, else None. Does not block on a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                return None
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


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
        value = parse_jsonc(read_small_file(path) or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
