"""Lists files that git tracks although its rules ignore them: searches leave them out, compilers do not."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tools.project_files import MAX_LISTED
from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.machine.git_worktrees import git_folder
from workspace_server.sources.builtin.search.engine import Where, find_files
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.workspace import Workspace

MAX_INDEX: Final = 16 * 1024 * 1024
"""Bytes of git's index that are read: those of some 150,000 files, which takes 0.2 s."""
MAX_FILES: Final = 200
"""Files that are tracked and ignored; a project that has more ignores them by mistake."""
MAX_NAMES: Final = 64 * 1024 * 1024
"""Bytes of all names: version 4 writes only what differs from the name before, and so grows when read."""
_HEAD: Final = 12
"""Bytes before the first entry, by git's format: a signature, the version, and the number of entries."""
_ENTRY: Final = 62
"""Bytes of an entry before its name, with a hash of 20 bytes."""
_EXTENDED: Final = 0x4000
"""The flag of an entry that has two more bytes of flags, because git's format says so."""


async def find_ignored_tracked_files(
    workspace: Workspace, where: Where, suffixes: Sequence[str], settings: SearchSettings
) -> list[Path]:
    """The files with these suffixes that git tracks and searches leave out, the first `MAX_FILES` of them.

    Args:
        workspace: its folders with a `.git` are looked at.
        where: the files with these suffixes, for a search.
        suffixes: e.g. `.c`.
        settings: of the search.
    """
    tracked = await asyncio.to_thread(_tracked_files, [folder.path for folder in workspace.folders], suffixes)
    if not tracked:
        return []
    search = await find_files(workspace, where, MAX_LISTED, settings)
    if search.capped:
        return []
    ignored = sorted(tracked.difference(map(str, search.items)))[:MAX_FILES]
    paths = [Path(path) for path in ignored]
    return await asyncio.to_thread(lambda: [path for path in paths if path.is_file()])


def _tracked_files(roots: Iterable[Path], suffixes: Sequence[str]) -> set[str]:
    """The absolute paths. A project's index may be made by hand: its names stay below the folder. Blocks."""
    endings = tuple(suffixes)
    return {
        f"{root}/{name}"
        for root in roots
        for name in _names_in_index(root)
        if name.endswith(endings) and ".." not in name.split("/") and not name.startswith("/")
    }


def _names_in_index(root: Path) -> Sequence[str]:
    try:
        git = git_folder(root)
        status = None if git is None else (git / "index").stat()
    except (OSError, ValueError):
        return ()
    if git is None or status is None or not stat.S_ISREG(status.st_mode) or status.st_size > MAX_INDEX:
        return ()
    return _read_index(f"{git}/index", status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read_index(path: str, _changed_ns: int, _size: int) -> Sequence[str]:
    """The names in an index, read again only if it changed."""
    try:
        return tuple(names_of_index(regular_file.read_bytes(Path(path), MAX_INDEX)))
    except (OSError, ValueError, IndexError):
        return ()


def names_of_index(content: bytes) -> Iterator[str]:
    """The names of the files in git's index, versions 2 to 4. Pure.

    Raises:
        ValueError, IndexError: it is no such index, or its names are longer than those of files.
    """
    if content[:4] != b"DIRC":
        raise ValueError("no index")
    version, count = int.from_bytes(content[4:8], "big"), int.from_bytes(content[8:12], "big")
    at, last, room = _HEAD, b"", MAX_NAMES
    for _ in range(count):
        flags = int.from_bytes(content[at + _ENTRY - 2 : at + _ENTRY], "big")
        begin = at + _ENTRY + (2 if version >= 3 and flags & _EXTENDED else 0)
        if version == 4:
            cut, begin = _variable_number(content, begin)
            end = content.index(b"\0", begin)
            last = last[: len(last) - cut] + content[begin:end]
            at = end + 1
        else:
            end = content.index(b"\0", begin)
            last = content[begin:end]
            at += (end - at) // 8 * 8 + 8
        room -= len(last)
        if room < 0:
            raise ValueError("its names are too long")
        yield os.fsdecode(last)


def _variable_number(content: bytes, at: int) -> tuple[int, int]:
    """A number as packs have offsets, and where it ends."""
    byte = content[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = content[at]
        number = (number + 1) << 7 | byte & 0x7F
    return number, at + 1
