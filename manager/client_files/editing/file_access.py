"""Reads a client's file, and replaces it atomically with its mode and links kept. Blocks.

A file that is not plainly the user's own is refused, and nothing is written.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from host.files import private_files
from host.files.private_files import UnsafePathError
from manager.client_files.change import Change
from manager.client_files.refusals import Refusal

MAX_BYTES: Final = 5 * 1024 * 1024
_NEW_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was read.

    Attributes:
        path: as the client names it.
        target: where it is, with links resolved.
        content: None if there is no file.
        mode: its permissions, or those that a new one gets.
    """

    path: Path
    target: Path
    content: bytes | None
    mode: int = _NEW_MODE


def read(path: Path) -> FileState | Refusal:
    """The file at a path, or why it must not be used."""
    try:
        if not path.is_symlink() and not path.exists():
            return FileState(path, path, None)
        target = Path(os.path.realpath(path, strict=True))
        status = target.stat()
    except FileNotFoundError:
        text = f"{path} is a link to a file that does not exist"
        return Refusal("dangling_link", text, "create that file, or remove the link")
    except OSError as error:
        return _unreadable(path, error)
    problem = _unusable(path, status)
    if problem is not None:
        return problem
    try:
        with target.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        return _unreadable(path, error)
    if len(content) > MAX_BYTES:
        return _too_large(path)
    return FileState(path, target, content, stat.S_IMODE(status.st_mode))


def replace(state: FileState, change: Change) -> list[Path] | Refusal:
    """Write the new content; the folders that had to be made, outermost first.

    The old file is untouched on a refusal, and nothing is left beside it.
    """
    refused = writable(state)
    if refused is not None:
        return refused
    made: list[Path] = []
    try:
        made = _make_folders(state.target.parent)
        now = read(state.path)
        if not isinstance(now, FileState) or now.content != state.content:
            _remove_folders(made)
            return _changed_meanwhile(state.path)
        private_files.write(state.target, change.after, state.mode)
    except OSError as error:
        _remove_folders(made)
        text = f"{state.path} cannot be written: {error.strerror or error}"
        return Refusal("write_failed", text, "free space, or check the folder's permissions")
    return made


def delete(state: FileState, folders: list[Path]) -> Refusal | None:
    """Delete a file that we made, and the folders that we made for it, if they are empty."""
    now = read(state.path)
    if not isinstance(now, FileState) or now.content != state.content:
        return _changed_meanwhile(state.path)
    try:
        state.target.unlink()
    except OSError as error:
        text = f"{state.path} cannot be deleted: {error.strerror or error}"
        return Refusal("write_failed", text, "check the folder's permissions")
    _remove_folders(folders)
    return None


def writable(state: FileState) -> Refusal | None:
    """Why a file cannot be replaced; None if it can be.

    The permissions count for the superuser, too: somebody set them so.
    """
    folder = state.target.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not _may_write(folder):
        text = f"the folder {folder} is read-only"
        return Refusal("read_only", text, f"make it writable: chmod u+w {folder}")
    if state.content is not None and not _may_write(state.target):
        return Refusal(
            "read_only", f"{state.path} is read-only", f"make it writable: chmod u+w {state.target}"
        )
    return None


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & 0o222)


def _unusable(path: Path, status: os.stat_result) -> Refusal | None:
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


def _make_folders(folder: Path) -> list[Path]:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700)
    return missing[::-1]


def _remove_folders(folders: list[Path]) -> None:
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def unusable_state(error: Exception) -> Refusal:
    """The refusal for a state folder in which nothing can be remembered."""
    if isinstance(error, UnsafePathError):
        return Refusal(
            "write_failed", f"the state folder cannot be used: {error.path} {error.reason}", error.hint
        )
    return Refusal("write_failed", f"the state folder cannot be used: {error}", "check with: lmtb doctor")
