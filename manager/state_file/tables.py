"""The state file's tables: their rows, their SQL, and the upgrades of files that older versions wrote."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

SCHEMA_VERSION: Final = 5
_SCHEMA: Final = """
CREATE TABLE workspaces(id TEXT PRIMARY KEY, root BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE instances(
    workspace TEXT PRIMARY KEY, instance TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
    nonce TEXT NOT NULL, secret TEXT NOT NULL, port INTEGER NOT NULL) STRICT;
CREATE TABLE sessions(
    id TEXT PRIMARY KEY, revision TEXT NOT NULL, client_name TEXT, client_version TEXT,
    capabilities BLOB NOT NULL, workspace TEXT, cwd BLOB, seen REAL NOT NULL, used INTEGER NOT NULL,
    mode TEXT NOT NULL DEFAULT '', log_level TEXT, subscriptions BLOB NOT NULL DEFAULT x'',
    source TEXT NOT NULL DEFAULT 'none', last_workspace TEXT) STRICT;
CREATE TABLE registered(root BLOB PRIMARY KEY) STRICT;
"""
_UPGRADES: Final = {
    1: "ALTER TABLE sessions ADD COLUMN mode TEXT NOT NULL DEFAULT '';",
    2: "ALTER TABLE sessions ADD COLUMN log_level TEXT;"
    " ALTER TABLE sessions ADD COLUMN subscriptions BLOB NOT NULL DEFAULT x'';",
    3: "ALTER TABLE sessions ADD COLUMN source TEXT NOT NULL DEFAULT 'none';"
    " ALTER TABLE sessions ADD COLUMN last_workspace TEXT;",
    4: "CREATE TABLE registered(root BLOB PRIMARY KEY) STRICT;",
}
"""Schema version -> SQL that upgrades a file of this version to the next."""
STATEMENTS: Final = {
    "save_workspace": "INSERT OR REPLACE INTO workspaces VALUES(?,?)",
    "drop_workspace": "DELETE FROM workspaces WHERE id=?",
    "save_instance": "INSERT OR REPLACE INTO instances VALUES(?,?,?,?,?,?,?)",
    "drop_instance": "DELETE FROM instances WHERE workspace=? AND instance=?",
    "save_session": f"INSERT OR REPLACE INTO sessions VALUES({','.join('?' * 14)})",
    "drop_session": "DELETE FROM sessions WHERE id=?",
    "save_registered": "INSERT OR REPLACE INTO registered VALUES(?)",
    "drop_registered": "DELETE FROM registered WHERE root=?",
}
"""Verb of a write -> SQL."""


@dataclass(frozen=True, slots=True)
class WorkspaceRow:
    """A known workspace."""

    id: str
    root: str


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A running workspace server. `pid` is 0 while the server is being started."""

    workspace: str
    instance: str
    pid: int
    started: str
    nonce: str
    secret: str
    port: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a client (MCP up to 2025-11-25).

    `seen` is wall-clock time in seconds since 1970; readers clamp the age that they compute from it.
    `subscriptions` is the JSON text of an object, resource URI -> workspace id; empty for none.
    `source` is the kind of claim that decided the workspace of its last request, `last_workspace` its id.
    """

    id: str
    revision: str
    client_name: str | None
    client_version: str | None
    capabilities: bytes
    workspace: str | None
    cwd: str | None
    seen: float
    used: bool
    mode: str = ""
    log_level: str | None = None
    subscriptions: bytes = b""
    source: str = "none"
    last_workspace: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything the previous manager saved. `registered` are the roots that registered servers served."""

    workspaces: tuple[WorkspaceRow, ...] = ()
    instances: tuple[InstanceRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()
    registered: tuple[str, ...] = ()


class NewerFile(sqlite3.OperationalError):
    """A newer version wrote the file; it must be left untouched."""


def prepare(database: sqlite3.Connection) -> None:
    """Check the file, and create or upgrade its tables.

    Raises:
        NewerFile: a newer version wrote it.
        sqlite3.DatabaseError: it is damaged, or its disk fails.
    """
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise NewerFile(f"it was written by a newer version (schema {version}) and is left untouched")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    # also detects values of the wrong type, which a plain read would return
    if (found := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(found)
    if version == 0:
        database.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT;")
    for older in range(version or SCHEMA_VERSION, SCHEMA_VERSION):
        database.executescript(f"BEGIN;{_UPGRADES[older]}PRAGMA user_version={older + 1};COMMIT;")


def load(database: sqlite3.Connection) -> Loaded:
    """Read all rows."""
    return Loaded(
        tuple(
            WorkspaceRow(row[0], os.fsdecode(row[1])) for row in database.execute("SELECT * FROM workspaces")
        ),
        tuple(InstanceRow(*row) for row in database.execute("SELECT * FROM instances")),
        tuple(_session(row) for row in database.execute("SELECT * FROM sessions")),
        tuple(os.fsdecode(row[0]) for row in database.execute("SELECT * FROM registered")),
    )


def commit(database: sqlite3.Connection, batches: Iterable[tuple[str, list[tuple[Any, ...]]]]) -> None:
    """Write all batches or none."""
    database.execute("BEGIN IMMEDIATE")
    try:
        for verb, rows in batches:
            database.executemany(STATEMENTS[verb], rows)
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _session(row: tuple[Any, ...]) -> SessionRow:
    identity, revision, name, version, capabilities, workspace, cwd, seen, used, *rest = row
    mode, level, subscribed, source, last_workspace = rest
    folder = None if cwd is None else os.fsdecode(cwd)
    known = (identity, revision, name, version, capabilities, workspace, folder, seen, bool(used))
    return SessionRow(*known, mode, level, subscribed, source, last_workspace)
