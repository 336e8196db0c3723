"""Lists what this program made for one user, in groups that can be removed separately."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from manager.cli.completion.scripts import SHELLS, places
from manager.cli.service.facts import is_in_cache
from manager.configuration.paths import Paths

# Names, not whole folders: an override may have put them into a folder that has other files, too.
_STATE: Final = (
    "state.sqlite3*",
    "calls.sqlite3*",
    "approvals",
    "client-files",
    "lists",
    "tasks",
    "trust",
    "locks",
    "tokens.json*",
    "workspace.toml.last-good*",
)
_RUNTIME: Final = ("manager.lock", "own-token", "control.sock", "internal", "run", "unsaved-state*")
_PROGRAM: Final = "lm-tools-bridge"


@dataclass(frozen=True, slots=True)
class Group:
    """Files and folders that are removed together.

    Attributes:
        name: one word, for people.
        meaning: what is lost with it.
        entries: existing files and folders.
        folders: folders of them that are removed, too, if they are empty then.
        is_secret: whether it is removed only after a question of its own.
    """

    name: str
    meaning: str
    entries: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    is_secret: bool = False


def groups(paths: Paths, home: Path) -> list[Group]:
    """The groups that have at least one entry."""
    state, runtime = paths.state_dir, paths.runtime_dir
    sockets = [paths.control_socket.parent, *home.glob(".lmtb-*")]
    outside = [one for one in sockets if one != runtime and _is_own_folder(one)]
    running = [folder for folder in (runtime, *paths.former_dirs) if _is_own_folder(folder)]
    every = [
        Group("logs", "log files", _existing(state, ["logs"]), (state,)),
        Group(
            "state",
            "known projects, sessions, trust, results of tasks, undo of client files",
            _existing(state, _STATE),
            (state,),
        ),
        Group(
            "sockets",
            "lock and sockets of running programs",
            (*(path for folder in running for path in _existing(folder, _RUNTIME)), *dict.fromkeys(outside)),
            (*running, state),
        ),
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
    return f"{sys.executable} -m pip uninstall {_PROGRAM}"


def _completion(home: Path) -> Iterator[Path]:
    for shell in SHELLS:
        yield from (path for path in places(shell, os.environ, home) if path.is_file())


def _existing(folder: Path, patterns: Iterable[str]) -> tuple[Path, ...]:
    return tuple(path for pattern in patterns for path in sorted(folder.glob(pattern)))


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()
