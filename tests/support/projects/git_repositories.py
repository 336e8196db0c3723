"""Makes repositories and worktrees with the real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

_QUIET: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")},
}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, without anybody's configuration; its output."""
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    environ = {"PATH": os.environ["PATH"], **_QUIET}
    return subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit of these files (`mod_py` is `mod.py`); its real path."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in (files or {"mod_py": "def f(): ...\n"}).items():
        (folder / name.replace("_", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder.resolve()


def worktree(main: Path, path: str = ".claude/worktrees/feat") -> Path:
    """A new worktree of a repository, at a path relative to it."""
    git(main, "worktree", "add", "-q", "--detach", path)
    return (main / path).resolve()
