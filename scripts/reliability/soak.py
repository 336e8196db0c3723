"""Churn for a long time: does a manager, or a workspace server, grow or slow down?

Each round opens sessions, calls with small and large arguments, and leaves half of the sessions without a
word; they end by their idle time. One project is used in every round; the others take turns, so that their
servers stop and start. Afterwards the memory is read again, once the manager has dropped all sessions.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from aiohttp import ClientSession, TCPConnector

from manager.client import ControlRefusal, ManagerFault, NoManager
from scripts.benchmarks.environment.processes import cpu_ns, rss_mb
from scripts.benchmarks.results.table import table
from scripts.reliability.growth import Sample, least, quarter_medians, trends
from support.clients.raw_clients import Answer, SessionClient
from support.processes.managers.manager_home import ManagerHome, manager_home
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import modern

IDLE_S = 5.0
SETTINGS = {"session_idle_s": IDLE_S, "session_unused_s": IDLE_S, "workspace_idle_s": 3}
"""Sessions and servers that are left end soon, so that a short run sees many ends."""
LEFT_S = 60.0
"""The longest wait until the manager has dropped what was left."""
TOLD_S = 300.0
"""How often a line says how far the run is."""
PROJECTS = 4
TURN_S = 10.0
"""How long a project is used before it is the next one's turn."""
SESSIONS = 20
CALLS = 10
SUM = {"expression": "6*7"}
PADDING = {"example.org/padding": "x" * 512 * 1024}
"""Makes a call large enough for the budget of large bodies."""
GROWTH = {"memory, MiB": 4.0, "open files": 4.0, "threads": 2.0}
"""More than so much after the warm-up is growth."""
WAIT_MS, WORK_US = "a call, ms", "the manager's processor time for a call, µs"
SLOWER = 1.05
"""The last quarter of a run may take so many times the second one. Slower calls count only if the manager
itself works more for each, because other programs make them slower, too."""


@dataclass
class Found:
    """The samples by program, the times of calls, and how much was done."""

    samples: dict[str, list[Sample]] = field(default_factory=lambda: {"manager": [], "workspace server": []})
    times: list[Sample] = field(default_factory=list)
    rounds: int = 0
    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Calls, handshakes and ends of sessions by reason; a busy machine can be too slow for them."""
    starts: int = 0
    idle_mb: tuple[float, float] = (0.0, 0.0)
    """The manager's memory before the first session and after the last one."""

    @property
    def holds(self) -> bool:
        """Whether nothing grows or gets slower."""
        grows = any(
            one.grown > GROWTH[one.name]
            for samples in self.samples.values()
            for one in trends(least(samples))
        )
        return not grows and min(self._slower(name) for name in (WAIT_MS, WORK_US)) <= SLOWER

    def _slower(self, name: str) -> float:
        _, second, _, fourth = quarter_medians(self.times, name)
        return fourth / second if second else 0.0

    def text(self) -> str:
        """The slopes and quarters as Markdown tables."""
        done = (
            f"{self.rounds:,} rounds, {self.rounds * SESSIONS:,} sessions, {self.calls:,} calls, "
            f"{self.starts:,} starts of workspace servers, {self.refused.total():,} refusals."
        )
        reasons = [f"{count:,} x {reason}" for reason, count in self.refused.most_common()]
        done += f" Refusals: {'; '.join(reasons)}." if reasons else ""
        rows = [
            (f"{program}: {one.name}", *one[1:])
            for program, samples in self.samples.items()
            for one in trends(least(samples))
        ]
        heads = ("figure", "after the warm-up", "at the end", "slope per hour", "grown since the warm-up")
        times = [
            (name, *quarter_medians(self.times, name), self._slower(name)) for name in (WAIT_MS, WORK_US)
        ]
        quarters = ("median of", "1st quarter", "2nd", "3rd", "4th", "4th / 2nd")
        before, after = self.idle_mb
        left = f"The manager's memory without sessions: {before:.1f} MiB before, {after:.1f} MiB afterwards."
        return "\n\n".join((done, table(heads, rows), table(quarters, times), left))


async def run(folder: Path, seconds: float) -> Found:
    """Run the churn for so many seconds."""
    found = Found()
    projects = [make_project(folder / f"p{n}") for n in range(PROJECTS)]
    servers: set[int] = set()
    async with manager_home(folder / "user", forks=True) as home:
        manager = await home.start(**SETTINGS)
        began, before = time.monotonic(), rss_mb([manager.pid])
        next_line = TOLD_S
        while time.monotonic() - began < seconds:
            turn = projects[1 + int((time.monotonic() - began) // TURN_S) % (PROJECTS - 1)]
            spent, times = cpu_ns([manager.pid]), list[float]()
            async with ClientSession(connector=TCPConnector(limit=0)) as http:
                for project in (projects[0], turn):
                    times += await _round(http, manager.address, project, found)
            spent, at = cpu_ns([manager.pid]) - spent, time.monotonic() - began
            if times:
                work = {WAIT_MS: 1000 * statistics.median(times), WORK_US: spent / 1000 / len(times)}
                found.times.append(Sample(at, work))
            found.rounds += 1
            found.calls += len(times)
            servers |= home.servers()
            await _sample(home, projects[0], manager.pid, at, found)
            if at >= next_line:
                next_line += TOLD_S
                print(f"{at / 60:.0f} of {seconds / 60:.0f} minutes\n\n{found.text()}\n", flush=True)
        found.starts = len(servers)
        found.idle_mb = before, await _after_sessions(home, manager.pid)
    return found


async def _round(http: ClientSession, address: str, project: Path, found: Found) -> list[float]:
    """Open sessions, call, and end half of them; returns the seconds of each call that was answered."""
    began = time.monotonic()
    opened = (_session(http, address, project, found) for _ in range(SESSIONS // 2))
    sessions = await asyncio.gather(*opened)
    clients = [*sessions, modern(http, address, project)]
    times: list[float | None] = []
    for _ in range(CALLS):
        times += await asyncio.gather(*(_timed(one.call("calculator", SUM), found) for one in clients))
    for one in (sessions[0], clients[-1]):
        await _timed(one.call("calculator", SUM, meta=PADDING), found)
    for one in sessions[::2]:
        async with http.delete(address, headers=one.header(b"")) as response:
            # on a busy machine a round can take longer than a session may be idle
            is_expired = response.status == 404 and time.monotonic() - began > IDLE_S
            assert response.status < 300 or is_expired, response.status
            if is_expired:
                found.refused["a session had ended before its client ended it"] += 1
    return [one for one in times if one is not None]


async def _session(http: ClientSession, address: str, project: Path, found: Found) -> SessionClient:
    client = await SessionClient.connect(http, address)
    _count(await client.handshake(project), found)
    return client


async def _timed(call: Awaitable[Answer], found: Found) -> float | None:
    """The seconds of a call; None if it was refused."""
    began = time.perf_counter()
    answer = await call
    if _count(answer, found):
        return None
    assert answer.payload == {"value": 42}
    return time.perf_counter() - began


def _count(answer: Answer, found: Found) -> bool:
    """Count an answer that is a refusal, by its reason; returns whether it is one."""
    reason = refusal_reason(answer.status, answer.message)
    if reason is not None:
        found.refused[reason] += 1
    return reason is not None


def refusal_reason(status: int, message: Mapping[str, Any]) -> str | None:
    """Why a call was refused: the reason's word, else the begin of the text; None if it was not."""
    if "error" in message:
        error = message["error"]
        return _reason(error.get("data"), f"HTTP {status}: {error['message']}")
    result = message["result"]
    if not result.get("isError"):
        return None
    return _reason(
        result.get("structuredContent"), " ".join(one.get("text", "") for one in result["content"])
    )


def _reason(data: object, text: str) -> str:
    word = data.get("reason") if isinstance(data, dict) else None
    return word if isinstance(word, str) else text[:80]


async def _sample(home: ManagerHome, project: Path, manager: int, at: float, found: Found) -> None:
    """Take the figures of both programs; none while a busy machine cannot tell which server it is."""
    with suppress(ControlRefusal, ManagerFault, NoManager, KeyError, psutil.Error):
        match = (await asyncio.to_thread(home.control.post, "/resolve", {"cwd": str(project)}))["match"]
        server = (await home.server_pids())[match["workspace"]]
        figures = {"manager": _figures(manager), "workspace server": _figures(server)}
        for program, one in figures.items():
            found.samples[program].append(Sample(at, one))


def _figures(pid: int) -> dict[str, float]:
    process = psutil.Process(pid)
    return {"memory, MiB": rss_mb([pid]), "open files": process.num_fds(), "threads": process.num_threads()}


async def _after_sessions(home: ManagerHome, manager: int) -> float:
    """The manager's memory once it has dropped all sessions and servers."""
    status = await home.status()
    deadline = time.monotonic() + LEFT_S
    while status["sessions"] or status["instanceDetails"]:
        assert time.monotonic() < deadline, status
        await asyncio.sleep(1.0)
        status = await home.status()
    return rss_mb([manager])
