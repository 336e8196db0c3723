"""Rereads files when their status changes, and keeps the last valid value of a broken file. Blocks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from lm_tools_bridge.machine import regular_file
from workspace_server.config.formats.jsonc import ConfigFileError

# A file of settings that a person wrote has some kilobytes; a larger one would be parsed on each change.
MAX_BYTES: Final = 1024 * 1024
SETTLED_NS: Final = 2_000_000_000
"""A file changed less than 2 s ago may change again without a new time stamp."""

T = TypeVar("T")
Clock = Callable[[], int]


class FileStatus:
    """Detects changes of one path with a single `stat`. `clock` is the time of day in nanoseconds."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = os.fspath(path)
        self._clock = clock
        self._seen: tuple[int, int, int, int] | str | None = "never looked at"
        self._settled = False

    @property
    def missing(self) -> bool:
        """Whether the path did not exist at the last check."""
        return self._seen is None

    def may_have_changed(self) -> bool:
        """Whether the path may have changed since the last call."""
        status = self._stat()
        if status == self._seen and self._settled:
            return False
        self._seen = status
        self._settled = not isinstance(status, tuple) or self._clock() - max(status[:2]) > SETTLED_NS
        return True

    def invalidate(self) -> None:
        """Make the next `may_have_changed` return True."""
        self._settled = False

    def _stat(self) -> tuple[int, int, int, int] | str | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - pathlib costs several times as much
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            return str(error)
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


class WatchedFile(Generic[T]):
    """One file and its last valid value.

    Args:
        path: the file; it may be missing.
        parse: turns its bytes into the value; raises `ConfigFileError`.
        absent: the value of a missing file.
        clock: the time of day in nanoseconds.

    Attributes:
        value: the file's value; while the file is invalid, its last valid value.
        problem: why it cannot be read; None if it can, or is missing.
        good: the last valid bytes, None before the first.
    """

    def __init__(
        self, path: Path, parse: Callable[[bytes], T], absent: T, clock: Clock = time.time_ns
    ) -> None:
        self.path = path
        self.value = absent
        self.problem: ConfigFileError | None = None
        self.good: bytes | None = None
        self._parse = parse
        self._absent = absent
        self._status = FileStatus(path, clock)
        self._data: bytes | None = None

    @property
    def missing(self) -> bool:
        """Whether the file does not exist."""
        return self._status.missing

    def refresh(self) -> bool:
        """Read the file again if it may have changed; returns whether its value or problem changed."""
        if not self._status.may_have_changed():
            return False
        before = self.value, self.problem
        if self.missing:
            self.value, self.problem, self._data = self._absent, None, None
        else:
            self._read()
        return (self.value, self.problem) != before

    def use_fallback(self, data: bytes) -> None:
        """Use these bytes, saved by an earlier process, as the last valid content, if they are valid."""
        with suppress(ConfigFileError):
            self.value = self._parse(data)

    def _read(self) -> None:
        try:
            data = read_bytes(self.path)
        except ConfigFileError as broken:
            self._status.invalidate()  # the cause of a read error may vanish without changing the status
            self._data, self.problem = None, broken
            return
        if data == self._data:
            return
        self._data = data
        try:
            self.value, self.problem, self.good = self._parse(data), None, data
        except ConfigFileError as broken:
            self.problem = broken


class WatchedFolder:
    """Finds the first file by name with a given ending in a folder; `found` is None if there is none."""

    def __init__(self, path: Path, ending: str, clock: Clock = time.time_ns) -> None:
        self.found: Path | None = None
        self._path = path
        self._ending = ending
        self._status = FileStatus(path, clock)

    def refresh(self) -> bool:
        """List the folder again if it may have changed; returns whether `found` changed."""
        if not self._status.may_have_changed():
            return False
        before = self.found
        try:
            names = [name for name in os.listdir(self._path) if name.endswith(self._ending)]  # noqa: PTH208 - faster
        except OSError:
            names = []
        self.found = self._path / min(names) if names else None
        return self.found != before


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of at most `MAX_BYTES`. Never waits on a pipe or a device.

    Raises:
        ConfigFileError: the file is not regular, too large, or cannot be read.
    """
    try:
        return regular_file.read_bytes(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        cause = (getattr(error, "strerror", None) or "cannot be read").lower()
        is_about_file = cause.startswith(("not ", "larger "))
        raise ConfigFileError(f"it is {cause}" if is_about_file else cause) from None
