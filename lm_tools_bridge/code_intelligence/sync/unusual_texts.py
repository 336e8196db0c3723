"""Keeps files open in a server that would read their bytes otherwise than they are meant.

Such are files with a byte order mark, in another encoding than UTF-8, or with a wrong byte. A server gets the
text of an open file from us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.tree.disk_text import read_file
from lm_tools_bridge.code_intelligence.tree.documents import OpenDocuments, is_source
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot

MAX_KEPT: Final = 100
"""Files that are kept open: half of those that may be open, so that others are not closed for them."""
MAX_READ: Final = 20_000
"""Files that are read at the start of a server, which takes about a second."""


class UnusualTexts:
    """The files with unusual bytes that one server may see.

    Args:
        peer: the server.
        documents: its open files.
    """

    def __init__(self, peer: Peer, documents: OpenDocuments) -> None:
        self._peer = peer
        self._documents = documents
        self._is_needed = peer.specification.misreads_encodings
        self._paths: dict[Path, None] = {}

    async def look(self, snapshot: Snapshot, changes: Changes | None) -> None:
        """Read the files that are new or changed; at first (`changes` is None) all."""
        if not self._is_needed:
            return
        names = [*snapshot.files] if changes is None else [*changes.created, *changes.changed]
        for name in [] if changes is None else changes.deleted:
            self._paths.pop(Path(name), None)
        kind = self._peer.specification
        paths = [path for path in map(Path, names) if is_source(path, kind)][:MAX_READ]
        if not paths:
            return
        unusual = await asyncio.to_thread(_unusual, paths)
        for path in paths:
            self._paths.pop(path, None)
        self._paths.update(dict.fromkeys(unusual))

    async def keep_open(self) -> None:
        """Open those that are not open.

        Raises:
            ServerGone: the server ended.
        """
        for path in [path for path in [*self._paths][:MAX_KEPT] if self._documents.get(path) is None]:
            with suppress(OSError):  # it is gone: the next look tells
                await self._documents.open(path)

    def left_out(self) -> str:
        """What answers lack because there are too many; empty if nothing."""
        more = len(self._paths) - MAX_KEPT
        return f"it misreads {more} files that are not in plain UTF-8" if more > 0 else ""


def _unusual(paths: Iterable[Path]) -> list[Path]:
    """Those that are not UTF-8 without a byte order mark. Blocks."""
    unusual = []
    for path in paths:
        with suppress(OSError):
            if not read_file(path).is_plain:
                unusual.append(path)
    return unusual
