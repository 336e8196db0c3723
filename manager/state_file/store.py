"""Stores what survives the manager in SQLite: workspaces, running instances and sessions.

One thread of its own accesses the database, so that a slow disk never blocks the event loop. If the database
cannot be used, the manager keeps serving, `degraded` says why, and `retry` saves later what could not be
saved (`unsaved_writes.py`). A corrupt file is set aside, not overwritten.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from lm_tools_bridge.machine.files.disk_errors import worded
from lm_tools_bridge.machine.files.private_files import UnsafePathError, make_private
from manager.logs.log import logger
from manager.state_file.tables import InstanceRow, Loaded, SessionRow, WorkspaceRow, commit, load, prepare
from manager.state_file.unsaved_writes import Row, UnsavedWrites

_KEPT_CORRUPT: Final = 3
OPEN_WAIT_S: Final = 10.0
"""How long a start waits for another program that has the file locked."""
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
        await self._write("save_workspace", [(row.id, os.fsencode(row.root))])

    async def drop_workspace(self, workspace: str) -> None:
        """Delete a workspace."""
        await self._write("drop_workspace", [(workspace,)])

    async def save_instance(self, row: InstanceRow) -> bool:
        """Insert an instance, replacing the previous one of its workspace.

        Returns:
            False if the next manager will not know of it: neither the state file nor the file of unsaved
            writes can be written.
        """
        values = (row.workspace, row.instance, row.pid, row.started, row.nonce, row.secret, row.port)
        return await self._write("save_instance", [values])

    async def drop_instance(self, workspace: str, instance: str) -> None:
        """Delete an instance that has ended."""
        await self._write("drop_instance", [(workspace, instance)])

    async def save_sessions(self, rows: Iterable[SessionRow]) -> None:
        """Insert or update sessions."""
        values = [
            (row.id, row.revision, row.client_name, row.client_version, row.capabilities, row.workspace,
             None if row.cwd is None else os.fsencode(row.cwd), row.seen, int(row.used), row.mode,
             row.log_level, row.subscriptions, row.source, row.last_workspace)
            for row in rows
        ]  # fmt: skip
        if values:
            await self._write("save_session", values)

    async def drop_sessions(self, identities: Iterable[str]) -> None:
        """Delete sessions by id."""
        values = [(identity,) for identity in identities]
        if values:
            await self._write("drop_session", values)

    async def save_registered(self, roots: Mapping[str, bool]) -> None:
        """Note roots that got a registered server (true) or lost their last one (false)."""
        for verb, is_served in (("save_registered", True), ("drop_registered", False)):
            values = [(os.fsencode(root),) for root, served in roots.items() if served is is_served]
            if values:
                await self._write(verb, values)

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

    async def _write(self, verb: str, rows: list[Row]) -> bool:
        return await self._run(lambda: self._execute(verb, rows))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _create(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
