"""Reads a client's file, and replaces it atomically with its mode and links kept. Blocks.

A file that is not plainly the user's own is refused, and nothing is written. A link may be kept in the user's
own files only; in a project's files none is followed. What was a folder when the file was shown must be the
same folder when it is written.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_members
from pathlib import Path
from typing import Final

from lm_tools_bridge.client_setup.change import Change
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.machine.project_file import FolderIdentity, HeldFolder

MAX_BYTES: Final = 5 * 1024 * 1024
"""A file is read, compared and parsed whole. Files of clients have kilobytes; that of Claude Code also keeps
what was done in each project, and grows to megabytes."""
_NEW_MODE: Final = 0o600  # entries of other servers may contain tokens
_NEW_FOLDER: Final = 0o700  # as the file: for its user alone


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was read.

    Attributes:
        path: as the client names it.
        target: where it is, with links resolved.
        content: None if there is no file.
        mode: its permissions, or those that a new one gets.
        folder: the folder it is in; None if that is missing.
        is_linkable: whether links on the way to it may be followed.
    """

    path: Path
    target: Path
    content: bytes | None
    mode: int = _NEW_MODE
    folder: FolderIdentity | None = None
    is_linkable: bool = True


def read(path: Path, *, is_linkable: bool = True) -> FileState | Refusal:
    """The file at a path, or why it must not be used.

    Args:
        path: the file; it may be missing.
        is_linkable: whether links on the way to it may be followed. For a file of a project they may not: a
            program of the project could lead the write to a file of the user's own.
    """
    try:
        target = Path(os.path.realpath(path, strict=path.is_symlink())) if is_linkable else path
        with project_file.held(target.parent) as folder:
            return _read_held(FileState(path, target, None, is_linkable=is_linkable), folder)
    except FileNotFoundError:
        if not path.is_symlink():
            return FileState(path, target, None, is_linkable=is_linkable)
        text = f"{path} is a link to a file that does not exist"
        return Refusal("dangling_link", text, "create that file, or remove the link")
    except UnsafePathError as error:
        return Refusal("link", f"{error.path} {error.reason}", error.hint)
    except OSError as error:
        return _unreadable(path, error)


def read_again(state: FileState) -> FileState | Refusal:
    """The same file as it is now."""
    return read(state.path, is_linkable=state.is_linkable)


def _read_held(state: FileState, folder: HeldFolder) -> FileState | Refusal:
    status = folder.status(state.target.name)
    if status is None:
        return replace_members(state, folder=folder.identity)
    refused = _unusable(state.path, status)
    if refused is not None:
        return refused
    content = folder.read(state.target.name, MAX_BYTES)
    return replace_members(state, content=content, mode=stat.S_IMODE(status.st_mode), folder=folder.identity)


def replace(state: FileState, change: Change) -> list[Path] | Refusal:
    """Write the new content; the folders that had to be made, outermost first.

    The old file is untouched on a refusal, and nothing is left beside it.
    """
    now = read_again(state)
    if not isinstance(now, FileState) or now.content != state.content:
        return _changed_meanwhile(state.path)
    refused = writable(state)
    if refused is not None:
        return refused
    new_folders: tuple[Path, ...] = ()
    try:
        with project_file.held(state.target.parent, make=_NEW_FOLDER) as folder:
            new_folders = folder.made
            if _is_as_read(state, folder):
                folder.write(state.target.name, change.after, state.mode)
                return list(new_folders)
    except OSError as error:
        _remove_folders(new_folders)
        text = f"{state.path} cannot be written: {error.strerror or error}"
        return Refusal("write_failed", text, "free space, or check the folder's permissions")
    except UnsafePathError:
        pass  # a link was put into its way
    _remove_folders(new_folders)
    return _changed_meanwhile(state.path)


def delete(state: FileState, folders: Sequence[Path]) -> Refusal | None:
    """Delete a file that we made, and the folders that we made for it, if they are empty."""
    try:
        with project_file.held(state.target.parent) as folder:
            if not _is_as_read(state, folder):
                return _changed_meanwhile(state.path)
            folder.remove(state.target.name)
    except UnsafePathError:
        return _changed_meanwhile(state.path)
    except OSError as error:
        text = f"{state.path} cannot be deleted: {error.strerror or error}"
        return Refusal("write_failed", text, "check the folder's permissions")
    _remove_folders(folders)
    return None


def _is_as_read(state: FileState, folder: HeldFolder) -> bool:
    """Whether the path leads to the same file in the same folder as when it was read.

    Raises:
        UnsafePathError, OSError: the file cannot be read.
    """
    if state.folder not in (None, folder.identity):
        return False
    if state.is_linkable and Path(os.path.realpath(state.path)) != state.target:
        return False
    return folder.read(state.target.name, MAX_BYTES) == state.content


def writable(state: FileState) -> Refusal | None:
    """Why a file cannot be replaced; None if it can be.

    The permissions count for the superuser, too: somebody set them so.
    """
    folder = state.target.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not _may_write(folder):
        return Refusal("read_only", f"the folder {folder} is read-only", _write_step(folder))
    if state.content is not None and not _may_write(state.target):
        return Refusal("read_only", f"{state.path} is read-only", _write_step(state.target))
    return None


def _write_step(path: Path) -> str:
    """What makes a path writable: no mode helps on a file system that is mounted to be read only."""
    if hasattr(os, "ST_RDONLY") and os.statvfs(path).f_flag & os.ST_RDONLY:
        return "its file system is mounted read-only; set HOME to a folder on another one"
    return f"make it writable: chmod u+w {shlex.quote(str(path))}"


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & 0o222)


def _unusable(path: Path, status: os.stat_result) -> Refusal | None:
    if stat.S_ISLNK(status.st_mode):
        text = f"{path} is a symbolic link"
        return Refusal("link", text, "put a file of its own in its place, or remove it")
    if not stat.S_ISREG(status.st_mode):
        return Refusal("not_a_file", f"{path} is not a regular file", "remove it")
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        text = f"{path} belongs to another user (uid {status.st_uid})"
        own = f'give it to yourself: sudo chown "$USER" {shlex.quote(str(path))}'
        return Refusal("other_user", text, "run this as its owner" if status.st_uid else own)
    if status.st_size > MAX_BYTES:
        return _too_large(path)
    if sys.platform != "win32" and not status.st_mode & 0o444:
        return Refusal("unreadable", f"{path} cannot be read: no permission", f"chmod u+rw {path}")
    return None


def _changed_meanwhile(path: Path) -> Refusal:
    return Refusal("changed_meanwhile", f"{path} was changed by another program meanwhile", "try again")


def _too_large(path: Path) -> Refusal:
    return Refusal("too_large", f"{path} is larger than 5 MiB", "edit the file by hand")


def _unreadable(path: Path, error: OSError) -> Refusal:
    text = f"{path} cannot be read: {error.strerror or error}"
    return Refusal("unreadable", text, "check its permissions and those of its folder")


def _remove_folders(folders: Sequence[Path]) -> None:
    for folder in reversed(folders):
        project_file.remove_if_empty(folder)


def unusable_state(error: Exception) -> Refusal:
    """The refusal for a state folder in which nothing can be remembered."""
    if isinstance(error, UnsafePathError):
        return Refusal(
            "write_failed", f"the state folder cannot be used: {error.path} {error.reason}", error.hint
        )
    return Refusal("write_failed", f"the state folder cannot be used: {error}", "check with: lmtb doctor")
