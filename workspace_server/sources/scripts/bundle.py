"""Reads all files of a script tool once, and writes them where only we can write.

So the bytes that were checked are the bytes that run. A bundle is written once and reused while unchanged.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.private_folder import remove
from workspace_server.files.change_detection import FileIdentity, file_identity
from workspace_server.sources.scripts.folders import MAX_BYTES, Survey
from workspace_server.trust.item import file_name

# As many as the kernel follows (`MAXSYMLINKS`).
_MAX_LINKS: Final = 40


class Unreadable(Exception):
    """The files cannot be read at the moment; the text says why."""


@dataclass(frozen=True)
class Bundle:
    """The files of a folder. Names are relative, with `/` as separator.

    Attributes:
        contents: the bytes of each file, by name.
        executable: the names of executable files.
        links: targets of the symbolic links inside the folder, by name.
    """

    contents: Mapping[str, bytes]
    executable: frozenset[str]
    links: Mapping[str, str]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Contents and link targets in the form of `TrustItem.files`."""
        contents = {
            file_name(name, executable=name in self.executable): content
            for name, content in self.contents.items()
        }
        contents |= {file_name(name, link=True): target.encode() for name, target in self.links.items()}
        return contents

    @cached_property
    def size(self) -> int:
        """Size of all files together, in bytes."""
        return sum(map(len, self.contents.values()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, modes and contents, in hexadecimal."""
        state = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            raw = name.encode()
            state.update(b"%d:%d:" % (len(raw), len(content)) + raw + content)
        return state.hexdigest()

    def find(self, name: str) -> str | None:
        """Resolve the links of the bundle in `name`; None if there is no such file."""
        for _ in range(_MAX_LINKS):
            if name in self.contents:
                return name
            link = next((part for part in _prefixes(name) if part in self.links), None)
            if link is None:
                return None
            target = posixpath.join(posixpath.dirname(link), self.links[link])
            name = posixpath.normpath(target + name[len(link) :])
        return None


def read(survey: Survey) -> tuple[Bundle, tuple[FileIdentity, ...]]:
    """Read the files of a folder. Returns them and the identities they had while they were read.

    Raises:
        Unreadable: a file cannot be opened or is being written, or a link leads out of the folder.
    """
    if survey.problem is not None:
        raise Unreadable(survey.problem)
    contents: dict[str, bytes] = {}
    executable: set[str] = set()
    stamps: list[FileIdentity] = []
    for name in survey.files:
        contents[name], stamp = _read_file(survey.folder, name)
        stamps.append(stamp)
        if stamp[2] & stat.S_IXUSR:
            executable.add(name)
        if sum(map(len, contents.values())) > MAX_BYTES:
            raise Unreadable("its files grow while they are read")
    for name, target in survey.links:
        if not _stays_inside(name, target):
            raise Unreadable(f"{name} is a link that leads out of the folder")
    return Bundle(contents, frozenset(executable), dict(survey.links)), tuple(stamps)


def _read_file(folder: str, name: str) -> tuple[bytes, FileIdentity]:
    try:
        descriptor = os.open(f"{folder}/{name}", file_calls.READ_NO_LINK)
        with os.fdopen(descriptor, "rb") as file:
            before = file_identity(os.fstat(descriptor))
            content = file.read(MAX_BYTES + 1) if stat.S_ISREG(before[2]) else b""
            after = file_identity(os.fstat(descriptor))
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {(error.strerror or 'failed').lower()}") from None
    if before != after or len(content) != after[3]:
        raise Unreadable(f"{name} is being written")
    return content, after


def _prefixes(name: str) -> list[str]:
    """`a`, `a/b` and `a/b/c` for `a/b/c`."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _stays_inside(name: str, target: str) -> bool:
    """Whether the target of a link is inside its bundle, even if the target contains further links.

    `..` is accepted only at the beginning, where it leaves real folders: after a link it could lead anywhere.
    """
    parts = target.split("/")
    climbs = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or ".." in parts[climbs:]:
        return False
    return climbs <= name.count("/")


KEPT: Final = 32
"""Number of unused bundles whose files are kept for later calls."""


@dataclass(frozen=True, slots=True)
class _Placed:
    folder: Path
    stamps: tuple[FileIdentity, ...]


class BundleStore:
    """Writes bundles below `folder`, which the first use creates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._placed: dict[str, _Placed] = {}
        self._users: Counter[str] = Counter()
        self._serial = 0
        self._closed = False

    @contextmanager
    def in_use(self, bundles: Sequence[Bundle]) -> Iterator[None]:
        """Keep the files of these bundles until the context ends. Does not block."""
        digests = [bundle.digest for bundle in bundles]
        self._users.update(digests)
        try:
            yield
        finally:
            self._users.subtract(digests)

    def place(self, bundles: Sequence[Bundle]) -> list[Path]:
        """Return a folder for each bundle, written now or verified to be unchanged. Blocks.

        Raises:
            OSError: they cannot be written.
        """
        with self._lock:
            if self._closed:
                raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN))
            folders = [self._use(bundle) for bundle in bundles]
            self._drop_surplus()
            return folders

    def close(self) -> None:
        """Remove all files and refuse further bundles. Blocks. Idempotent."""
        with self._lock:
            self._closed = True
            self._placed.clear()
            remove(self._folder)

    def _use(self, bundle: Bundle) -> Path:
        placed = self._placed.pop(bundle.digest, None)
        if placed is None or _stamps(placed.folder) != placed.stamps:
            # the modified folder stays, because a call may still be running from it
            placed = self._write(bundle)
        self._placed[bundle.digest] = placed  # moved to the end: most recently used
        return placed.folder

    def _write(self, bundle: Bundle) -> _Placed:
        self._serial += 1
        folder = self._folder / f"{bundle.digest[:16]}-{self._serial}"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _write(bundle, folder)
            return _Placed(folder, _stamps(folder))
        except BaseException:
            remove(folder)
            raise

    def _drop_surplus(self) -> None:
        idle = [digest for digest in self._placed if self._users[digest] <= 0]
        for digest in idle[: max(0, len(idle) - KEPT)]:
            remove(self._placed.pop(digest).folder)


def _write(bundle: Bundle, folder: Path) -> None:
    """Write all files, then make them and their folders read-only."""
    folder.mkdir(mode=0o700)
    for name, content in bundle.contents.items():
        file = folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        runs = name in bundle.executable or content.startswith(b"#!")
        with file.open("xb") as out:
            out.write(content)
            file_calls.restrict(out.fileno(), 0o500 if runs else 0o400)
    for name, target in bundle.links.items():
        link = folder / name
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.symlink_to(target)
    for below, _, _ in os.walk(folder, topdown=False):
        Path(below).chmod(0o500)


def _stamps(folder: Path) -> tuple[FileIdentity, ...]:
    """The identities of all files in a folder; equal only if none of them was modified."""
    identities = []
    for below, folders, files in os.walk(folder):
        folders.sort()
        identities.append(file_identity(os.lstat(below)))
        identities += [file_identity(os.lstat(f"{below}/{name}")) for name in sorted(files)]
    return tuple(identities)
