"""Opens the files whose text a tool may return, and no others. Blocks."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls

OUTSIDE: Final = "outside the workspace"


class FileGate:
    """The one way to text that an answer shows: whatever a path leads to, it is the opened file that counts.

    Args:
        folders: link-free; files below them may be shown.
        libraries: further folders of this kind, which do not belong to the workspace.
    """

    def __init__(self, folders: Iterable[Path], libraries: Iterable[Path] = ()) -> None:
        self._folders = tuple(_with_separator(str(folder)) for folder in (*folders, *libraries))

    def open(self, path: str | os.PathLike[str]) -> int:
        """A descriptor of the regular file that a path leads to.

        Raises:
            OSError: it cannot be opened, is no regular file, or lies elsewhere.
        """
        real = os.path.realpath(path)
        if not self.holds(real):  # before it is opened: to open a device can do something
            raise OSError(errno.EACCES, OUTSIDE, str(path))
        descriptor = os.open(real, file_calls.READ_NO_LINK)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            if not self.holds(file_calls.real_path(descriptor, real)):  # a folder became a link meanwhile
                raise OSError(errno.EACCES, OUTSIDE, str(path))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def admits(self, path: str | os.PathLike[str]) -> bool:
        """Whether the file that a path leads to now may be shown; says nothing of what is read later."""
        return self.holds(os.path.realpath(path))

    def holds(self, real: str) -> bool:
        """Whether the file at a link-free path may be shown. Pure."""
        return f"{real}{os.sep}".startswith(self._folders)


def _with_separator(folder: str) -> str:
    return folder if folder.endswith(os.sep) else folder + os.sep
