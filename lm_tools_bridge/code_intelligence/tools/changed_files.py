"""Finds the files that changed since the last commit, or since the workspace was opened.

Git runs with the project's configuration, which could name programs. Everything by which `git status` would
start one is switched off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from workspace_server.sources.builtin.search.engine import Where, find_files
from workspace_server.sources.builtin.search.process import Exit, find_program, run
from workspace_server.sources.builtin.search.query import EngineUnavailable, SearchSettings
from workspace_server.tool import InvalidArguments, ToolError
from workspace_server.workspace import Folder, Workspace

Since = Literal["head", "session"]
MAX_FILES: Final = 2000
"""Changed files of one call: more are no edits of a session, but a checkout of another branch."""
MAX_OUTPUT: Final = 16 * 1024 * 1024
"""Bytes of git's output: the names of some 200,000 files."""
MAX_SEEN: Final = 200_000
"""Files whose times are compared: as many as a look at a project lists."""
DEADLINE_S: Final = 20.0
"""git answers within a second or two in large repositories; on a disk that hangs it never does."""
_POINTER: Final = "/changedSince"
_OFF: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "submodule.recurse": "false",
}

_VARIABLES: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Existing files that changed, by path; `partial` if there were too many to name."""

    paths: tuple[Path, ...]
    partial: bool


async def changed_files(
    workspace: Workspace, since: Since, opened_at: float, environ: Mapping[str, str]
) -> ChangedFiles:
    """The files of a workspace that changed.

    Args:
        workspace: whose files.
        since: `head`: other than in the last commit, new files included; `session`: written since then.
        opened_at: the beginning of the session, in seconds since 1970.
        environ: variables for programs.

    Raises:
        InvalidArguments: the project has no commits to compare with.
        ToolError: git failed.
    """
    changed: set[Path] = set()
    if since == "session":
        files = await find_files(workspace, Where("", _POINTER), MAX_SEEN, SearchSettings(environ=environ))
        newer = await asyncio.to_thread(lambda: [path for path in files.items if _is_newer(path, opened_at)])
        return _bounded(set(newer), partial=files.capped)
    for folder in workspace.folders:
        changed.update(await _since_head(workspace, folder, environ))
    return _bounded(changed, partial=False)


def _bounded(files: set[Path], *, partial: bool) -> ChangedFiles:
    paths = sorted(files)
    return ChangedFiles(tuple(paths[:MAX_FILES]), partial or len(paths) > MAX_FILES)


def _is_newer(path: Path, moment: float) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return max(status.st_mtime, status.st_ctime) >= moment


async def _since_head(workspace: Workspace, folder: Folder, environ: Mapping[str, str]) -> list[Path]:
    program = await asyncio.to_thread(find_program, "git", workspace, environ)
    if program is None:
        raise ToolError("git is not installed, so nothing is known about the last commit")
    git = _Git(program, folder, environ)
    no_commits = InvalidArguments(_POINTER, f"{folder.name} has no git commit to compare with; use `session`")
    top, exit_ = await git.run({}, "rev-parse", "--show-toplevel")
    if exit_.code != 0:
        raise no_commits
    _, exit_ = await git.run({}, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if exit_.code != 0:
        raise no_commits
    filters = await _filters(git)
    output, exit_ = await git.run(
        filters,
        *("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"),
        *("--ignore-submodules=all", "--", "."),
    )
    if exit_.code != 0:
        raise ToolError(f"git cannot say what changed in {folder.name}: {exit_.stderr.strip()[:300]}")
    base = Path(os.fsdecode(top.rstrip(b"\n")))
    return await asyncio.to_thread(lambda: list(_existing(folder, base, output)))


def _existing(folder: Folder, base: Path, output: bytes) -> Iterator[Path]:
    for entry in output.split(b"\0"):
        path = base / os.fsdecode(entry[3:])
        real = Path(os.path.realpath(path))
        if entry and real.is_relative_to(folder.path) and real.is_file():
            yield real


async def _filters(git: _Git) -> Mapping[str, str]:
    """Settings that switch off the programs through which git would read files (`filter.<name>.clean`)."""
    output, exit_ = await git.run(
        {}, "config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$"
    )
    if exit_.code not in (0, 1):  # 1: there are none
        raise ToolError(f"git cannot read the configuration of {git.folder.name}")
    names = {os.fsdecode(name) for name in output.split(b"\0") if name}
    return {name: "false" if name.endswith(".required") else "" for name in names}


@dataclass(frozen=True, slots=True)
class _Git:
    program: str
    folder: Folder
    environ: Mapping[str, str]

    async def run(self, settings: Mapping[str, str], *arguments: str) -> tuple[bytes, Exit]:
        """The output of one command, which runs with these settings on top of all others."""
        output, all_settings = bytearray(), {**_OFF, **settings}
        variables = {
            **self.environ,
            **_VARIABLES,
            "GIT_CONFIG_COUNT": str(len(all_settings)),
            **{f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(all_settings)},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(all_settings.values())},
        }
        command = (self.program, *arguments)
        try:
            async with asyncio.timeout(DEADLINE_S):
                ended = await run(command, self.folder.path, _collect(output), environ=variables)
        except EngineUnavailable as error:
            raise ToolError(f"git cannot be started: {error}") from None
        except TimeoutError:
            raise ToolError(f"git did not answer within {DEADLINE_S:g} s") from None
        return bytes(output), ended


def _collect(output: bytearray) -> Callable[[bytes], bool]:
    def consume(chunk: bytes) -> bool:
        output.extend(chunk)
        return len(output) <= MAX_OUTPUT

    return consume
