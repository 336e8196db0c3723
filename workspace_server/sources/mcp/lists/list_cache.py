"""Caches the last good lists of every MCP server on disk, so that a restart does not wait for them.

The key is a digest of the configuration: another command or URL is another server. Without the cache, listing
has to start the server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.machine import private_files

# Beyond the limits of a list (`mcp/paging.py`); a file that is larger is not ours.
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_FILES: Final = 800
"""Six for each server at most: its lists, and its instructions."""


def key_of(configuration: Mapping[str, Any]) -> str:
    """The key of a configuration: a digest of everything that decides which server it is."""
    return sha256(msgspec.json.encode(configuration, order="sorted")).hexdigest()


class ListCache:
    """A private folder with one file per key. Blocking: call it in a thread. Never raises.

    Attributes:
        folder: that.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str) -> bytes | None:
        """What was saved last under this key, None for nothing or nothing readable."""
        try:
            with (self.folder / f"{key}.json").open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        return content if len(content) <= MAX_BYTES else None

    def save(self, key: str, content: bytes) -> None:
        """Replace what was saved, wholly or not at all; a disk that refuses costs only the saving."""
        with suppress(OSError, private_files.UnsafePathError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.write(self.folder / f"{key}.json", content, durable=False)
        self._forget_oldest()

    def touch(self, key: str) -> None:
        """Count what was saved under this key as saved now, so that it is not forgotten."""
        with suppress(OSError):
            os.utime(self.folder / f"{key}.json")

    def beside(self, name: str) -> ListCache:
        """A cache in the folder of this name beside this one, with the same ways to other keys."""
        return ListCache(self.folder.parent / name)

    def _forget_oldest(self) -> None:
        with suppress(OSError):
            files = [(file.stat().st_mtime, file) for file in self.folder.glob("*.json")]
            for _, file in sorted(files)[:-MAX_FILES]:
                file.unlink()


class ServerListCache(ListCache):
    """The cache of one server: where nothing was saved, what the same server said elsewhere.

    So the first list in a new worktree is complete, although its server never ran there.
    """

    def __init__(self, folder: Path, key: str, keys_elsewhere: Callable[[], Iterable[str]]) -> None:
        """Nothing is read yet.

        Args:
            folder: the folder of the cache.
            key: the beginning of the server's own keys.
            keys_elsewhere: the beginnings that stand for it, the best first. Asked in the thread that loads.
        """
        super().__init__(folder)
        self._key = key
        self._keys_elsewhere = keys_elsewhere

    def load(self, key: str) -> bytes | None:
        """See `ListCache`."""
        content = super().load(key)
        if content is None and key.startswith(self._key):
            rest = key[len(self._key) :]
            contents = (ListCache.load(self, other + rest) for other in self._keys_elsewhere())
            content = next((each for each in contents if each is not None), None)
        return content

    def beside(self, name: str) -> ListCache:
        """See `ListCache`."""
        return ServerListCache(self.folder.parent / name, self._key, self._keys_elsewhere)
