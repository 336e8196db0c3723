"""Servers that hang, crash, flood or do not exist are told of, and nobody else notices them (T-13, T-89, F39)."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import ClientSession

from protocol import names
from support.families import TOOLS, configure, entry, legacy, number
from support.front_door import LegacyClient
from support.manager import make_project
from support.manager_home import ManagerHome, until
from support.patience import within
from support.stdio_children import program

GOOD = ("good", "fine", "well")
HUNG = program("while True: time.sleep(1000)")
CRASHING = program("""
with open(os.environ["STARTS"], "a") as starts: starts.write("x")
sys.stderr.write("no idea what to do\\n")
sys.exit(3)
""")
FLOODING = program(f"""
import threading
def flood(write):
    while not os.path.exists(os.environ["QUIET"]): write(b"what I always wanted to say\\n" * 100)
for write in put, lambda data: os.write(2, data):
    threading.Thread(target=flood, args=[write], daemon=True).start()
{TOOLS}""")
ROUNDS = 5
CALLS = 20
SLACK_S = 0.001
"""What a call may take longer besides: a turn of a busy loop."""


async def median(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds that it takes, one after the other."""
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def compared(
    without: Callable[[], Awaitable[object]], beside: Callable[[], Awaitable[object]]
) -> tuple[float, float]:
    """The medians of interleaved rounds, so that what else the machine does concerns both."""
    await without()
    await beside()
    rounds = [(await median(without), await median(beside)) for _ in range(ROUNDS)]
    return statistics.median(one for one, _ in rounds), statistics.median(one for _, one in rounds)


async def asked(home: ManagerHome, ask: str, project: Path, **more: str) -> dict[str, Any]:
    """What the command line is told."""
    return await asyncio.to_thread(home.control.post, f"/{ask}", {"cwd": str(project), **more})


async def sources(home: ManagerHome, project: Path) -> dict[str, dict[str, Any]]:
    """The sources by namespace."""
    found = (await asked(home, "inspect", project))["sources"]
    return {one["id"].removeprefix("stdio:"): one for one in found}


async def state_of(home: ManagerHome, project: Path, name: str, state: str) -> dict[str, Any]:
    """A source once it is in that state."""
    async with asyncio.timeout(within(5)):
        while (one := (await sources(home, project))[name])["state"] != state:
            await asyncio.sleep(0.05)
    return one


class Street:
    """Two projects with the same good servers. Beside those of `spoiled` live bad ones, and as many quiet
    ones beside those of `clean`."""

    def __init__(self, home: ManagerHome, folder: Path) -> None:
        self.home = home
        self.starts = folder / "starts"
        self.quiet = folder / "quiet"
        bad = [
            entry("hung", HUNG),
            entry("flooding", FLOODING, env={"QUIET": str(self.quiet)}),
            entry("missing", ("no-such-program-anywhere",)),
            entry("crashing", CRASHING, env={"STARTS": str(self.starts)}),
        ]
        self.spoiled = self._project(folder / "spoiled", bad)
        self.clean = self._project(
            folder / "clean", [entry(f"quiet{n}", program(TOOLS)) for n in range(len(bad))]
        )
        configure(home, *(entry(name, program(TOOLS)) for name in GOOD))

    async def clients(self, http: ClientSession, address: str) -> tuple[LegacyClient, LegacyClient]:
        """A client of either project, whose servers are trusted and awake."""
        clients = []
        for project in (self.clean, self.spoiled):
            assert (await self.home.lmtb("trust", "--yes", cwd=project)).code == 0
            clients.append(await legacy(http, address, project))
            await clients[-1].ask(names.TOOLS_LIST)
            for name in GOOD:
                await number(clients[-1], f"{name}__pid")
        return clients[0], clients[1]

    @staticmethod
    def _project(folder: Path, servers: list[str]) -> Path:
        return make_project(folder, **{".lm-tools-bridge/workspace.toml": "\n".join(servers)})

    def tries(self) -> int:
        """How often the crashing one was started."""
        return len(self.starts.read_text())


@pytest.fixture
async def street(home: ManagerHome, tmp_path: Path) -> Street:
    return Street(home, tmp_path)


async def test_lists_and_calls_of_the_others_are_as_quick_as_without_them(
    street: Street, home: ManagerHome, http: ClientSession
) -> None:
    """T-13, T-93, T-105, F39: half as much again at most; and what is wrong is told."""
    manager = await home.start()
    clean, spoiled = await street.clients(http, manager.address)
    await state_of(home, street.spoiled, "flooding", "ready")
    for ask in (lambda who: number(who, "good__pid"), lambda who: who.ask(names.TOOLS_LIST)):
        without, beside = await compared(partial(ask, clean), partial(ask, spoiled))
        assert beside <= 1.5 * without + SLACK_S, (without, beside)

    told = await sources(home, street.spoiled)
    assert {name: told[name]["state"] for name in (*GOOD, "hung", "flooding", "missing")} == {
        **dict.fromkeys(GOOD, "ready"), "hung": "starting", "flooding": "ready", "missing": "failed",
    }  # fmt: skip
    assert told["crashing"]["state"] in {"backoff", "starting", "crash_looping"}
    assert told["crashing"]["error"] == "exited with code 3"
    assert told["crashing"]["stderr"][-1] == "no idea what to do"
    assert "no-such-program-anywhere" in told["missing"]["error"]
    assert told["flooding"]["junk"] > 1_000
    assert told["flooding"]["firstJunk"][0] == "what I always wanted to say"
    issues = (await asked(home, "inspect", street.spoiled))["issues"]
    assert {"SOURCE_JUNK_OUTPUT", "SOURCE_UNAVAILABLE", "SOURCE_STARTING"} <= {one["code"] for one in issues}


async def test_a_server_in_a_crash_loop_is_left_alone_and_costs_nothing(
    street: Street, home: ManagerHome, http: ClientSession
) -> None:
    """T-89, F39: one try in 60 s whoever lists or calls, one at once when the user says so; CPU of some %."""
    street.quiet.touch()
    manager = await home.start()
    _, client = await street.clients(http, manager.address)
    for tries in range(2, 6):
        await until(lambda n=tries: street.tries() >= n - 1, within(2))  # type: ignore[misc]
        await asked(home, "refresh", street.spoiled, source="stdio:crashing")
    await state_of(home, street.spoiled, "crashing", "crash_looping")
    tries = street.tries()

    server = psutil.Process(next(p for w, p in (await home.server_pids()).items() if w.startswith("spoiled")))
    async with client.stream():
        for _ in range(3):
            await client.ask(names.TOOLS_LIST)
        refused = (await client.call("crashing__pid")).message
        used, began = sum(server.cpu_times()[:2]), time.monotonic()
        await asyncio.sleep(2)
        share = (sum(server.cpu_times()[:2]) - used) / (time.monotonic() - began)
    assert "error" in refused  # it never told of any tool
    assert share < 0.05
    assert street.tries() == tries
    await asked(home, "refresh", street.spoiled, source="stdio:crashing")
    await until(lambda: street.tries() == tries + 1, within(2))
    told = await state_of(home, street.spoiled, "crashing", "crash_looping")
    assert told["restarts"] == tries
