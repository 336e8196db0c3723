"""Random faults under load: kills, pauses and restarts of manager, workspace servers and their stdio servers.

Clients of both eras call meanwhile, with nonces that a server writes down. So it is known afterwards which
calls ran twice, which answers went to somebody else, and whether a refusal told the truth. The servers of one
project get no faults; its calls are timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession, TCPConnector

from scripts.benchmarks.environment.processes import rss_mb
from scripts.benchmarks.results.table import table
from scripts.reliability.nonce_clients import NonceClient, Record, ledger_entry
from scripts.reliability.random_faults import RandomFaults
from support.processes.managers.manager_home import ManagerHome, manager_home, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import configure, legacy, modern

WARM_S, CALM_S = 3.0, 7.0
"""Seconds at the beginning that are not timed, and that are timed without faults, for comparison."""
RECOVERY_S = 60.0
QUIET_S = 10.0
"""How long ended processes may take to vanish from the process table."""
SETTINGS = {"grace_s": 30, "drain_s": 5}
PROJECTS = ("one", "two", "neighbour")


@dataclass
class Found:
    """The figures of a run."""

    record: Record
    faults: Counter[str] = field(default_factory=Counter)
    ran: int = 0
    doubled: int = 0
    untrue: int = 0
    dead: int = 0
    surplus: int = 0
    orphans: int = 0
    memory: tuple[float, float] = (0.0, 0.0)

    @property
    def broken_promises(self) -> dict[str, int]:
        """What must be zero."""
        counts = self.record.counts
        return {
            "sessions lost": counts["lost"],
            "calls that ran twice": self.doubled,
            "answers of another call": counts["mixed"],
            "calls without an answer or an end within 60 s": counts["unanswered"],
            "calls that ran although their refusal says that they did not": self.untrue,
            "clients that could not call afterwards": self.dead,
            "processes too many afterwards": self.surplus,
            "processes left after the stop": self.orphans,
        }

    @property
    def holds(self) -> bool:
        """Whether all promises were kept."""
        return not any(self.broken_promises.values())

    def text(self) -> str:
        """The figures as Markdown tables."""
        counts, waits = self.record.counts, self.record.waits
        rows: list[tuple[object, ...]] = [(f"faults: {name}", n) for name, n in sorted(self.faults.items())]
        rows += [("calls answered", counts["answered"]), ("calls refused with a reason", counts["refused"])]
        rows += [("calls cut off with the manager's connections", counts["broken"])]
        rows += [(f"**{what}**", number) for what, number in self.broken_promises.items()]
        for phase in ("before", "during"):
            rows.append((f"p99 of the neighbour's calls {phase} the faults, ms", _p99(waits[phase])))
        rows += [("manager's memory before and at most, MiB", f"{self.memory[0]:.0f}, {self.memory[1]:.0f}")]
        return table(("figure", "value"), rows)


def _p99(seconds: list[float]) -> float:
    return 1000 * statistics.quantiles(seconds, n=100)[98] if len(seconds) > 1 else 0.0


async def run(folder: Path, seed: int, seconds: float) -> Found:
    """Run faults for so many seconds, then check what is left."""
    print(f"seed {seed}", flush=True)
    record = Record()
    found = Found(record)
    ledger = folder / "ledger"
    async with (
        manager_home(folder / "user", forks=True) as home,
        ClientSession(connector=TCPConnector(limit=0)) as http,
    ):
        configure(home, ledger_entry(ledger))
        manager = await home.start(**SETTINGS)
        faults = RandomFaults(home, manager, SETTINGS, random.Random(seed), record)
        clients = await _clients(home, http, folder, record, faults)
        await _under_load(clients, faults, seconds, found)
        found.faults = faults.counts
        await _afterwards(home, clients, faults, found)
    _compare(ledger.read_text().split(), found)
    return found


async def _clients(
    home: ManagerHome, http: ClientSession, folder: Path, record: Record, faults: RandomFaults
) -> list[NonceClient]:
    """Two clients of each era in each project; the last project gets no faults."""
    found = []
    for name in PROJECTS:
        project = make_project(folder / name)
        address, timed = faults.manager.address, name == PROJECTS[-1]
        first = await legacy(http, address, project)
        pair = [first, await legacy(http, address, project)]
        both = [*pair, *(modern(http, address, project) for _ in range(2))]
        found += [NonceClient(f"{name}{n}", one, project, record, timed=timed) for n, one in enumerate(both)]
        if not timed:
            faults.workspaces.append(
                home.control.post("/resolve", {"cwd": str(project)})["match"]["workspace"]
            )
    await asyncio.gather(*(one.call() for one in found))
    return found


async def _under_load(clients: list[NonceClient], faults: RandomFaults, seconds: float, found: Found) -> None:
    stop = asyncio.Event()
    load = [asyncio.create_task(one.run(stop)) for one in clients]
    memory = asyncio.create_task(_watch_memory(faults, found))
    try:
        await asyncio.sleep(WARM_S)
        found.record.phase = "before"
        await asyncio.sleep(CALM_S)
        found.record.phase = "during"
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await faults.one()
    finally:
        stop.set()
        await asyncio.gather(*load)
        memory.cancel()


async def _watch_memory(faults: RandomFaults, found: Found) -> None:
    first = rss_mb([faults.manager.pid])
    while True:
        found.memory = (first, max(found.memory[1], rss_mb([faults.manager.pid])))
        await asyncio.sleep(0.5)


async def _afterwards(
    home: ManagerHome, clients: list[NonceClient], faults: RandomFaults, found: Found
) -> None:
    """Every client must be able to call again; only what is needed may run, and nothing after the stop."""
    found.dead = (await asyncio.gather(*(_recovered(one) for one in clients))).count(False)
    with contextlib.suppress(AssertionError):
        await until(lambda: len(home.servers()) <= len(PROJECTS), QUIET_S)
    found.surplus = max(0, len(home.servers()) - len(PROJECTS))
    await faults.stop_manager()
    with contextlib.suppress(AssertionError):
        await home.emptied(QUIET_S)
    found.orphans = len(home.processes())


async def _recovered(client: NonceClient) -> bool:
    deadline = time.monotonic() + RECOVERY_S
    while time.monotonic() < deadline:
        if await client.call():
            return True
        await asyncio.sleep(0.2)
    return False


def _compare(ledger: list[str], found: Found) -> None:
    """Compare what ran with what the callers were told."""
    times = Counter(ledger)
    found.ran = len(times)
    found.doubled = sum(1 for number in times.values() if number > 1)
    found.untrue = len(found.record.refused & set(times))
