"""Applies planned changes of files, all of them or none. Blocks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from workspace_server import log
from workspace_server.sources.language_servers.edits import file_content
from workspace_server.sources.language_servers.edits.change import FileChange
from workspace_server.sources.language_servers.edits.file_content import Unchangeable


class ApplyFailed(Exception):
    """The changes were not applied; the message says why, and whether every file is as it was."""


def apply_changes(changes: Sequence[FileChange]) -> None:
    """Write new files beside the old ones, check that nothing changed meanwhile, then put them in place.

    If that fails in the middle, the files that were replaced get their former content back.

    Raises:
        ApplyFailed: nothing was changed, or the message says which file could not be restored.
    """
    prepared: dict[Path, Path] = {}
    try:
        try:
            for change in changes:
                if change.after is not None:
                    prepared[change.path] = _write_beside(change.path, change.after, change.mode)
            for change in changes:
                _check_unchanged(change)
        except (OSError, Unchangeable) as error:
            raise ApplyFailed(f"{_words(error)}. No file was changed") from None
        _put_in_place(changes, prepared)
    finally:
        for temporary in prepared.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _write_beside(path: Path, data: bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.lmtb")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _check_unchanged(change: FileChange) -> None:
    """Refuse if the file is not what the change was made for."""
    if change.before is None:
        if os.path.lexists(change.path):
            raise Unchangeable(f"{change.path} was created meanwhile; call again")
        return
    data, _ = file_content.read_bytes(change.path)
    if data != change.before:
        raise Unchangeable(f"{change.path} changed meanwhile; call again")


def _put_in_place(changes: Sequence[FileChange], prepared: dict[Path, Path]) -> None:
    done: list[FileChange] = []
    try:
        for change in changes:
            _check_unchanged(change)
            if change.after is None:
                change.path.unlink()
            elif change.before is None:
                os.link(prepared[change.path], change.path)  # unlike a rename, fails if it exists
            else:
                prepared[change.path].replace(change.path)
            done.append(change)
    except (OSError, Unchangeable) as error:
        lost = [change.path.name for change in reversed(done) if not _restored(change)]
        end = f"These could not be restored: {', '.join(lost)}" if lost else "Every file is as it was"
        raise ApplyFailed(f"{_words(error)}. {end}") from None


def _restored(change: FileChange) -> bool:
    """Give a file its former content back; whether that was possible."""
    try:
        if change.before is None:
            change.path.unlink()
            return True
        _write_beside(change.path, change.before, change.mode).replace(change.path)
    except OSError as error:
        log.error("edit_not_restored", file=change.path.name, cause=str(error))
        return False
    return True


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        name = Path(os.fsdecode(error.filename)).name if error.filename else "a file"
        return f"{name}: {(error.strerror or 'cannot be written').lower()}"
    return str(error)
