"""Reads from disk whether a client's cwd is usable and which project marks its ancestors have.

It collects facts and decides nothing: `routing/cwd.py` parses the text, and
`routing/matching.py` finds the workspace.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from lm_tools_bridge.machine.git_worktrees import worktrees_of_agents
from lm_tools_bridge.machine.marked_folder import marks_of
from lm_tools_bridge.machine.project_marks import WORKSPACE_FILE, Mark
from manager.configuration.budgets import MAX_HANGING_LOOKUPS
from manager.disk.disk_lookups import DEADLINE_S, DiskLookups, NoAnswer
from manager.disk.folder import Ancestor, CwdProblem, CwdProblemKind, FolderFacts, FolderIdentity

_Answer = TypeVar("_Answer")

_PROBLEM_OF_ERRNO: Final = {
    errno.ENOENT: CwdProblemKind.MISSING,
    errno.ELOOP: CwdProblemKind.MALFORMED,
    errno.EILSEQ: CwdProblemKind.MALFORMED,
    errno.EINVAL: CwdProblemKind.MALFORMED,
    errno.ENAMETOOLONG: CwdProblemKind.TOO_LONG,
}
_PROBLEM_OF_NO_ANSWER: Final = {
    NoAnswer.TIMED_OUT: CwdProblemKind.SILENT,
    NoAnswer.BUSY: CwdProblemKind.BUSY,
}


def examine(paths: Sequence[str]) -> FolderFacts | CwdProblem:
    """Read the facts about the first of these absolute paths that exists. Blocks as long as the disk does.

    Problems: `missing`, `not_a_directory` (with the file's folder), `unreadable` (cannot be listed or
    entered, or the disk fails), `malformed` (a loop of links, a name the disk refuses), `too_long`.
    """
    answer: FolderFacts | CwdProblem = CwdProblem(CwdProblemKind.MISSING)
    for path in paths:
        answer = _examine_one(path)
        if not (isinstance(answer, CwdProblem) and answer.kind is CwdProblemKind.MISSING):
            break
    return answer


def identify(path: str) -> FolderIdentity | None:
    """Return (device, inode) of the target of `path`, or None if unknown. Blocks as long as the disk does."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    # file systems without inode numbers report 0 for everything
    return (status.st_dev, status.st_ino) if status.st_ino else None


def identify_root(path: str) -> FolderIdentity | None:
    """Like `identify`, for the root of a workspace, whose real path is known.

    None also if a file or a link has replaced the folder, because nobody chose the target of that link.
    """
    try:
        in_place = Path(path).is_dir() and os.path.realpath(path) == path
    except (OSError, ValueError):
        return None
    return identify(path) if in_place else None


def _examine_one(path: str) -> FolderFacts | CwdProblem:
    try:
        # `Path` drops trailing slashes, so that `file/` is reported as a file
        real = Path(os.path.realpath(Path(path), strict=True))
        mode = real.stat().st_mode
        if stat.S_ISDIR(mode):
            return _facts(real, None)
        if stat.S_ISREG(mode) and real.name.endswith(WORKSPACE_FILE):
            return _facts(real.parent, real)
        return CwdProblem(CwdProblemKind.NOT_A_DIRECTORY, str(real.parent))
    except NotADirectoryError:
        return CwdProblem(CwdProblemKind.NOT_A_DIRECTORY, _folder_above(Path(path)))
    except OSError as error:
        kind = _PROBLEM_OF_ERRNO.get(error.errno or 0, CwdProblemKind.UNREADABLE)
        return CwdProblem(kind)
    except ValueError:  # NUL, or a character no file name of this system can hold
        return CwdProblem(CwdProblemKind.MALFORMED)


def _facts(folder: Path, workspace_file: Path | None) -> FolderFacts:
    with os.scandir(folder):  # raises if the folder cannot be listed
        pass
    (folder / os.pardir).stat()  # raises if the folder cannot be entered
    chain = tuple(_ancestor(path, marks_of(path)) for path in (folder, *folder.parents))
    if workspace_file is None:
        return FolderFacts(str(folder), chain)
    chain = (_ancestor(workspace_file, frozenset()), *chain)
    return FolderFacts(str(folder), chain, str(workspace_file))


def _ancestor(path: Path, marks: frozenset[Mark]) -> Ancestor:
    status = path.stat()
    return Ancestor(str(path), status.st_dev, status.st_ino, marks)


def _folder_above(path: Path) -> str | None:
    """The folder of the file that `path` uses as if it were a folder."""
    return next((os.path.realpath(step) for step in path.parents if step.is_dir()), None)


class FolderExaminer:
    """`examine` and its siblings for the event loop: in threads, with a deadline (`disk_lookups.py`)."""

    def __init__(self, *, deadline_s: float = DEADLINE_S, max_hanging: int = MAX_HANGING_LOOKUPS) -> None:
        self._lookups = DiskLookups(deadline_s=deadline_s, max_hanging=max_hanging)

    async def examine(self, paths: Sequence[str]) -> FolderFacts | CwdProblem:
        """Like `examine`. Problems besides: `no_answer` if the disk does not answer in time, `busy`."""
        folders = tuple(paths)
        facts = await self._lookups.run(("examine", folders), lambda: examine(folders))
        return CwdProblem(_PROBLEM_OF_NO_ANSWER[facts]) if isinstance(facts, NoAnswer) else facts

    async def identify(self, path: str) -> FolderIdentity | None:
        """Like `identify`; None also if the disk does not answer."""
        return await self._run("identify", identify, path)

    async def identify_root(self, path: str) -> FolderIdentity | None:
        """Like `identify_root`; None also if the disk does not answer."""
        return await self._run("identify_root", identify_root, path)

    async def real_path(self, path: str) -> str | None:
        """The path with its links resolved, existing or not; None if the disk does not answer."""
        return await self._run("real_path", os.path.realpath, path)

    async def worktrees_of_agents(self, path: str) -> tuple[str, ...]:
        """`git_worktrees.worktrees_of_agents`; none if the disk does not answer."""
        roots = await self._run("agents", lambda root: worktrees_of_agents(Path(root)), path)
        return tuple(map(str, roots or ()))

    async def _run(self, name: str, work: Callable[[str], _Answer], path: str) -> _Answer | None:
        outcome = await self._lookups.run((name, path), lambda: work(path))
        return None if isinstance(outcome, NoAnswer) else outcome
