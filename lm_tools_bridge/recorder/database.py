"""Opens the recorder's database: to write, or read-only from another thread or process."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.private_files import make_private
from lm_tools_bridge.recorder.tables import check_version, prepare

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
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags, 0o600)
    try:
        if os.name == "posix":
            os.fchmod(file, 0o600)  # it may be a copy, or from a backup
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
