"""Tests that servers that hang, crash, flood or do not exist affect only their own callers."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import BOTH_WAYS, ManagerHome, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import TOOLS, configure, entry, legacy, number
from support.processes.timeouts import GUARD_S
from support.servers.mcp_sources.stdio_servers import program

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
CRASHES = 5
"""So many within a minute are a loop."""
ROUNDS = 25
"""At most; on an idle machine the first one shows it."""
CALLS = 15
SLACK_S = 0.001
"""What a call may take longer besides: a turn of a busy loop."""


async def median(work: Callable[[], Awaitable[object]]) -> float:
    """The median duration in seconds of sequential calls."""
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def assert_unharmed(
    without: Callable[[], Awaitable[object]], beside: Callable[[], Awaitable[object]]
) -> None:
    """Asserts that in at least one round, calls next to the bad servers take at most 1.5 times as long.

    Other load on the machine can slow down any round; bad servers that disturb others would slow down all.
    """
    await without()
    await beside()
    rounds = []
    for _ in range(ROUNDS):
        rounds.append((await median(without), await median(beside)))
        if rounds[-1][1] <= 1.5 * rounds[-1][0] + SLACK_S:
            return
    raise AssertionError(f"slower in every round (without, beside): {rounds}")


async def control_request(home: ManagerHome, ask: str, project: Path, **more: str) -> dict[str, Any]:
    """Sends a request to the control socket, and returns the answer."""
    return await asyncio.to_thread(home.control.post, f"/{ask}", {"cwd": str(project), **more})


async def sources(home: ManagerHome, project: Path) -> dict[str, dict[str, Any]]:
    """The sources of a project by namespace."""
    found = (await control_request(home, "inspect", project))["sources"]
    return {one["id"].removeprefix("stdio:"): one for one in found}


async def state_of(home: ManagerHome, project: Path, name: str, state: str) -> dict[str, Any]:
    """Waits until a source has this state, and returns the source."""
    async with asyncio.timeout(GUARD_S):
        while (one := (await sources(home, project))[name])["state"] != state:
            await asyncio.sleep(0.05)
    return one


class TwoProjects:
    """Two projects with the same good servers: `spoiled` also has bad ones, `clean` as many idle ones."""

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

    async def trust(self) -> None:
        """Trust both projects. While a manager runs, the command would wait for the hung server."""
        for project in (self.clean, self.spoiled):
            assert (await self.home.lmtb("trust", "--yes", cwd=project)).code == 0

    async def clients(self, http: ClientSession, address: str) -> tuple[SessionClient, SessionClient]:
        """One client for each project, with trusted and started servers."""
        clean, spoiled = await asyncio.gather(
            *(self._client(http, address, project) for project in (self.clean, self.spoiled))
        )
        return clean, spoiled

    async def _client(self, http: ClientSession, address: str, project: Path) -> SessionClient:
        client = await legacy(http, address, project)
        await client.ask(names.TOOLS_LIST)
        for name in GOOD:
            await number(client, f"{name}__pid")
        return client

    @staticmethod
    def _project(folder: Path, servers: list[str]) -> Path:
        return make_project(folder, **{".lm-tools-bridge/workspace.toml": "\n".join(servers)})

    async def server(self) -> psutil.Process:
        """The workspace server that runs the bad servers."""
        pids = await self.home.server_pids()
        return psutil.Process(next(pid for one, pid in pids.items() if one.startswith("spoiled")))

    def crash_starts(self) -> int:
        """How often the crashing server was started."""
        return len(self.starts.read_text())


@pytest.mark.timeout(5 * GUARD_S)
async def test_bad_servers_are_reported_and_do_not_slow_down_others(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Lists and calls of good servers take at most 1.5 times as long as without the bad ones.

    A crash loop has one attempt in 60 s, whoever lists or calls, and one at once when the user asks for it. Once the
    flood has ended, all bad servers together use a few percent of a core.
    """
    projects = TwoProjects(home, tmp_path)
    await projects.trust()
    manager = await home.start(health_interval_s=3600.0)  # a busy machine would make servers unhealthy
    clean, spoiled = await projects.clients(http, manager.address)
    await state_of(home, projects.spoiled, "flooding", "ready")
    for ask in (lambda who: number(who, "good__pid"), lambda who: who.ask(names.TOOLS_LIST)):
        await assert_unharmed(partial(ask, clean), partial(ask, spoiled))
    await assert_reported(home, projects.spoiled)

    while (crash_starts := projects.crash_starts()) < CRASHES:
        await control_request(home, "refresh", projects.spoiled, source="stdio:crashing")
        await until(lambda before=crash_starts: projects.crash_starts() > before, GUARD_S)
    await state_of(home, projects.spoiled, "crashing", "crash_looping")
    projects.quiet.touch()
    await flood_is_read(home, projects.spoiled)
    crash_starts = projects.crash_starts()
    async with spoiled.stream():
        await spoiled.ask(names.TOOLS_LIST)
        refused = (await spoiled.call("crashing__pid")).refusal  # it never told of any tool
        assert refused["reason"] == "source_unavailable"
        assert await share_of_a_core(await projects.server()) < 0.05
    assert projects.crash_starts() == crash_starts
    await control_request(home, "refresh", projects.spoiled, source="stdio:crashing")
    await until(lambda: projects.crash_starts() == crash_starts + 1, GUARD_S)
    status = await state_of(home, projects.spoiled, "crashing", "crash_looping")
    assert status["restarts"] == crash_starts


async def assert_reported(home: ManagerHome, project: Path) -> None:
    """Asserts that the sources have states, errors and the last lines of standard error."""
    async with asyncio.timeout(GUARD_S):
        while not all_have_failed(status := await sources(home, project)):
            await asyncio.sleep(0.05)
    assert {name: status[name]["state"] for name in (*GOOD, "hung", "flooding", "missing")} == {
        **dict.fromkeys(GOOD, "ready"), "hung": "starting", "flooding": "ready", "missing": "failed",
    }  # fmt: skip
    assert status["crashing"]["state"] in {"backoff", "starting", "crash_looping"}
    assert "exited with code 3" in status["crashing"]["error"]
    assert "no-such-program-anywhere" in status["missing"]["error"]
    assert status["flooding"]["junk"] > 1_000
    assert status["flooding"]["firstJunk"][0] == "what I always wanted to say"
    assert status["flooding"]["stderr"][-2] == "what I always wanted to say"  # the last line may be cut
    issues = (await control_request(home, "inspect", project))["issues"]
    assert {"SOURCE_JUNK_OUTPUT", "SOURCE_UNAVAILABLE", "SOURCE_STARTING"} <= {one["code"] for one in issues}


def all_have_failed(status: dict[str, dict[str, Any]]) -> bool:
    """Whether each bad server but the hung one has failed in its way."""
    has_errors = all(status[name]["error"] for name in ("crashing", "missing"))
    return has_errors and status["flooding"]["junk"] > 1_000 and len(status["flooding"]["stderr"]) > 1


async def flood_is_read(home: ManagerHome, project: Path) -> None:
    """Wait until the workspace server has read everything that the flooding server wrote."""
    before = -1
    async with asyncio.timeout(GUARD_S):
        while (junk := (await sources(home, project))["flooding"]["junk"]) != before:
            before = junk
            await asyncio.sleep(0.3)


async def share_of_a_core(process: psutil.Process, seconds: float = 1.5) -> float:
    """The share of a core that a process uses."""
    used, began = sum(process.cpu_times()[:2]), time.monotonic()
    await asyncio.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told whom to end first")
@BOTH_WAYS
async def test_servers_go_before_the_manager_when_memory_runs_out(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    manager = await home.start()
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))

    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    assert [score(pid) > score(manager.pid) for pid in (await home.server_pids()).values()] == [True]
