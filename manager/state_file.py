"""Stores what survives the manager in SQLite: workspaces, running instances and sessions.

One thread of its own accesses the database, so that a slow disk never blocks the event loop. If the
database cannot be used, the manager keeps serving and `degraded` says why. A corrupt file is set aside, not
overwritten.

Writes that the database refused are kept in memory and in a file of their own; `retry` saves them later.
The last write to each row is kept. The file survives the manager; the next one applies it before it reads
the database. It lies in the runtime folder, which is usually on another file system than the database.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from lm_tools_bridge.machine import file_calls, private_files
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError, make_private
from manager.configuration.budgets import MAX_UNSAVED_BYTES
from manager.log import logger

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
            rows = [] if content is None else msgspec.msgpack.decode(content, type=list[tuple[str, Row]])
        except (OSError, private_files.UnsafePathError, msgspec.MsgspecError) as error:
            logger().error("state.unsaved_lost", why=str(error), file=str(self._path))
            return
        for verb, row in rows:
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


# Grows with each change of the tables; a file of a later version is left alone.
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


class WorkspaceRow(msgspec.Struct, frozen=True):
    """A known workspace."""

    id: str
    root: str


class InstanceRow(msgspec.Struct, frozen=True):
    """A running workspace server. `pid` is 0 while the server is being started."""

    workspace: str
    instance: str
    pid: int
    started: str
    nonce: str
    secret: str
    port: int


class SessionRow(msgspec.Struct, frozen=True):
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


class Loaded(msgspec.Struct, frozen=True):
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
    if (verdict := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(verdict)
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
    identity, revision, name, version, capabilities, workspace, cwd, last_seen, used, *rest = row
    mode, level, subscribed, source, last_workspace = rest
    folder = None if cwd is None else os.fsdecode(cwd)
    fields = (identity, revision, name, version, capabilities, workspace, folder, last_seen, bool(used))
    return SessionRow(*fields, mode, level, subscribed, source, last_workspace)


# Enough to look into what happened; a disk that fails again and again must not fill itself.
_KEPT_CORRUPT: Final = 3
OPEN_WAIT_S: Final = 10.0
"""How long a start waits for another program that has the file locked."""
# Another program holds the lock for milliseconds. A write that waited longer would hold those behind it; it
# is kept and retried.
WRITE_WAIT_S: Final = 2.0
_CURABLE: Final = ("state cannot be saved", "state cannot be opened")
_UNTIL_THEN: Final = "workspaces, servers and sessions are kept in memory, and lost if this process is killed"
T = TypeVar("T")


class Store:
    """The state file. Writes are carried out in the order of the calls."""

    def __init__(self, path: Path, *, set_aside_name: Callable[[], str], unsaved: Path | None = None) -> None:
        """`unsaved` is the file for writes that are not saved yet; by default it lies beside `path`."""
        self._path = path
        self._set_aside_name = set_aside_name
        self._database: sqlite3.Connection | None = None
        self._unsaved = UnsavedWrites(unsaved or path.with_name(f"{path.name}.unsaved"))
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._inode = 0
        self.degraded: str | None = None

    async def open(self) -> Loaded:
        """Open the file and read its rows. An unusable file gives an empty `Loaded`, never an exception."""
        return await self._run(self._open) or Loaded()

    async def save_workspace(self, row: WorkspaceRow) -> None:
        """Insert or update a workspace."""
        await self._write_rows("save_workspace", [(row.id, os.fsencode(row.root))])

    async def drop_workspace(self, workspace: str) -> None:
        """Delete a workspace."""
        await self._write_rows("drop_workspace", [(workspace,)])

    async def save_instance(self, row: InstanceRow) -> bool:
        """Insert an instance, replacing the previous one of its workspace.

        Returns:
            False if the next manager will not know of it: neither the state file nor the file of unsaved
            writes can be written.
        """
        values = (row.workspace, row.instance, row.pid, row.started, row.nonce, row.secret, row.port)
        return await self._write_rows("save_instance", [values])

    async def drop_instance(self, workspace: str, instance: str) -> None:
        """Delete an instance that has ended."""
        await self._write_rows("drop_instance", [(workspace, instance)])

    async def save_sessions(self, rows: Iterable[SessionRow]) -> None:
        """Insert or update sessions."""
        values = [
            (row.id, row.revision, row.client_name, row.client_version, row.capabilities, row.workspace,
             None if row.cwd is None else os.fsencode(row.cwd), row.seen, int(row.used), row.mode,
             row.log_level, row.subscriptions, row.source, row.last_workspace)
            for row in rows
        ]  # fmt: skip
        if values:
            await self._write_rows("save_session", values)

    async def drop_sessions(self, identities: Iterable[str]) -> None:
        """Delete sessions by id."""
        values = [(identity,) for identity in identities]
        if values:
            await self._write_rows("drop_session", values)

    async def save_registered(self, roots: Mapping[str, bool]) -> None:
        """Note roots that got a registered server (true) or lost their last one (false)."""
        for verb, is_served in (("save_registered", True), ("drop_registered", False)):
            values = [(os.fsencode(root),) for root, served in roots.items() if served is is_served]
            if values:
                await self._write_rows(verb, values)

    async def retry(self) -> None:
        """Save what could not be saved, if that is possible again. Make a file again that was removed."""
        await self._run(self._retry)

    async def close(self) -> None:
        """Close the file."""
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    # -- on the store's thread -----------------------------------------------------------------------

    def _open(self) -> Loaded:
        self._unsaved.load()
        try:
            return self._connect(OPEN_WAIT_S)
        except (sqlite3.OperationalError, OSError, UnsafePathError) as error:
            self._degrade(f"state cannot be opened: {self._cause(error)}")
            return Loaded()
        except (sqlite3.DatabaseError, OverflowError, TypeError, ValueError) as error:
            self._set_aside(str(error))
        try:
            return self._connect(0)
        except (sqlite3.Error, OSError, UnsafePathError) as error:
            self._degrade(f"state cannot be saved: {self._cause(error)}")
            return Loaded()

    def _connect(self, wait_s: float) -> Loaded:
        make_private(self._path.parent)
        descriptor = _create(self._path)
        self._inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        database = sqlite3.connect(self._path, timeout=wait_s, isolation_level=None, check_same_thread=False)
        try:
            prepare(database)
            if self._unsaved:
                self._save_unsaved(database)
            loaded = load(database)
            database.execute(f"PRAGMA busy_timeout={int(WRITE_WAIT_S * 1000)}")
        except BaseException:
            database.close()
            raise
        self._database = database
        return loaded

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
            self._degrade(f"the corrupt state file cannot be set aside: {self._cause(error)}")
        else:
            self.degraded = f"the state file was corrupt and is kept as {target.name}"

    def _close(self) -> None:
        self._unsaved.keep()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _execute(self, verb: str, rows: list[Row]) -> bool:
        """Save rows, or keep them for `retry`. False if they would not survive the manager."""
        if self._database is None or self._unsaved:  # later writes must not overtake those
            return self._keep(verb, rows)
        try:
            commit(self._database, [(verb, rows)])
        except UnicodeEncodeError as error:  # no later attempt would succeed
            self._degrade(f"state cannot be saved: {error}")
            return False
        except sqlite3.Error as error:
            self._degrade(f"state cannot be saved: {error}")
            return self._keep(verb, rows)
        return True

    def _keep(self, verb: str, rows: list[Row]) -> bool:
        """Keep rows for `retry`. Instances are in the file at once, all else with the next `retry`."""
        self._unsaved.add(verb, rows)
        return verb != "save_instance" or self._unsaved.keep()

    def _retry(self) -> None:
        what = "opened" if self._database is None else "saved"
        try:
            if self._database is None:
                self._connect(0)
            elif not self._is_in_place():
                self._make_again(self._database)
            elif self._unsaved:
                self._save_unsaved(self._database)
        except (sqlite3.Error, OSError, UnsafePathError) as error:
            self._degrade(f"state cannot be {what}: {self._cause(error)}")
            self._unsaved.keep()
        else:
            self._recover()

    def _recover(self) -> None:
        if self.degraded is not None and self.degraded.startswith(_CURABLE):
            logger().info("state.recovered", was=self.degraded)
            self.degraded = None

    def _save_unsaved(self, database: sqlite3.Connection) -> None:
        commit(database, self._unsaved.batches())
        self._unsaved.clear()

    def _is_in_place(self) -> bool:
        """Whether the file that is open still has its name."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _make_again(self, database: sqlite3.Connection) -> None:
        """Copy the open database, whose file was removed, to a new file."""
        self._degrade(f"state cannot be saved: {self._path} was removed")
        make_private(self._path.parent)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        os.close(_create(self._path))
        with closing(sqlite3.connect(self._path)) as copy:
            database.backup(copy)
        self._database = None
        database.close()
        self._connect(0)

    def _cause(self, error: Exception) -> str:
        return f"{error}: {self._path}" if isinstance(error, sqlite3.Error) else worded(error)

    def _degrade(self, why: str) -> None:
        if self.degraded != why:
            logger().error("state.degraded", why=why, until_then=_UNTIL_THEN)
        self.degraded = why

    # -- on the event loop ---------------------------------------------------------------------------

    async def _write_rows(self, verb: str, rows: list[Row]) -> bool:
        return await self._run(lambda: self._execute(verb, rows))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _create(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | file_calls.NO_LINK, 0o600)
