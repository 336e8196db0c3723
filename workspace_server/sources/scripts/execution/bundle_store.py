"""Writes bundles to folders that only we can write, so that the checked bytes are the bytes that run.

A bundle is written once and reused while its files are unchanged.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.private_folder import remove
from workspace_server.files.change_detection import FileIdentity, file_identity
from workspace_server.sources.scripts.definition.bundle import Bundle

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
            os.fchmod(out.fileno(), 0o500 if runs else 0o400)
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
