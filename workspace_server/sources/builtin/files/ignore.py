"""Decides what is visible in a folder: by names, exclude settings, ignore files and targets of links.

The rules of ignore files (`.gitignore` and its relatives) are ripgrep's:
`.rgignore` beats `.ignore` beats `.gitignore` beats `.git/info/exclude` beats the
user's global file. Within one kind the deepest file wins, within one file the last line. A `.gitignore`
does not reach into a nested repository; ignore files above the folder do not count. Reading blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.machine.git_worktrees import shared_repository
from workspace_server.sources.builtin.files.editor_settings import SearchRules, read_rules
from workspace_server.sources.builtin.files.entries import IGNORE_FILES
from workspace_server.sources.builtin.files.patterns import (
    MAX_LENGTH,
    BadGlob,
    PathFilter,
    exclude_filter,
    glob_regex,
)
from workspace_server.sources.builtin.files.segments import NameTest
from workspace_server.workspace import Folder, Workspace

EXCLUDE: Final = "info/exclude"
OF_REPOSITORY: Final = frozenset({".gitignore", EXCLUDE})
"""Files whose rules do not reach into a repository inside theirs."""
MAX_LINES: Final = 10_000
"""Number of lines that are read from one ignore file."""

_EXCLUDES_FILE: Final = re.compile(
    r"^\s*excludesfile\s*=\s*\"?\s*(\S+?)\s*\"?\s*$", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one ignore file, last line first: pattern, and True for ignore or False for `!`.

    No rule matches a path whose name is not in `names`.
    """

    rules: tuple[tuple[re.Pattern[str], bool], ...]
    any_rule: re.Pattern[str]
    names: NameTest

    @classmethod
    def of(cls, lines: Iterable[str]) -> IgnoreFile | None:
        """Parse `lines`; None if they contain no rule."""
        return _ignore_file(tuple(lines))

    def verdict(self, relative: str) -> bool | None:
        """Whether the path is ignored; None if no rule matches it. A directory ends with `/`.

        The directories above the path are not checked, because a walk never enters an ignored directory.
        """
        if not self.any_rule.fullmatch(relative):
            return None
        return next(ignores for regex, ignores in self.rules if regex.fullmatch(relative))


@dataclass(frozen=True, slots=True)
class IgnoreLevel:
    """The ignore files of one directory, linked to those above it.

    `base` is the directory relative to the folder, with a `/` at its end ("" for the folder itself);
    `files` are in the order of `IGNORE_FILES`, and then `info/exclude` of a repository inside the folder.
    """

    parent: IgnoreLevel | None
    base: str
    files: tuple[IgnoreFile | None, ...]
    repository: bool


def global_ignore_file(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """The file of git's `core.excludesFile`, or its default path; None if the file does not exist.

    The setting of the folder's repository counts more than that of the user, and that more than the system's.
    """
    shared = shared_repository(folder)
    home = environ.get("HOME") or environ.get("USERPROFILE")
    config_home = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    configs = [shared / "config"] if shared is not None else []
    configs += [Path(f"{home}/.gitconfig")] * bool(home)
    configs += [Path(f"{config_home}/git/config")] * bool(config_home)
    for config in (*configs, Path("/etc/gitconfig")):
        settings = _EXCLUDES_FILE.findall(regular_file.read_text(config))
        if settings:
            path = (
                settings[-1].replace("~", home, 1) if home and settings[-1].startswith("~/") else settings[-1]
            )
            return folder / path if (folder / path).is_file() else None
    default = Path(f"{config_home}/git/ignore")
    return default if config_home and default.is_file() else None


def extra_ignore_files(folder: Path, rules: SearchRules, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Ignore files that are not in the searched folders, lowest precedence first.

    These are the user's global file and `.git/info/exclude`, which all worktrees of a repository share.
    """
    files: list[Path] = []
    if rules.use_global_ignore_files and (shared := global_ignore_file(folder, environ)):
        files.append(shared)
    if rules.use_ignore_files and (exclude := exclude_file(folder)) and exclude.is_file():
        files.append(exclude)
    return tuple(files)


def exclude_file(root: Path) -> Path | None:
    """The path of `info/exclude` of the repository whose working tree is at `root`; None without one."""
    repository = shared_repository(root)
    return repository / EXCLUDE if repository else None


def read_ignore_file(path: Path) -> IgnoreFile | None:
    """Read one ignore file; invalid lines are skipped. None if it has no rules."""
    return IgnoreFile.of(islice(regular_file.read_text(path).splitlines(), MAX_LINES))


@lru_cache(maxsize=256)  # many packages of a tree have the same file
def _ignore_file(lines: tuple[str, ...]) -> IgnoreFile | None:
    rules = [rule for line in lines if (rule := _rule(line)) is not None]
    if not rules:
        return None
    combined = "|".join(f"(?:{regex.pattern})" for regex, _, _ in rules)
    names = NameTest.of(name for _, _, name in rules)
    return IgnoreFile(
        tuple((regex, ignores) for regex, ignores, _ in reversed(rules)), re.compile(combined), names
    )


@lru_cache(maxsize=2048)  # every search reads the files again, and most lines are unchanged
def _rule(line: str) -> tuple[re.Pattern[str], bool, str] | None:
    """A line as a pattern for paths, whether it ignores, and the glob of names; None if it is not a rule."""
    text = line if line.endswith("\\ ") else line.rstrip()
    if not text or text.startswith("#") or len(text) > MAX_LENGTH:
        return None
    body = text.removeprefix("!")
    only_directories = body.endswith("/")
    body = body.removesuffix("/")
    parts = body.removeprefix("/").split("/")
    if not body or not {".", ".."}.isdisjoint(parts):
        return None
    glob = "/".join(parts) if "/" in body else f"**/{body}"
    try:
        regex = glob_regex(glob, strict=True)
        return re.compile(regex + ("/" if only_directories else "/?")), not text.startswith("!"), parts[-1]
    except (BadGlob, re.error):
        return None


def enter(directory: Path, base: str, parent: IgnoreLevel | None, rules: SearchRules) -> IgnoreLevel | None:
    """The rules in a directory below `parent`; `parent` itself if the directory adds none."""
    if not rules.use_ignore_files:
        return None
    files = tuple(read_ignore_file(directory / name) for name in IGNORE_FILES)
    repository = (directory / ".git").exists()
    if repository and base and (exclude := exclude_file(directory)):
        files += (read_ignore_file(exclude),)
    if not repository and not any(files):
        return parent
    return IgnoreLevel(parent, base, files, repository)


def is_ignored(relative: str, level: IgnoreLevel | None, extra: tuple[IgnoreFile, ...]) -> bool:
    """Whether a path is ignored. It is relative to the folder; a directory ends with `/`.

    The directories above the path are not checked, because a walk never enters an ignored directory. `extra`
    are the rules of `extra_ignore_files`, in that order.
    """
    for kind, name in enumerate((*IGNORE_FILES, EXCLUDE)):
        current = level
        while current is not None:
            file = current.files[kind] if kind < len(current.files) else None
            verdict = file.verdict(relative[len(current.base) :]) if file else None
            if verdict is not None:
                return verdict
            if current.repository and name in OF_REPOSITORY:
                break
            current = current.parent
    for file in reversed(extra):
        verdict = file.verdict(relative)
        if verdict is not None:
            return verdict
    return False


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
