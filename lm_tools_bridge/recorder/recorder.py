"""Records calls: takes them from the event loop, and writes them in batches from a thread of its own.

If the database cannot be used, calls are counted as lost, and everything else goes on. A manager that is
killed loses at most the calls of the last `FLUSH_S` seconds.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import UnsafePathError
from lm_tools_bridge.recorder import retention
from lm_tools_bridge.recorder.contents import ActiveProjects, Deadlines, insert_contents, read_rules
from lm_tools_bridge.recorder.database import NewerFile, open_to_write
from lm_tools_bridge.recorder.rows import WHOLE_PER_S, Chosen, Labels, SourcesOf, allowance, choose, insert
from manager.call_observer import TASK, CallLabel, EndedCall, is_failure
from manager.configuration.budgets import MAX_UNRECORDED_CALLS
from manager.log import logger

FLUSH_S: Final = 0.5
"""Two transactions a second cost little whatever the number of calls, and so much is lost by a crash."""
WRITE_NOW_S: Final = 1.0
"""Longest a reader waits for what has just ended: a slow disk must not stop it from showing the rest."""
SWEEP_S: Final = 60.0
"""Seconds between two looks at the size and age of the database."""
SWEEP_CALLS: Final = 20_000
"""Calls after which its size is looked at in any case."""
REOPEN_S: Final = 5.0
"""Seconds between two attempts to open a database that could not be opened."""
MOST_TOOLS: Final = 200
"""Tools that are counted one by one: each adds lines to the metrics, and servers may have any number."""
OTHER: Final = "(other)"
"""Stands for all tools after the first `MOST_TOOLS`."""


class ToolTotal(NamedTuple):
    """The calls of one tool of one workspace."""

    workspace: str
    tool: str
    calls: int
    errors: int


class ToolTotals:
    """Counts calls and errors of each tool since the start. One thread adds; any may call `list_totals`."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}

    def add(self, choice: Chosen) -> None:
        """Count calls. Calls that are no calls of tools are left out."""
        counters: dict[CallLabel, list[int]] = {}
        more = choice.more
        for index, call in enumerate(choice.calls):
            label = call.origin.label
            counter = counters.get(label)
            if counter is None:
                counter = counters[label] = self._counter_of(label)
            count = 1 + more.get(index, 0) if more else 1
            if call.outcome == TASK:
                continue  # it counts when it has ended
            counter[0] += count
            if is_failure(call.outcome):
                counter[1] += count

    def _counter_of(self, label: CallLabel) -> list[int]:
        """The counters of a label; for calls that are no calls of tools, some that nobody reads."""
        if label.method != "tools/call" or not label.workspace:
            return [0, 0]
        counts = self._counts
        key = label.workspace, label.tool
        if key not in counts and len(counts) >= MOST_TOOLS:
            key = (OTHER, OTHER)
        return counts.setdefault(key, [0, 0])

    def list_totals(self) -> tuple[ToolTotal, ...]:
        """A copy of the counts."""
        return tuple(ToolTotal(*key, *value) for key, value in list(self._counts.items()))


class Limits(msgspec.Struct, frozen=True):
    """How much is kept.

    Attributes:
        size: bytes of the database.
        age_s: seconds that calls are kept.
        contents_age_s: seconds that arguments and results are kept.
        hidden_keys: names of members whose values are hidden in contents.
        whole_per_s: calls a second that may have a row each for any length of time.
    """

    size: int
    age_s: float
    contents_age_s: float
    hidden_keys: Collection[str] = ()
    whole_per_s: float = WHOLE_PER_S


class Recorder:
    """Writes ended calls to the database.

    Args:
        path: of the database.
        limits: how much is kept.
        wall: seconds since 1970.
        now: monotonic seconds.

    Attributes:
        observe_call: takes an ended call; to be called by the event loop only.
        workspaces_with_contents: those whose contents are recorded.
        problem: why nothing can be recorded, None if all is well.
        written, lost: calls since the start that were written or counted in a row of another, and that could
            not be.
        tools: the counts of each tool.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        *,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._limits = limits
        self._wall, self._clock = wall, now
        self._waiting: deque[EndedCall] = deque(maxlen=MAX_UNRECORDED_CALLS)
        self.observe_call: Callable[[EndedCall], None] = self._waiting.append
        self.workspaces_with_contents = ActiveProjects()
        self.problem: str | None = None
        self.written = self.lost = 0
        self.tools = ToolTotals()
        self._labels = Labels()
        self._deadlines = Deadlines()
        self._expiry = retention.ExpiryClock(wall(), now())
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._next_open = self._next_sweep = 0.0
        self._allowance = allowance(limits.whole_per_s, now())
        self._unswept = self._reported = 0
        self._is_stopping = False
        self._wake = threading.Event()
        self._flushed = threading.Condition()
        self._begun = self._done = 0  # flushes, of which the last one that is done
        self._thread: threading.Thread | None = None

    def start(self, sources: SourcesOf = lambda _: ()) -> None:
        """Start the thread. It calls `sources`, which tells the sources of a workspace."""
        self._labels = Labels(sources)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def as_json(self) -> dict[str, Any]:
        """What the status shows."""
        state = {"problem": self.problem, "written": self.written, "lost": self.lost}
        return {**state, "contents": bool(self.workspaces_with_contents)}

    def write_now(self, timeout_s: float = WRITE_NOW_S) -> bool:
        """Write the calls that have ended; returns whether that is done after `timeout_s` seconds. Blocks."""
        if self._thread is None:
            return False
        with self._flushed:
            awaited = self._begun + 1  # one that runs now may have taken its calls already
            self._wake.set()
            return self._flushed.wait_for(lambda: self._done >= awaited or self._is_stopping, timeout_s)

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is left and end the thread; blocks for at most `timeout_s` seconds."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    # -- on the recorder's thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.wait(FLUSH_S)
            self._wake.clear()
            with self._flushed:
                self._begun += 1
            self.flush()
            with self._flushed:
                self._done = self._begun
                self._flushed.notify_all()
        self.flush()
        self._disconnect()

    def flush(self) -> None:
        """Write what waits, and look after the database. Belongs to the recorder's thread."""
        try:
            self._look_after()
        except (sqlite3.Error, OSError, UnsafePathError) as error:
            self._failed(error)
        batch = self._take()
        if not batch:
            return
        try:
            row_count = self._keep(batch)
        except Exception as error:  # noqa: BLE001  whatever fails costs its batch only, not the thread
            self._failed(error)
            self.lost += len(batch)
        else:
            self._wrote(len(batch), row_count)

    def _keep(self, batch: list[EndedCall]) -> int:
        """Count calls, and write those that have to be rows; returns how many these are."""
        choice = choose(batch, self._allowance.left(self._clock()))
        self._allowance.spend(len(choice.calls))
        self.tools.add(choice)
        self._write(choice)
        return len(choice.calls)

    def _take(self) -> list[EndedCall]:
        waiting = self._waiting
        if len(waiting) == MAX_UNRECORDED_CALLS:
            logger().warning("recorder.behind", why="the disk is slow: some calls are not recorded")
        return [waiting.popleft() for _ in range(len(waiting))]

    def _write(self, choice: Chosen) -> None:
        database = self._database
        if database is None:
            raise sqlite3.OperationalError(self.problem or "it is not open")
        wall, now = self._wall(), self._clock()
        database.execute("BEGIN IMMEDIATE")
        try:
            first = insert(database, self._labels, choice, wall, now)
            insert_contents(database, first, choice.calls, round(wall * 1000), self._limits.hidden_keys)
        except BaseException:
            self._labels.forget()
            if database.in_transaction:  # a full disk ends it
                database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")

    def _wrote(self, calls: int, rows: int) -> None:
        self.written += calls
        self._unswept += rows
        if self.problem is not None:
            logger().info("recorder.recovered", was=self.problem, lost=self.lost - self._reported)
            self.problem, self._reported = None, self.lost

    def _failed(self, error: Exception) -> None:
        why = f"{error}: {self._path}" if isinstance(error, sqlite3.Error) else worded(error)
        why = f"calls are not recorded: {why}"
        if self._database is None and self.problem is not None:
            return  # told already
        if self.problem is None:
            logger().error("recorder.stopped", why=why, until_then="calls go on, and are counted as lost")
        self.problem = why

    # -- the database --------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        now = self._clock()
        if self._database is not None and not self._is_in_place():
            self._disconnect()
        if self._database is None and now >= self._next_open:
            self._next_open = now + REOPEN_S
            self._connect()
        database = self._database
        if database is None:
            return
        self.workspaces_with_contents = self._deadlines.active(read_rules(database), self._wall(), now)
        if now >= self._next_sweep or self._unswept >= SWEEP_CALLS:
            self._next_sweep, self._unswept = now + SWEEP_S, 0
            self._sweep(database)

    def _connect(self) -> None:
        try:
            self._database = open_to_write(self._path)
        except NewerFile:
            raise
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
            self._database = open_to_write(self._path)
        self._inode = self._path.stat().st_ino
        self._labels.forget()
        if self.problem is not None and not self._waiting:
            self._wrote(0, 0)

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        corrupt_file = self._path.with_name(f"{self._path.name}.corrupt")
        logger().error("recorder.corrupt", why=str(error), kept_as=str(corrupt_file))
        self._path.replace(corrupt_file)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _disconnect(self) -> None:
        self.workspaces_with_contents = ActiveProjects()
        if self._database is not None:
            self._database.close()
            self._database = None
            self._next_open = 0.0

    def _is_in_place(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _sweep(self, database: sqlite3.Connection) -> None:
        limits, time_s = self._limits, self._expiry.time(self._wall(), self._clock())
        if time_s is not None:
            retention.remove_expired(
                database,
                calls_before=time_s - limits.age_s,
                contents_before=time_s - limits.contents_age_s,
            )
        retention.shrink(database, limits.size)
        database.execute("PRAGMA shrink_memory")  # else its cache of pages stays: 2 MiB
