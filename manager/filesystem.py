"""Reads from disk whether a client's cwd is usable and which project marks its ancestors have.

It collects facts and decides nothing: `routing/workspace/cwd.py` parses the text, and
`routing/workspace/matching.py` finds the workspace.

A hanging network mount blocks its thread for an unlimited time. So every examination runs in a daemon thread
of its own: one bad mount would fill a pool, and the pool's threads would delay the exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from manager.folder import Ancestor, CwdProblem, CwdProblemKind, FolderFacts, FolderIdentity, Mark

DEADLINE_S: Final = 2.0
MAX_THREADS: Final = 64

_Answer = TypeVar("_Answer")

_WORKSPACE_FILE: Final = ".code-workspace"
_FOLDER_MARKS: Final[dict[str, Mark]] = {
    ".lm-tools-bridge": "lm-tools-bridge",
    ".vscode": "vscode",
    ".git": "vcs",
    ".hg": "vcs",
    ".svn": "vcs",
    ".jj": "vcs",
}
_PROBLEM_OF_ERRNO: Final = {
    errno.ENOENT: CwdProblemKind.MISSING,
    errno.ELOOP: CwdProblemKind.MALFORMED,
    errno.EILSEQ: CwdProblemKind.MALFORMED,
    errno.EINVAL: CwdProblemKind.MALFORMED,
    errno.ENAMETOOLONG: CwdProblemKind.TOO_LONG,
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
        if stat.S_ISREG(mode) and real.name.endswith(_WORKSPACE_FILE):
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
    chain = tuple(_ancestor(path, _marks(path)) for path in (folder, *folder.parents))
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


def _marks(folder: Path) -> frozenset[Mark]:
    """The marks in a folder's listing; none for a folder above the cwd that cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(mark for entry in entries if (mark := _mark(entry)) is not None)
    except OSError:
        return frozenset()


def _mark(entry: os.DirEntry[str]) -> Mark | None:
    mark = _FOLDER_MARKS.get(entry.name)
    workspace_file = entry.name.endswith(_WORKSPACE_FILE)
    if mark is None and not workspace_file:
        return None
    with contextlib.suppress(OSError):  # a dangling link is no mark
        if mark is not None and entry.is_dir():
            return mark
        if entry.is_file():
            return "vcs" if entry.name == ".git" else "code-workspace" if workspace_file else None
    return None


class FolderExaminer:
    """Runs `examine` and `identify` for the event loop, with a deadline.

    Concurrent calls with the same arguments share one thread, so a client that retries on a hanging folder
    holds one thread. Belongs to one event loop; needs no closing.
    """

    def __init__(self, *, deadline_s: float = DEADLINE_S, max_threads: int = MAX_THREADS) -> None:
        self._deadline_s = deadline_s
        self._max_threads = max_threads
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    async def examine(self, paths: Sequence[str]) -> FolderFacts | CwdProblem:
        """Like `examine`; the problem `unreadable` if the disk does not answer in time."""
        wanted = tuple(paths)
        on_timeout = CwdProblem(CwdProblemKind.UNREADABLE)
        return await self._run(("examine", wanted), lambda: examine(wanted), on_timeout)

    async def identify(self, path: str) -> FolderIdentity | None:
        """Like `identify`; None also if the disk does not answer in time."""
        return await self._run(("identify", path), lambda: identify(path), None)

    async def identify_root(self, path: str) -> FolderIdentity | None:
        """Like `identify_root`; None also if the disk does not answer in time."""
        return await self._run(("identify_root", path), lambda: identify_root(path), None)

    async def real_path(self, path: str) -> str | None:
        """The path with its links resolved, existing or not; None if the disk does not answer in time."""
        return await self._run(("real_path", path), lambda: os.path.realpath(path), None)

    async def _run(self, key: Hashable, work: Callable[[], _Answer], on_timeout: _Answer) -> _Answer:
        future = self._running.get(key)
        if future is None:
            if len(self._running) >= self._max_threads:
                return on_timeout
            future = self._running[key] = _in_thread(work)
            future.add_done_callback(lambda _: self._running.pop(key, None))
        # `wait` does not cancel the future on a timeout or a cancellation: other callers may share it
        done, _ = await asyncio.wait((future,), timeout=self._deadline_s)
        if not done:
            return on_timeout
        answer: _Answer = future.result()
        return answer


def _in_thread(work: Callable[[], _Answer]) -> asyncio.Future[_Answer]:
    """Run `work` in its own daemon thread and return the future of its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Answer] = loop.create_future()

    def report(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())

    def run() -> None:
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001  raised to the callers, not in this thread
            fault = error
            report(lambda: future.set_exception(fault))
        else:
            report(lambda: future.set_result(answer))

    threading.Thread(target=run, name="folder", daemon=True).start()
    return future
