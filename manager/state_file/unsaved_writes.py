"""Keeps the writes that the state file refused, in memory and in a file of its own, until it takes them.

The last write to each row is kept. The file survives the manager; the next one applies it before it reads
the state file. It lies in the runtime folder, which is usually on another file system than the state file.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from lm_tools_bridge.machine.files import private_files
from manager.configuration.budgets import MAX_UNSAVED_BYTES
from manager.logs.log import logger

Row = tuple[Any, ...]


class UnsavedWrites:
    """Refused writes in their order.

    A write is a verb (`save_session`, `drop_session`, …) and a row, which begins with its key. All methods
    block; they belong to one thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writes: dict[tuple[str, Row], tuple[str, Row]] = {}
        self._is_kept = True

    def __len__(self) -> int:
        return len(self._writes)

    def load(self) -> None:
        """Add the writes that a previous manager kept. A file that cannot be used is logged and ignored."""
        try:
            content = private_files.read(self._path, MAX_UNSAVED_BYTES)
            kept = [] if content is None else msgspec.msgpack.decode(content, type=list[tuple[str, Row]])
        except (OSError, private_files.UnsafePathError, msgspec.MsgspecError) as error:
            logger().error("state.unsaved_lost", why=str(error), file=str(self._path))
            return
        for verb, row in kept:
            self.add(verb, [row])

    def add(self, verb: str, rows: Iterable[Row]) -> None:
        """Add writes; each replaces the earlier one to its row."""
        for row in rows:
            key = _key(verb, row)
            self._writes.pop(key, None)  # so that the order is that of the last writes
            self._writes[key] = (verb, row)
        self._is_kept = False

    def keep(self) -> bool:
        """Write the file if it is not up to date; False if that is impossible, too."""
        if self._is_kept:
            return True
        try:
            private_files.write(self._path, msgspec.msgpack.encode(list(self._writes.values())))
        except (OSError, private_files.UnsafePathError):
            return False
        self._is_kept = True
        return True

    def batches(self) -> list[tuple[str, list[Row]]]:
        """The writes in order, neighbours of one verb together."""
        grouped = groupby(self._writes.values(), key=lambda write: write[0])
        return [(verb, [row for _, row in writes]) for verb, writes in grouped]

    def clear(self) -> None:
        """Forget the writes, because the state file has them."""
        self._writes.clear()
        self._is_kept = True
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # they are applied again at the next start, before newer ones
            logger().warning("state.unsaved_kept", why=str(error))


def _key(verb: str, row: Row) -> tuple[str, Row]:
    if verb == "drop_instance":  # of this instance only: the workspace may have a newer one
        return verb, row[:2]
    return verb.partition("_")[2], row[:1]
