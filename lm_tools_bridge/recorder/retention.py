"""Keeps the recorder's database within its size and age."""

from __future__ import annotations

import sqlite3
from typing import Final

from lm_tools_bridge.recorder.database import BLOCK, ID_RANGE

DAY_S: Final = 86_400.0
"""Settings say days."""
NOTHING_EXPIRES_S: Final = 600.0
"""Seconds after the start in which nothing expires by age: a clock that was wrong at boot is set by then."""
_SPARE: Final = 0.9
"""Part of the limit down to which the oldest calls are removed, so that this happens rarely."""
_BATCH: Final = 20_000
"""Calls that are removed in one transaction."""


class ExpiryClock:
    """Tells the time for expiry. It goes at most as fast as the monotonic clock.

    So a wall clock that jumps ahead expires nothing; one that is set back is followed.
    """

    def __init__(self, wall: float, now: float) -> None:
        self._started = now
        self._wall = wall
        self._now = now

    def time(self, wall: float, now: float) -> float | None:
        """Seconds since 1970; None while nothing may expire."""
        self._wall = min(wall, self._wall + now - self._now)
        self._now = now
        return self._wall if now - self._started >= NOTHING_EXPIRES_S else None


def used_bytes(database: sqlite3.Connection) -> int:
    """The bytes of the database that are in use."""
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def remove_expired(database: sqlite3.Connection, *, calls_before: float, contents_before: float) -> int:
    """Remove what is older than these times, in seconds since 1970. Returns the calls removed.

    Ids ascend with time, so that the oldest calls are found without an index of times.
    """
    _execute(database, "DELETE FROM contents WHERE at<?", (round(contents_before * 1000),))
    removed = 0
    while True:
        first = database.execute("SELECT min(id) FROM calls").fetchone()[0]
        if first is None:
            return removed
        count = _execute(
            database, "DELETE FROM calls WHERE id<? AND at<?", (first + _BATCH, round(calls_before * 1000))
        )
        _remove_stray(database)
        removed += count
        if count < _BATCH:
            return removed


def shrink(database: sqlite3.Connection, limit: int) -> int:
    """Remove the oldest calls if the database is larger than `limit` bytes. Returns the calls removed."""
    used, removed = used_bytes(database), 0
    if used <= limit:
        return 0
    while used > limit * _SPARE:
        first, last = database.execute(ID_RANGE).fetchone()
        if first is None:
            break
        step = min(_BATCH, max(1, (last - first + 1) // 10))
        removed += _execute(database, "DELETE FROM calls WHERE id<?", (first + step,))
        _remove_stray(database)
        used = used_bytes(database)
    database.execute("PRAGMA incremental_vacuum").fetchall()
    return removed


def purge(database: sqlite3.Connection, *, calls: bool) -> tuple[int, int]:
    """Remove all recorded contents, and with `calls` all calls; nothing of them is left in the file.

    Returns:
        The calls and the contents removed.
    """
    contents = _execute(database, "DELETE FROM contents")
    removed = _execute(database, "DELETE FROM calls") if calls else 0
    _remove_stray(database)
    database.execute("PRAGMA incremental_vacuum").fetchall()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return removed, contents


def _remove_stray(database: sqlite3.Connection) -> None:
    """Remove contents and blocks of calls that are gone."""
    first = database.execute("SELECT min(id) FROM calls").fetchone()[0]
    if first is None:
        _execute(database, "DELETE FROM blocks")
    else:
        _execute(database, "DELETE FROM blocks WHERE block<?", (first // BLOCK,))
    _execute(database, "DELETE FROM contents WHERE call<(SELECT coalesce(min(id),0) FROM calls)")


def _execute(database: sqlite3.Connection, sql: str, values: tuple[int, ...] = ()) -> int:
    return database.execute(sql, values).rowcount
