"""Tells the registered worktrees of git repositories from folders that only claim to be some. Blocks.

Anybody can write a file `.git` that names another's repository, and git believes it. So a worktree counts
only if the repository names it, too: `.git/worktrees/NAME/gitdir` holds the path of the worktree's `.git`.
All is read from files: git itself would run what a repository's configuration says.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.machine import regular_file

_MAX_BYTES: Final = 16 * 1024
"""A path has at most 4 KiB; a configuration says within its first lines whether it is bare."""
_POINTER: Final = "gitdir:"
_SECTION: Final = re.compile(r"\s*\[\s*(\w*)")
_AGENT: Final = re.compile(r"claude agent .*\(pid (?P<pid>[1-9][0-9]{0,9})\b", re.DOTALL)
"""What Claude Code 2.1 writes as the reason of the lock."""
_BARE: Final = re.compile(r"\s*bare\s*=\s*(?:true|yes|on|1)\s*", re.IGNORECASE)


class Worktree(NamedTuple):
    """A worktree beside the main one.

    Attributes:
        root: its real path.
        repository: the real path of the folder that all worktrees share: `.git` of the main one, or a bare
            repository.
    """

    root: Path
    repository: Path


def worktree_at(folder: Path) -> Worktree | None:
    """The worktree whose root the folder is, if its repository names it; None for any other folder."""
    try:
        entry = _entry_of(folder)
        if entry is None or entry.parent.name != "worktrees":
            return None
        root, repository = _real(folder), entry.parent.parent
        pointer = _target(entry, _text(entry / "gitdir"))
        shared = _target(entry, _text(entry / "commondir"))
        if pointer is None or pointer.name != ".git" or _real(pointer.parent) != root:
            return None
        return None if shared is None or _real(shared) != repository else Worktree(root, repository)
    except (OSError, ValueError):
        return None


def is_copy(folder: Path) -> bool:
    """Whether the folder is a registered worktree that lies inside another working tree of its repository.

    Everything in it is there twice. Worktrees beside or inside of a bare repository are no copies.
    """
    worktree = worktree_at(folder)
    return worktree is not None and any(
        is_tree_of(worktree.repository, above) for above in worktree.root.parents
    )


def git_folder(folder: Path) -> Path | None:
    """The folder in which git keeps the state of the working tree at this folder, such as its index.

    Raises:
        OSError, ValueError: it cannot be looked at.
    """
    git = folder / ".git"
    return _real(git) if git.is_dir() else _entry_of(folder)


def copies_in(root: Path) -> Iterator[Path]:
    """The registered worktrees below the root of a working tree that are copies of it, by name.

    Those of other repositories below the root are not among them.
    """
    try:
        entry = git_folder(root)
        if entry is None:
            return
        worktree = worktree_at(root)
        repository = entry if worktree is None else worktree.repository
        entries = sorted((repository / "worktrees").iterdir())
    except (OSError, ValueError):
        return
    for place in entries:
        pointer = _target(place, _text(place / "gitdir"))
        if pointer is not None and root in _real(pointer.parent).parents and is_copy(pointer.parent):
            yield _real(pointer.parent)


def is_tree_of(repository: Path, folder: Path) -> bool:
    """Whether the folder is the root of a working tree of this repository: the main one or another."""
    try:
        entry = git_folder(folder)
    except (OSError, ValueError):
        return False
    if entry == repository:  # by a file: a submodule, or a repository in a folder of its own
        return not _is_bare(repository)
    worktree = None if entry is None else worktree_at(folder)
    return worktree is not None and worktree.repository == repository


def are_siblings(folder: Path, other: Path) -> bool:
    """Whether two different folders are the roots of working trees of one repository."""
    worktree = worktree_at(folder)
    if worktree is not None and _real(other) != worktree.root:
        return is_tree_of(worktree.repository, other)
    worktree = worktree_at(other)
    return worktree is not None and worktree.root != _real(folder) and is_tree_of(worktree.repository, folder)


_MAX_TREES: Final = 200
"""Working trees of one repository that are looked at, at some 0.1 ms each; tools keep 15 to 20 of them."""


def proven_repository(folder: Path) -> Path | None:
    """The repository of which a folder certainly is a working tree, to base trust on; else None.

    Either its `.git` is a folder of its own, or it is a worktree that the repository names, too. All of it
    must belong to this user, and nobody else may register worktrees. A file `.git` that leads to a repository
    itself, as those of submodules do, proves nothing.
    """
    try:
        git = folder / ".git"
        if stat.S_ISDIR(git.lstat().st_mode):
            repository = _real(git)
            return repository if _are_private(folder, git, repository / "worktrees") else None
        worktree, entry = worktree_at(folder), _entry_of(folder)
        if worktree is None or entry is None:
            return None
        repository = worktree.repository
        files = (folder, git, repository, entry.parent, entry, entry / "gitdir", entry / "commondir")
        return repository if _are_private(*files) else None
    except (OSError, ValueError):
        return None


def proven_trees(repository: Path) -> Iterator[Path]:
    """The real paths of the working trees that certainly belong to a repository, the main one first."""
    places = [repository.parent] if repository.name == ".git" else []
    with suppress(OSError, ValueError):
        for entry in sorted((repository / "worktrees").iterdir())[:_MAX_TREES]:
            pointer = _target(entry, _text(entry / "gitdir"))
            places += [] if pointer is None else [pointer.parent]
    for place in places:
        if proven_repository(place) == repository:
            yield _real(place)


def other_trees(folder: Path) -> list[str]:
    """The real paths of the other proven working trees of a folder's repository, the main one first."""
    repository = proven_repository(folder)
    trees = () if repository is None else proven_trees(repository)
    return [str(tree) for tree in trees if tree != _real(folder)]


def _are_private(*paths: Path) -> bool:
    """Whether all of these that exist belong to this user, and not everybody may write to them."""
    if sys.platform == "win32":  # protected by the access control list of the profile
        return True
    for path in paths:
        with suppress(FileNotFoundError):
            status = path.stat()
            if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
                return False
    return True


def worktrees_of_agents(folder: Path) -> tuple[Path, ...]:
    """The other worktrees of the repository around a folder in which a sub-agent works now, by name.

    Claude Code locks the worktree of a sub-agent, with its own process id in the reason, and unlocks it at
    the end. A lock of a process that has ended does not count.
    """
    top = next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)
    try:
        entry = git_folder(top)
        if entry is None:
            return ()
        repository = entry.parent.parent if entry.parent.name == "worktrees" else entry
        places = sorted((repository / "worktrees").iterdir())
    except (OSError, ValueError):
        return ()
    pointers = (_target(place, _text(place / "gitdir")) for place in places if _is_agents(place))
    roots = (_real(each.parent) for each in pointers if each is not None)
    return tuple(root for root in roots if root != _real(top) and worktree_at(root) is not None)


def _is_agents(place: Path) -> bool:
    claim = _AGENT.match(_text(place / "locked"))
    return claim is not None and _is_alive(int(claim["pid"]))


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        import psutil

        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def shared_repository(folder: Path) -> Path | None:
    """The folder with the configuration and `info/exclude` of the repository whose working tree a folder is.

    For a worktree it is that of the main one, for a submodule its own. None if the folder is no such root.
    Who wrote the file `.git` is not asked: this is good for what hides files, never for what opens them.
    """
    try:
        git = folder / ".git"
        entry = _real(git) if git.is_dir() else _entry_of(folder)
        if entry is None:
            return None
        return _real(_target(entry, _text(entry / "commondir")) or entry)
    except (OSError, ValueError):
        return None


def witnesses(folder: Path) -> Iterator[Path]:
    """The files that show whether what is known of a folder with a file `.git` still holds."""
    yield folder / ".git"
    with suppress(OSError, ValueError):
        entry = _entry_of(folder)
        if entry is not None:
            yield entry / "gitdir"


def _entry_of(folder: Path) -> Path | None:
    """The real path of the folder that the file `.git` names; None if there is no such file."""
    git = folder / ".git"
    if not stat.S_ISREG(git.lstat().st_mode):
        return None
    text = _text(git)
    pointer = _target(folder, text[len(_POINTER) :]) if text.startswith(_POINTER) else None
    return None if pointer is None else _real(pointer)


def _target(folder: Path, text: str) -> Path | None:
    """The path in a file of git, which may be relative."""
    path = text.strip()
    return folder / path if path else None


def _is_bare(repository: Path) -> bool:
    """Whether the repository has no main working tree."""
    for name in ("config", "config.worktree"):
        section = ""
        for line in _text(repository / name).splitlines():
            if (start := _SECTION.match(line)) is not None:
                section = start[1].lower()
            elif section == "core" and _BARE.fullmatch(line):
                return True
    return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _text(path: Path) -> str:
    """The beginning of a file, as far as it can be read; does not wait for a pipe."""
    try:
        with regular_file.open_file(path) as descriptor:
            return os.fsdecode(os.read(descriptor, _MAX_BYTES))
    except OSError:
        return ""
