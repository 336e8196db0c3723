"""Kills a manager under load, again and again, and checks what its recorder has lost.

Usage: python -m scripts.reliability.recorder_kills [--times 50]

Each time the database must be whole, and every call that was answered more than a second before the kill must
be in it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import sqlite3
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from manager.client import ManagerFault, NoManager
from manager.configuration.paths import Paths
from support.clients import stateless_requests as stateless
from support.processes.managers.manager_process import ManagerProcess, running_manager

LOSS_S: Final = 1.0
"""Seconds of calls that may be lost."""
CLIENTS: Final = 4
LOAD_S: Final = (0.7, 2.0)
"""Seconds of load before a kill."""
PAUSE_S: Final = 0.01
"""Seconds between two calls of a client: of too many, not each has a record."""


@dataclass
class Load:
    """Clients that call a tool without end; each call has a trace of its own.

    Attributes:
        answered: when each call was answered (monotonic seconds), by its `traceparent`.
    """

    port: int
    path: str
    answered: dict[str, float] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def call_until_stopped(self) -> None:
        """Call, until the manager is gone."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            while not self.stopped.wait(PAUSE_S):
                trace = f"00-{random.getrandbits(128):032x}-{random.getrandbits(64):016x}-01"
                params = {"name": "calculator", "arguments": {"expression": "6*7"}}
                body = stateless.body_of("tools/call", params, 7, traceparent=trace)
                fields = {"Content-Type": "application/json", **stateless.headers_of(body, None)}
                fields["Accept"] = "application/json, text/event-stream"
                try:
                    connection.request("POST", self.path, json.dumps(body), fields)
                    if b'"result"' in connection.getresponse().read():
                        self.answered[trace] = time.monotonic()
                except (OSError, http.client.HTTPException):
                    return


@dataclass(frozen=True)
class Killed:
    """What one kill did.

    Attributes:
        answered, lost: calls that were answered, and those of them that are not recorded.
        lost_s: how long before the kill the first lost one was answered.
        is_whole: whether the database is undamaged.
    """

    answered: int
    lost: int
    lost_s: float
    is_whole: bool

    @property
    def is_fine(self) -> bool:
        """Whether the recorder kept its promise."""
        return self.is_whole and self.lost_s <= LOSS_S and self.answered > 0


def killed(folder: Path, project: Path, seconds: float) -> Killed:
    """Run a manager under load for some seconds, kill it, and look at its records."""
    with running_manager(folder) as manager:
        load = loaded(manager, project)
        clients = [threading.Thread(target=load.call_until_stopped) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(seconds)
        at = time.monotonic()
        manager.kill()
        load.stopped.set()
        for client in clients:
            client.join()
    return judged(Paths.of_user(manager.environ).calls_file, load.answered, at)


def loaded(manager: ManagerProcess, project: Path) -> Load:
    """The load for a manager, whose workspace server runs by then."""
    done = manager.lmtb("call", "calculator", '{"expression": "1+1"}', cwd=project)
    if done.returncode:
        raise RuntimeError(done.stderr)
    workspace = manager.control.post("/resolve", {"cwd": str(project)})["match"]["workspace"]
    port = int(manager.address.removesuffix("/mcp").rpartition(":")[2])
    return Load(port, f"/w/{workspace}/mcp")


def judged(file: Path, answered: dict[str, float], at: float) -> Killed:
    """Compare the calls that were answered with those that are recorded."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        is_whole = database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        recorded = {row[0] for row in database.execute("SELECT trace FROM calls WHERE trace IS NOT NULL")}
    lost = [moment for trace, moment in answered.items() if trace not in recorded]
    return Killed(len(answered), len(lost), at - min(lost, default=at), is_whole)


def main() -> int:
    """Kill as often as asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="Kills a manager under load and checks its recorder.")
    parser.add_argument("--times", type=int, default=50)
    times = parser.parse_args().times
    broken = 0
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        (project / ".git").mkdir(parents=True)
        for number in range(1, times + 1):
            try:
                found = killed(Path(folder) / "user", project, random.uniform(*LOAD_S))
            except (NoManager, ManagerFault) as fault:
                print(f"{number}: the manager did not start: {fault}")
                broken += 1
                continue
            worst = max(worst, found.lost_s)
            broken += not found.is_fine
            print(
                f"{number}/{times}: {found.answered} calls answered, {found.lost} lost, the first of them"
                f" {found.lost_s:.2f} s before the kill; {'fine' if found.is_fine else 'BROKEN'}",
                flush=True,
            )
    print(f"{times} kills, {broken} broken promises, at most {worst:.2f} s lost")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
