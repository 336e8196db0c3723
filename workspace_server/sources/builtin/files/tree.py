"""Decides what is visible in a folder: by names, exclude settings, ignore files, targets of links. Blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workspace_server.sources.builtin.files.editor_settings import SearchRules, read_rules
from workspace_server.sources.builtin.files.ignore import (
    IgnoreFile,
    IgnoreLevel,
    enter,
    extra_ignore_files,
    is_ignored,
    read_ignore_file,
)
from workspace_server.sources.builtin.files.patterns import PathFilter, exclude_filter
from workspace_server.workspace import Folder, Workspace

NEVER_SEARCHED: Final = ".git"


@dataclass(frozen=True, slots=True)
class Tree:
    """One folder with everything that decides what is visible in it."""

    workspace: Workspace
    folder: Folder
    rules: SearchRules
    excludes: PathFilter
    extra_files: tuple[Path, ...]
    extra: tuple[IgnoreFile, ...]

    @classmethod
    def open(
        cls,
        workspace: Workspace,
        folder: Folder,
        environ: Mapping[str, str],
        *,
        include_ignored: bool = False,
    ) -> Tree:
        """Read the current rules of a folder. `environ` locates the user's git configuration."""
        rules = read_rules(workspace, folder, include_ignored=include_ignored)
        files = extra_ignore_files(folder.path, rules, environ)
        extra = tuple(file for file in map(read_ignore_file, files) if file is not None)
        return cls(workspace, folder, rules, exclude_filter(rules.excludes), files, extra)

    def level_of(self, relative: str) -> IgnoreLevel | None:
        """The ignore rules inside the directory `relative` ("" is the folder)."""
        level = enter(self.folder.path, "", None, self.rules)
        base, path = "", self.folder.path
        for part in relative.split("/") if relative else ():
            base, path = f"{base}{part}/", path / part
            level = enter(path, base, level, self.rules)
        return level

    def hides(self, relative: str, level: IgnoreLevel | None, *, directory: bool) -> bool:
        """Whether an entry is left out because of its name, an exclude setting or an ignore file."""
        if relative.rsplit("/", 1)[-1] == NEVER_SEARCHED:
            return True
        if self.excludes.globs and self.excludes(relative):
            return True
        return is_ignored(f"{relative}/" if directory else relative, level, self.extra)

    def may_follow(self, real: Path) -> bool:
        """Whether a link that leads to this real path may be followed."""
        return self.workspace.contains(real) and NEVER_SEARCHED not in real.parts
