"""Remembers which clients were shown the meta-tools, so that these do not vanish under a model.

A stateless request names its client program, but no session: what one session of a program was shown stays
listed for all of them, also after a restart of this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine.files import private_files

KEPT_S: Final = 7 * 24 * 3600.0
"""How long they stay after the last need: agents are left open for days."""
SAVE_S: Final = 3600.0
"""A need is saved again only after so long: a list must not cost a file each time."""
MAX_CLIENTS: Final = 64
"""Names of clients that are remembered; these are the callers' input."""
_MAX_NAME: Final = 100
_MAX_BYTES: Final = 64 * 1024


class KeptMetaTools:
    """The clients that were shown the meta-tools.

    Args:
        file: where they are remembered; None for this process only. Its folder is made when needed.
        wall: seconds since 1970.
    """

    def __init__(self, file: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self._file = file
        self._wall = wall
        self._needed_at: dict[str, float] | None = None

    async def keeps(self, client: str, *, is_needed: bool) -> bool:
        """Whether the client's list has the meta-tools; `is_needed` says that it needs them now."""
        if self._needed_at is None:
            loaded = await asyncio.to_thread(self._load)
            self._needed_at = loaded if self._needed_at is None else self._needed_at
        client, now = client[:_MAX_NAME], self._wall()
        needed_at = self._needed_at.get(client, 0.0)
        if not is_needed:
            return now - needed_at < KEPT_S
        if abs(now - needed_at) >= SAVE_S:
            self._needed_at.pop(client, None)
            self._needed_at[client] = now
            if len(self._needed_at) > MAX_CLIENTS:
                del self._needed_at[min(self._needed_at, key=self._needed_at.__getitem__)]
            await asyncio.to_thread(self._save, dict(self._needed_at))
        return True

    def _load(self) -> dict[str, float]:
        if self._file is None:
            return {}
        try:
            return msgspec.json.decode(
                private_files.read(self._file, _MAX_BYTES) or b"{}", type=dict[str, float]
            )
        except (OSError, private_files.UnsafePathError, msgspec.DecodeError, UnicodeDecodeError):
            return {}  # it only saves a model a surprise

    def _save(self, needed_at: dict[str, float]) -> None:
        if self._file is None:
            return
        with suppress(OSError, private_files.UnsafePathError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.write(self._file, msgspec.json.encode(needed_at), durable=False)
