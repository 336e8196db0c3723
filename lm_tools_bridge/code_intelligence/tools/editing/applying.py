"""Applies planned changes of files, all of them or none. Blocks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from lm_tools_bridge.code_intelligence.tools.editing.change import FileChange
from lm_tools_bridge.code_intelligence.tools.editing.file_content import MAX_FILE, Unchangeable
from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.machine.project_file import HeldFolder
from workspace_server import log


class ApplyFailed(Exception):
    """The changes were not applied; the message says why, and whether every file is as it was."""


def apply_changes(changes: Sequence[FileChange]) -> None:
    """Write new files beside the old ones, check that nothing changed meanwhile, then put them in place.

    The folders stay open from the first byte to the last, so a folder that becomes a link leads nowhere else.
    If it fails in the middle, the files that were replaced get their former content back.

    Raises:
        ApplyFailed: nothing was changed, or the message says which file could not be restored.
    """
    with ExitStack() as stack:
        places: list[_Place] = []
        try:
            try:
                folders = _open_folders(changes, stack)
                for change in changes:
                    places.append(_Place(change, folders[change.path.parent]))
                    places[-1].prepare()
                for place in places:
                    place.check_unchanged()
            except (OSError, Unchangeable, UnsafePathError) as error:
                raise ApplyFailed(f"{_words(error)}. No file was changed") from None
            _put_in_place(places)
        finally:
            for place in places:
                place.tidy()


def _open_folders(changes: Sequence[FileChange], stack: ExitStack) -> dict[Path, HeldFolder]:
    parents = dict.fromkeys(change.path.parent for change in changes)
    return {parent: stack.enter_context(project_file.held(parent)) for parent in parents}


class _Place:
    """A file that is changed, in its open folder."""

    def __init__(self, change: FileChange, folder: HeldFolder) -> None:
        self.change = change
        self._folder = folder
        self._name = change.path.name
        self._beside: str | None = None

    def prepare(self) -> None:
        """Write the new content beside the file."""
        if self.change.after is not None:
            self._beside = f".{self._name[:100]}.{secrets.token_hex(6)}.lmtb"
            self._folder.write(self._beside, self.change.after, self.change.mode)

    def check_unchanged(self) -> None:
        """Refuse if the file is not what the change was made for.

        Raises:
            Unchangeable: it is something else by now.
        """
        path, before = self.change.path, self.change.before
        if before is None:
            if self._folder.status(self._name) is not None:
                raise Unchangeable(f"{path} was created meanwhile; call again")
        elif self._folder.read(self._name, MAX_FILE) != before:
            raise Unchangeable(f"{path} changed meanwhile; call again")

    def put(self) -> None:
        """Make the change."""
        if self._beside is None:
            self._folder.remove(self._name)
        elif self.change.before is None:
            self._folder.link(self._beside, self._name)  # unlike a rename, fails if it exists
        else:
            self._folder.move(self._beside, self._name)

    def restore(self) -> bool:
        """Give the file its former content back; whether that was possible."""
        try:
            if self.change.before is None:
                self._folder.remove(self._name)
            else:
                self._folder.write(self._name, self.change.before, self.change.mode)
        except OSError as error:
            log.error("edit_not_restored", file=self._name, cause=str(error))
            return False
        return True

    def tidy(self) -> None:
        """Remove what is left beside the file."""
        if self._beside is not None:
            with suppress(OSError):
                self._folder.remove(self._beside)


def _put_in_place(places: Sequence[_Place]) -> None:
    done: list[_Place] = []
    try:
        for place in places:
            place.check_unchanged()
            place.put()
            done.append(place)
    except (OSError, Unchangeable, UnsafePathError) as error:
        lost = [place.change.path.name for place in reversed(done) if not place.restore()]
        end = f"These could not be restored: {', '.join(lost)}" if lost else "Every file is as it was"
        raise ApplyFailed(f"{_words(error)}. {end}") from None


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        name = Path(os.fsdecode(error.filename)).name if error.filename else "a file"
        return f"{name}: {(error.strerror or 'cannot be written').lower()}"
    if isinstance(error, UnsafePathError):
        return f"{error.path.name} {error.reason}"
    return str(error)
