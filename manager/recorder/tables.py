"""The recorder's tables: their SQL, and the upgrades of files that older versions wrote.

Calls refer to labels, so that a call takes about 100 bytes and a search first chooses among a few labels.
Ids of calls ascend in the order in which the calls ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

SCHEMA_VERSION: Final = 1
SLOW_US: Final = 1_000_000
"""Microseconds from which a call is in the index of slow calls."""
_SCHEMA: Final = f"""
CREATE TABLE labels(
    id INTEGER PRIMARY KEY, client TEXT, client_version TEXT, era TEXT NOT NULL, revision TEXT NOT NULL,
    project TEXT, method TEXT NOT NULL, tool TEXT, source TEXT, decided_by TEXT NOT NULL) STRICT;
CREATE TABLE calls(
    id INTEGER PRIMARY KEY, label INTEGER NOT NULL, at INTEGER NOT NULL, took INTEGER NOT NULL,
    manager INTEGER, server INTEGER, source INTEGER, queue INTEGER, start INTEGER, asked INTEGER,
    sent INTEGER NOT NULL, received INTEGER, retries INTEGER, outcome TEXT, code INTEGER, session TEXT,
    trace TEXT) STRICT;
CREATE INDEX calls_by_label ON calls(label);
CREATE INDEX failed_by_label ON calls(label) WHERE outcome IS NOT NULL;
CREATE INDEX slow_by_label ON calls(label) WHERE took>={SLOW_US};
CREATE TABLE contents(
    call INTEGER PRIMARY KEY, at INTEGER NOT NULL, arguments BLOB, result BLOB, hidden INTEGER NOT NULL,
    is_cut INTEGER NOT NULL) STRICT;
CREATE TABLE content_rules(
    project TEXT PRIMARY KEY, made INTEGER NOT NULL, until INTEGER) STRICT;
"""
ID_RANGE: Final = "SELECT (SELECT min(id) FROM calls),(SELECT max(id) FROM calls)"
"""The lowest and the highest id; with both in one SELECT, SQLite would read every row."""
UPGRADES: Final[Mapping[int, str]] = {}
"""Schema version -> SQL that upgrades a file of this version to the next."""
CALL_COLUMNS: Final = (
    "label", "at", "took", "manager", "server", "source", "queue", "start", "asked", "sent", "received",
    "retries", "outcome", "code", "session", "trace",
)  # fmt: skip
"""The columns of a call after its id. Times are microseconds, but `at` milliseconds since 1970. `outcome` is
NULL for `ok`."""
LABEL_COLUMNS: Final = (
    "client", "client_version", "era", "revision", "project", "method", "tool", "source", "decided_by",
)  # fmt: skip


class NewerFile(sqlite3.OperationalError):
    """A newer version wrote the file; it must be left untouched."""


def check_version(database: sqlite3.Connection, version: int = SCHEMA_VERSION) -> int:
    """The version of the file's schema, 0 for a new file.

    Raises:
        NewerFile: a newer version wrote it.
        sqlite3.DatabaseError: it is damaged, or its disk fails.
    """
    found: int = database.execute("PRAGMA user_version").fetchone()[0]
    if found > version:
        raise NewerFile(f"a newer version wrote it (schema {found}); it is left untouched")
    return found


def prepare(
    database: sqlite3.Connection, version: int = SCHEMA_VERSION, upgrades: Mapping[int, str] = UPGRADES
) -> None:
    """Create or upgrade the tables.

    Raises:
        NewerFile: a newer version wrote the file.
        sqlite3.DatabaseError: it is damaged, or its disk fails.
    """
    found = check_version(database, version)
    if found == 0:
        database.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before the first table
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("PRAGMA secure_delete=ON")  # contents that were deleted are overwritten
    if found == version:
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        found = check_version(database, version)  # another program may have been faster
        if found == 0:
            _execute(database, f"{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};")
            found = SCHEMA_VERSION
        for older in range(found, version):
            _execute(database, f"{upgrades[older]}PRAGMA user_version={older + 1};")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _execute(database: sqlite3.Connection, script: str) -> None:
    """Execute statements within the transaction, which `executescript` would end."""
    for statement in filter(str.strip, script.split(";")):
        database.execute(statement)
