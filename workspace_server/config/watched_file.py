"""Files that are read again when their status says that they changed, and keep what was last good.

What stands in them is nobody's business here; which files there are is `load.py`. Blocks.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from workspace_server.config.formats.jsonc import ConfigFileError

MAX_BYTES: Final = 1024 * 1024
SETTLED_NS: Final = 2_000_000_000
"""What changed less than this ago may change again without its times showing it."""

T = TypeVar("T")
Clock = Callable[[], int]


class FileStatus:
    """What the file system says of one path; cheap to ask. `clock` is the time of day in nanoseconds."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = os.fspath(path)
        self._clock = clock
        self._seen: tuple[int, int, int, int] | str | None = "never looked at"
        self._settled = False

    @property
    def missing(self) -> bool:
        """Whether nothing was there when it was looked at last."""
        return self._seen is None

    def may_differ(self) -> bool:
        """Whether what is there may differ from what was there at the last look."""
        seen = self._look()
        if seen == self._seen and self._settled:
            return False
        self._seen = seen
        self._settled = not isinstance(seen, tuple) or self._clock() - max(seen[:2]) > SETTLED_NS
        return True

    def unsettle(self) -> None:
        """Have the next look say that it may differ."""
        self._settled = False

    def _look(self) -> tuple[int, int, int, int] | str | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - pathlib costs several times as much
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            return str(error)
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


class WatchedFile(Generic[T]):
    """One file, as it was last good.

    Args:
        path: the file; it may be missing.
        parse: makes the value of its bytes; raises `ConfigFileError`.
        absent: the value of a missing file.
        clock: the time of day in nanoseconds.

    Attributes:
        value: what the file says; while it is broken, what it said last.
        problem: why it cannot be read now; None when it can, or is not there.
        good: the bytes that were last good, None before there were any.
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
        """Whether nothing is there."""
        return self._status.missing

    def look(self) -> bool:
        """Read the file if it may have changed; whether it says something else now."""
        if not self._status.may_differ():
            return False
        before = self.value, self.problem
        if self.missing:
            self.value, self.problem, self._data = self._absent, None, None
        else:
            self._read()
        return (self.value, self.problem) != before

    def stand_in(self, data: bytes) -> None:
        """Let these bytes, of an earlier life, be what a broken file said last, if they are good."""
        with suppress(ConfigFileError):
            self.value = self._parse(data)

    def _read(self) -> None:
        try:
            data = read_bytes(self.path)
        except ConfigFileError as broken:
            self._status.unsettle()  # why it could not be read may pass without a trace in its status
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
    """The first file by name, of those with one ending, that a folder holds; None in `found` without any."""

    def __init__(self, path: Path, ending: str, clock: Clock = time.time_ns) -> None:
        self.found: Path | None = None
        self._path = path
        self._ending = ending
        self._status = FileStatus(path, clock)

    def look(self) -> bool:
        """Look again if entries may have come or gone; whether another file is the first now."""
        if not self._status.may_differ():
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
        ConfigFileError: it is none, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:  # noqa: PTH123 - pathlib cannot open a descriptor
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigFileError("it is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigFileError((getattr(error, "strerror", None) or "it cannot be read").lower()) from None
    if len(data) > MAX_BYTES:
        raise ConfigFileError(f"it is larger than {MAX_BYTES} bytes")
    return data
