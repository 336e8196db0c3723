"""Compares the installed program with the one that runs: unchanged, another version, other files, or gone.

An upgrade replaces the files of a running manager. It goes on with what it has loaded, and tells the user.
What it needs later is loaded soon after its start: at the start it would double the time to the first
answer.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from manager import __version__
from manager.log import logger

AFTER_S: Final = 0.5
"""Delay after the start, so that the first requests do not wait for it."""
MODULES: Final = (
    "manager.admin.prometheus_text",
    "psutil",
    "ctypes",
)
"""Modules that are imported where they are used, and not by the server of the pages."""
Load = Callable[[], Awaitable[None]]


async def load(servers: Sequence[Load]) -> None:
    """Load the servers of the pages, then all other modules, one by one in a thread."""
    await asyncio.sleep(AFTER_S)
    for server in servers:
        await server()
    for name in MODULES:
        with suppress(ImportError):  # told where it is needed
            await asyncio.to_thread(import_module, name)
    logger().debug("late_modules.loaded")


# An upgrade is told soon after it; a look costs a few `stat`.
CHECK_S: Final = 10.0
GONE_CHECK_S: Final = 0.5
"""An installer removes the program and puts the new one there within a second or two: nobody is to read that
it is gone when it is there again.
"""
FOLDER: Final = Path(__file__).parents[1]
"""Where the packages are: `site-packages`, or a checkout."""
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


class State(StrEnum):
    """How the installed program differs from the one that runs."""

    CURRENT = "current"
    OTHER_VERSION = "other_version"
    CHANGED = "changed"
    GONE = "gone"


class Installed(NamedTuple):
    """The program on disk.

    Attributes:
        version: None if its file says none.
        record: a checksum of the installer's list of files; None in a checkout, whose files may change.
    """

    version: str | None
    record: int | None


def read(folder: Path = FOLDER) -> Installed | None:
    """The program that is installed now; None if it is gone. Blocks.

    Raises:
        OSError: it cannot be read.
    """
    try:
        text = (folder / "manager" / "__init__.py").read_text("utf-8", "replace")
        records = sorted(folder.glob("lm_tools_bridge-*.dist-info/RECORD"))
        record = zlib.crc32(records[-1].read_bytes()) if records else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    match = _VERSION.search(text)
    return Installed(match.group(1) if match else None, record)


def compare(running: Installed | None, installed: Installed | None) -> State:
    """How what was found differs from what runs, as it was when it was started."""
    if installed is None:
        return State.GONE
    if running is None or running.version != installed.version:
        return State.OTHER_VERSION
    return State.CURRENT if running.record == installed.record else State.CHANGED


class Installation:
    """The installation of this process, checked regularly.

    Attributes:
        state: as of the last check.
        version: the version on disk at the last check; None if it is gone or says none.
    """

    def __init__(self, folder: Path = FOLDER, running: str = __version__) -> None:
        self._folder = folder
        self._running = Installed(running, self._record())
        self.state = State.CURRENT
        self.version: str | None = running

    def _record(self) -> int | None:
        try:
            installed = read(self._folder)
        except OSError:
            return None
        return None if installed is None else installed.record

    @property
    def problem(self) -> str | None:
        """Why new workspace servers cannot be started, and what to do; None while they can be."""
        if self.state is not State.GONE:
            return None
        return f"the installed program is gone from {self._folder}: install it again, then run lmtb restart"

    async def check(self) -> State:
        """Look at the disk, and log a change."""
        try:
            installed = await asyncio.to_thread(read, self._folder)
        except OSError:  # nothing is known; the next check may tell
            return self.state
        before, self.state = (self.state, self.version), compare(self._running, installed)
        self.version = None if installed is None else installed.version
        if before != (self.state, self.version):
            self._log()
        return self.state

    def _log(self) -> None:
        log = logger()
        if self.problem is not None:
            log.error("installation.gone", why=self.problem)
        elif self.state is State.CURRENT:
            log.info("installation.recovered", version=self.version)
        else:
            log.warning(
                "installation.changed",
                running=self._running.version,
                installed=self.version,
                hint="lmtb restart",
            )

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Check until cancelled."""
        while True:
            await sleep(GONE_CHECK_S if self.state is State.GONE else CHECK_S)
            await self.check()
