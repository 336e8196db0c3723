"""Stores what survives the manager in SQLite: workspaces, running instances and sessions.

One thread of its own accesses the database, so that a slow disk never blocks the event loop. If the database
cannot be used, the manager keeps serving from memory and `degraded` says why; a corrupt file is set aside,
not overwritten.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from manager.log import logger

SCHEMA_VERSION: Final = 4
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
"""
_UPGRADES: Final = {
    1: "ALTER TABLE sessions ADD COLUMN mode TEXT NOT NULL DEFAULT '';",
    2: "ALTER TABLE sessions ADD COLUMN log_level TEXT;"
    " ALTER TABLE sessions ADD COLUMN subscriptions BLOB NOT NULL DEFAULT x'';",
    3: "ALTER TABLE sessions ADD COLUMN source TEXT NOT NULL DEFAULT 'none';"
    " ALTER TABLE sessions ADD COLUMN last_workspace TEXT;",
}
"""Schema version -> SQL that upgrades a file of this version to the next."""
_KEPT_CORRUPT: Final = 3
T = TypeVar("T")


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
    """Everything the previous manager saved."""

    workspaces: tuple[WorkspaceRow, ...] = ()
    instances: tuple[InstanceRow, ...] = ()
    sessions: tuple[SessionRow, ...] = ()


class Store:
    """The state file. Writes are carried out in the order of the calls."""

    def __init__(self, path: Path, *, set_aside_name: Callable[[], str]) -> None:
        self._path = path
        self._set_aside_name = set_aside_name
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self.degraded: str | None = None

    async def open(self) -> Loaded:
        """Open the file and read its rows. An unusable file gives an empty `Loaded`, never an exception."""
        return await self._run(self._open) or Loaded()

    async def save_workspace(self, row: WorkspaceRow) -> None:
        """Insert or update a workspace."""
        await self._write("INSERT OR REPLACE INTO workspaces VALUES(?,?)", (row.id, os.fsencode(row.root)))

    async def save_instance(self, row: InstanceRow) -> None:
        """Insert an instance, replacing the previous one of its workspace."""
        await self._write(
            "INSERT OR REPLACE INTO instances VALUES(?,?,?,?,?,?,?)",
            (row.workspace, row.instance, row.pid, row.started, row.nonce, row.secret, row.port),
        )

    async def drop_instance(self, workspace: str, instance: str) -> None:
        """Delete an instance that has ended."""
        await self._write("DELETE FROM instances WHERE workspace=? AND instance=?", (workspace, instance))

    async def save_sessions(self, rows: Iterable[SessionRow]) -> None:
        """Insert or update sessions."""
        values = [
            (row.id, row.revision, row.client_name, row.client_version, row.capabilities, row.workspace,
             None if row.cwd is None else os.fsencode(row.cwd), row.seen, int(row.used), row.mode,
             row.log_level, row.subscriptions, row.source, row.last_workspace)
            for row in rows
        ]  # fmt: skip
        if values:
            marks = ",".join("?" * len(values[0]))
            await self._write_many(f"INSERT OR REPLACE INTO sessions VALUES({marks})", values)

    async def drop_sessions(self, identities: Iterable[str]) -> None:
        """Delete sessions by id."""
        values = [(identity,) for identity in identities]
        if values:
            await self._write_many("DELETE FROM sessions WHERE id=?", values)

    async def close(self) -> None:
        """Close the file."""
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    # -- on the store's thread -----------------------------------------------------------------------

    def _open(self) -> Loaded:
        try:
            return self._connect()
        except (sqlite3.OperationalError, OSError) as error:
            self._degrade(f"state cannot be opened: {error}")
            return Loaded()
        except (sqlite3.DatabaseError, OverflowError, TypeError, ValueError) as error:
            self._set_aside(str(error))
        try:
            return self._connect()
        except (sqlite3.Error, OSError) as error:
            self._degrade(f"state cannot be saved: {error}")
            return Loaded()

    def _connect(self) -> Loaded:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        os.close(descriptor)
        database = sqlite3.connect(self._path, timeout=2, isolation_level=None, check_same_thread=False)
        try:
            loaded = self._prepare(database)
        except BaseException:
            database.close()
            raise
        self._database = database
        return loaded

    def _prepare(self, database: sqlite3.Connection) -> Loaded:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise sqlite3.OperationalError(
                f"{self._path} was written by a newer version (schema {version}); it is left untouched"
            )
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        # also detects values of the wrong type, which a plain read would return
        if (found := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        if version == 0:
            database.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT;")
        for older in range(version or SCHEMA_VERSION, SCHEMA_VERSION):
            database.executescript(f"BEGIN;{_UPGRADES[older]}PRAGMA user_version={older + 1};COMMIT;")
        return Loaded(
            tuple(
                WorkspaceRow(row[0], os.fsdecode(row[1]))
                for row in database.execute("SELECT * FROM workspaces")
            ),
            tuple(InstanceRow(*row) for row in database.execute("SELECT * FROM instances")),
            tuple(_session(row) for row in database.execute("SELECT * FROM sessions")),
        )

    def _set_aside(self, why: str) -> None:
        target = self._path.with_name(f"{self._path.name}.corrupt-{self._set_aside_name()}")
        logger().error("state.corrupt", why=why, kept_as=str(target))
        try:
            self._path.replace(target)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            for old in sorted(self._path.parent.glob(f"{self._path.name}.corrupt-*"))[:-_KEPT_CORRUPT]:
                old.unlink()
        except OSError as error:
            self._degrade(f"the corrupt state file cannot be set aside: {error}")
        else:
            self.degraded = f"the state file was corrupt and is kept as {target.name}"

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _execute(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        if self._database is None:
            return
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany(statement, rows)
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
        except (sqlite3.Error, UnicodeEncodeError) as error:
            self._degrade(f"state cannot be saved: {error}")
        else:
            if self.degraded is not None and self.degraded.startswith("state cannot be saved"):
                self.degraded = None

    def _degrade(self, why: str) -> None:
        if self.degraded != why:
            logger().error("state.degraded", why=why)
        self.degraded = why

    # -- on the event loop ---------------------------------------------------------------------------

    async def _write(self, statement: str, row: tuple[Any, ...]) -> None:
        await self._write_many(statement, [row])

    async def _write_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        await self._run(lambda: self._execute(statement, rows))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _session(row: tuple[Any, ...]) -> SessionRow:
    identity, revision, name, version, capabilities, workspace, cwd, seen, used, *rest = row
    mode, level, subscribed, source, last_workspace = rest
    folder = None if cwd is None else os.fsdecode(cwd)
    known = (identity, revision, name, version, capabilities, workspace, folder, seen, bool(used))
    return SessionRow(*known, mode, level, subscribed, source, last_workspace)
