"""The recorder's database: its tables, upgrades of older files, and opening it to write or read-only.

Any other thread or process may read it. Calls refer to labels, so that a call takes about 50 bytes and a
search first chooses among a few labels. Ids of calls ascend in the order in which the calls ended. There is
no index, because each would cost every call; instead `blocks` says which labels occur among which `BLOCK`
ids.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.private_files import make_private

SCHEMA_VERSION: Final = 2
"""In the file's `user_version`; `UPGRADES` has a step from each older one. A change of the tables adds one.
"""
SLOW_US: Final = 1_000_000
"""Microseconds from which a call counts as slow in `blocks`."""
BLOCK: Final = 1024
"""Ids of a block: block `n` begins with the id `n * BLOCK`."""
ANY, FAILED, SLOW = 0, 1, 2
"""The kinds of rows in `blocks`: a block has a call of the label, a failed one, a slow one. In blocks
of older versions, calls that went on after input count as failed, too."""
_SCHEMA: Final = """
CREATE TABLE labels(
    id INTEGER PRIMARY KEY, client TEXT, client_version TEXT, era TEXT NOT NULL, revision TEXT NOT NULL,
    project TEXT, method TEXT NOT NULL, tool TEXT, source TEXT, decided_by TEXT NOT NULL) STRICT;
CREATE TABLE calls(
    id INTEGER PRIMARY KEY, label INTEGER NOT NULL, at INTEGER NOT NULL, took INTEGER NOT NULL,
    server INTEGER, sent INTEGER NOT NULL, received INTEGER, session TEXT, made_trace INTEGER,
    outcome TEXT, code INTEGER, source INTEGER, queue INTEGER, start INTEGER, asked INTEGER, retries INTEGER,
    more INTEGER, trace TEXT, approval INTEGER) STRICT;
CREATE TABLE blocks(
    kind INTEGER NOT NULL, label INTEGER NOT NULL, block INTEGER NOT NULL,
    PRIMARY KEY(kind, label, block)) STRICT, WITHOUT ROWID;
CREATE TABLE contents(
    call INTEGER PRIMARY KEY, at INTEGER NOT NULL, arguments BLOB, result BLOB, hidden INTEGER NOT NULL,
    is_cut INTEGER NOT NULL) STRICT;
CREATE TABLE content_rules(
    project TEXT PRIMARY KEY, made INTEGER NOT NULL, until INTEGER) STRICT;
"""
ID_RANGE: Final = "SELECT (SELECT min(id) FROM calls),(SELECT max(id) FROM calls)"
"""The lowest and the highest id; with both in one SELECT, SQLite would read every row."""
_CHECKPOINT_PAGES: Final = 4096
"""Pages (16 MiB) of the log of changes after which they move to the database itself."""
UPGRADES: Final[Mapping[int, str]] = {
    1: "ALTER TABLE calls ADD COLUMN made_trace INTEGER;ALTER TABLE calls ADD COLUMN approval INTEGER;",
}
"""Schema version -> SQL that upgrades a file of this version to the next."""
PLAIN_COLUMNS: Final = (
    "label", "at", "took", "server", "sent", "received", "session", "made_trace", "source",
)  # fmt: skip
"""The columns that nearly all calls have, after the id."""
CALL_COLUMNS: Final = (
    *PLAIN_COLUMNS, "outcome", "code", "queue", "start", "asked", "retries", "more", "trace", "approval",
)  # fmt: skip
"""The columns of a call after its id. Times are microseconds, but `at` milliseconds since 1970. `outcome` is
NULL for `ok`; `more` counts calls like it that have no row of their own; `trace` is NULL where the number
`made_trace` says it (`lm_tools_bridge/protocol/trace_context.py`)."""
FAILURE: Final = "outcome NOT IN ('task','input_required')"
"""SQL: whether a call failed, as `ended_call.is_failure`; NULL for `ok`."""
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
    file_version: int = database.execute("PRAGMA user_version").fetchone()[0]
    if file_version > version:
        raise NewerFile(f"a newer version wrote it (schema {file_version}); it is left untouched")
    return file_version


def prepare(
    database: sqlite3.Connection, version: int = SCHEMA_VERSION, upgrades: Mapping[int, str] = UPGRADES
) -> None:
    """Create or upgrade the tables.

    Raises:
        NewerFile: a newer version wrote the file.
        sqlite3.DatabaseError: it is damaged, or its disk fails.
    """
    file_version = check_version(database, version)
    if file_version == 0:
        database.execute("PRAGMA auto_vacuum=INCREMENTAL")  # before the first table
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    database.execute("PRAGMA secure_delete=ON")  # contents that were deleted are overwritten
    if file_version == version:
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        file_version = check_version(database, version)  # another program may have been faster
        if file_version == 0:
            _execute(database, f"{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};")
            file_version = SCHEMA_VERSION
        for older in range(file_version, version):
            _execute(database, f"{upgrades[older]}PRAGMA user_version={older + 1};")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _execute(database: sqlite3.Connection, script: str) -> None:
    """Execute statements within the transaction, which `executescript` would end."""
    for statement in filter(str.strip, script.split(";")):
        database.execute(statement)


BUSY_S: Final = 2.0
"""How long one program waits for another that is writing."""
_RETRY_S: Final = 0.01
"""Between two attempts to prepare a file that another program is preparing."""


def open_to_write(path: Path, wait_s: float = BUSY_S) -> sqlite3.Connection:
    """Open or create the database, readable for this user only.

    Raises:
        sqlite3.Error: it cannot be opened, is damaged, or a newer version wrote it (`tables.NewerFile`).
        OSError, lm_tools_bridge.machine.private_files.UnsafePathError: file or folder cannot be used.
    """
    make_private(path.parent)
    flags = os.O_RDWR | os.O_CREAT | file_calls.NO_LINK
    file = os.open(path, flags, 0o600)
    try:
        file_calls.restrict(file, 0o600)  # it may be a copy, or from a backup
    finally:
        os.close(file)
    database = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
    try:
        _prepare_in_turn(database, wait_s)
    except BaseException:
        database.close()
        raise
    return database


def _prepare_in_turn(database: sqlite3.Connection, wait_s: float) -> None:
    """Prepare the file, also while another program does so.

    SQLite changes the journal mode without its own wait: it refuses at once while another connection writes.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return prepare(database)
        except sqlite3.OperationalError as error:
            is_busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_S)


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Open the database read-only; None if there is none yet.

    Raises:
        sqlite3.Error: it cannot be opened, is damaged, or a newer version wrote it.
    """
    if not path.exists():
        return None
    try:
        return _opened(path, "mode=ro")
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", None)  # our own errors have none
        if code != sqlite3.SQLITE_CANTOPEN or _has_changes_beside(path):
            raise
        # in a folder where nothing can be written, nothing changes it either
        return _opened(path, "immutable=1")


def _has_changes_beside(path: Path) -> bool:
    """Whether calls are in SQLite's log of changes only, which cannot be read without writing beside it."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False


def _opened(path: Path, how: str) -> sqlite3.Connection | None:
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        if check_version(database) == 0:
            database.close()
            return None
    except BaseException:
        database.close()
        raise
    return database
