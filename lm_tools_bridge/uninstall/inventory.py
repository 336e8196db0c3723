"""Lists what this program made for one user, in groups that can be removed separately."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.own_distribution import LANGUAGE_SERVERS, data_folder
from lm_tools_bridge.machine.own_process import own_uid
from manager.cli.completion import SHELLS, places
from manager.cli.service.facts import is_in_cache
from manager.configuration.paths import Paths

# Names, not whole folders: an override may have put them into a folder that has other files, too.
_STATE: Final = (
    "state.sqlite3*",
    "calls.sqlite3*",
    "approvals",
    "definitions",
    "lists",
    "tasks",
    "trust",
    "locks",
    "tokens.json*",
    "workspace.toml.last-good*",
)
_UNDO: Final = "client-files"
_RUNTIME: Final = ("manager.lock", "own-token", "control.sock", "internal", "run", "unsaved-state*")
_PROGRAM: Final = "lm-tools-bridge"
_WORKSPACE: Final = r"[a-z0-9-]+-[0-9a-f]{12}"
_OUTSIDE: Final = re.compile(r"(?:\.lmtb|lmtb-\d+|lm-tools-bridge-\d+)-(?:[0-9a-f]{12}|[0-9a-f]{16})")
"""Folders for sockets whose path would be too long elsewhere."""
_SOCKETS: Final = r"[^/]+\.sock"
_CONTENTS: Final = {
    name: re.compile(rf"(?:{pattern}|(?:.*/)?\.[^/]+\.[0-9a-f]{{12}})")  # also what was never renamed
    for name, pattern in {
        "approvals": rf"(?:{_WORKSPACE}/)?(?:key|lock|spent/\d+-[0-9a-f]+)",
        "definitions": r"[0-9a-f]{16,64}[^/]*\.json",
        "client-files": r"lock|[a-z0-9-]+\.json",
        "internal": rf"{_SOCKETS}|[^/]+\.json|\.?lock",
        "lists": rf"[0-9a-f]{{16,64}}[^/]*\.json|{_WORKSPACE}\.shown",
        "locks": r"[^/]+\.lock",
        "logs": rf"(?:manager|template|agent-audit|agent-debug|{_WORKSPACE})(?:\.old)?\.log(?:\.\d+)?",
        "run": r"[0-9a-f]{12}/.*",
        "secrets": r"secrets\.[a-z.]+",
        "tasks": rf"{_WORKSPACE}/(?:[0-9a-f]{{32}}\.(?:task|body)|lock)",
        "trust": r"[0-9a-f]{32}\.json|lock",
    }.items()
}
"""The files that we make in a folder. Somebody else may have a folder of this name in the same place."""


@dataclass(frozen=True, slots=True)
class Group:
    """Files and folders that are removed together.

    Attributes:
        name: one word, for people.
        meaning: what is lost with it.
        entries: existing files and folders.
        folders: folders of them that are removed, too, if they are empty then.
        is_secret: whether it is removed only after a question of its own.
        is_whole: whether everything in its folders is ours, whatever its name.
    """

    name: str
    meaning: str
    entries: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    is_secret: bool = False
    is_whole: bool = False


def groups(paths: Paths, home: Path, *, keeps_undo: bool = False) -> list[Group]:
    """The groups that have at least one entry.

    Args:
        paths: the folders of this program.
        home: the user's home folder.
        keeps_undo: whether the undo data of clients' files is left out, because something needs it.
    """
    state, runtime = paths.state_dir, paths.runtime_dir
    sockets = [
        paths.control_socket.parent,
        *(folder for folder in home.glob(".lmtb-*") if _OUTSIDE.fullmatch(folder.name)),
    ]
    outside = [
        folder
        for folder in sockets
        if folder != runtime and _is_own_folder(folder) and (_is_removed(folder) or _is_empty(folder))
    ]
    running = [folder for folder in (runtime, *paths.former_dirs) if _is_own_folder(folder)]
    every = [
        Group("logs", "log files", _existing(state, ["logs"]), (state,)),
        Group(
            "state",
            "known projects, sessions, trust, results of tasks, undo of client files",
            _existing(state, _STATE if keeps_undo else (*_STATE, _UNDO)),
            (state,),
        ),
        Group(
            "sockets",
            "lock and sockets of running programs",
            (*(path for folder in running for path in _existing(folder, _RUNTIME)), *dict.fromkeys(outside)),
            (*running, state),
        ),
        Group(
            "caches", "downloads of script tools, and of servers in a sandbox", _caches(home), is_whole=True
        ),
        Group("servers", "language servers that it installed", _language_servers(home), is_whole=True),
        Group("completion", "completion scripts of shells", tuple(_completion(home))),
        Group("secrets", "stored tokens and logins", _existing(state, ["secrets"]), (state,), is_secret=True),
    ]
    return [group for group in every if group.entries]


def remains(paths: Paths) -> Iterator[str]:
    """What is left after everything was removed, and how to remove it."""
    if paths.config_dir.is_dir():
        yield f"your settings and tools: {paths.config_dir}"
    yield "folders .lm-tools-bridge in your projects, and entries of this server in their files"
    yield f"this program; to remove it: {removal_command(Path(sys.prefix))}"


def removal_command(prefix: Path) -> str:
    """The command that removes the program from the environment it runs in."""
    if (prefix / "uv-receipt.toml").exists():
        return f"uv tool uninstall {_PROGRAM}"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx uninstall {_PROGRAM}"
    if is_in_cache(prefix):
        return "uv cache prune"
    return f"{sys.executable} -I -m pip uninstall {_PROGRAM}"


def _completion(home: Path) -> Iterator[Path]:
    for shell in SHELLS:
        yield from (path for path in places(shell, os.environ, home) if path.is_file())


def _caches(home: Path) -> tuple[Path, ...]:
    folders = (home / ".cache" / _PROGRAM / kind for kind in ("scripts", "servers"))
    return tuple(folder for folder in folders if _is_own_folder(folder))


def _language_servers(home: Path) -> tuple[Path, ...]:
    folder = data_folder(home) / LANGUAGE_SERVERS
    return (folder,) if _is_own_folder(folder) else ()


def _existing(folder: Path, patterns: Iterable[str]) -> tuple[Path, ...]:
    paths = (path for pattern in patterns for path in sorted(folder.glob(pattern)))
    return tuple(path for path in paths if _is_removed(path) or _is_empty(path))


def own_files(entry: Path) -> Iterator[Path]:
    """What of an entry is ours: itself, or of a folder the files that we make in it."""
    pattern = re.compile(_SOCKETS) if _OUTSIDE.fullmatch(entry.name) else _CONTENTS.get(entry.name)
    if entry.is_symlink() or not entry.is_dir():
        yield entry
    elif pattern is not None:
        for folder, _, names in os.walk(entry):  # follows no link
            files = (Path(folder, name) for name in names)
            yield from (file for file in files if pattern.fullmatch(file.relative_to(entry).as_posix()))


def _is_removed(entry: Path) -> bool:
    """Whether something of an entry is ours."""
    return next(own_files(entry), None) is not None


def _is_empty(entry: Path) -> bool:
    return not any(files for _, _, files in os.walk(entry))


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == own_uid()
