"""Measures projects on another host: added latency, calls a second, time to the first answer, memory here.

Both hosts are folders of this machine, with a real sshd between them; one line is as it is, one is delayed.
What a call takes beyond the line is its latency less that of the same call at the manager there, and less the
line's own, which is measured by a byte through `ssh build cat`. All processes share the processors.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from lm_tools_bridge.protocol import names
from manager.client import NoManager
from scripts.benchmarks.other_hosts.delayed_line import delayed_line
from scripts.benchmarks.other_hosts.remote_calls import CONNECTIONS, SUM, timed, times
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section
from scripts.benchmarks.startup import cold
from support.processes.hosts.ssh_hosts import ADDRESS, NAME, SshHosts, ssh_hosts

CALLS: Final = 300
PROJECTS: Final = 40
ROUND_TRIP_MS: Final = 1.0
GONE_S: Final = 30.0
_KIB: Final = 1024


def run(plan: Plan) -> Section:
    """Measure both lines."""
    return asyncio.run(_run(plan))


async def _run(plan: Plan) -> Section:
    figures: dict[str, float] = {}
    async with ssh_hosts(plan.folder / "hosts", forks=True) as hosts:
        bench = _Bench(hosts, hosts.project("first"))
        near = await hosts.near.start()
        bench.port = near.port
        await hosts.add_these_sources()
        plan.say("remote: time to the first answer")
        firsts = await bench.first_answers(plan.rounds)
        login = await asyncio.to_thread(bench.login, plan.rounds)
        figures["remote warm s"], figures["remote cold s"] = firsts
        plan.say("remote: memory")
        figures["remote project KiB"] = await bench.memory(near.pid)
        await bench.stop_there()
        far = await hosts.far.start()
        columns = []
        for name, round_trip in (("", 0.0), (" 1 ms", ROUND_TRIP_MS)):
            plan.say(f"remote: line of {round_trip:g} ms")
            with bench.line(round_trip):
                latency = await asyncio.to_thread(bench.latency, far.port, plan.rounds)
                rate = await asyncio.to_thread(bench.rate, plan.seconds * plan.rounds)
            figures[f"remote added{name} ms"] = latency.added
            columns.append((latency, rate))
        await hosts.far.close()
    return _section(columns, firsts, login, figures)


def _section(
    columns: Sequence[tuple[_Latency, int]],
    firsts: tuple[float, float],
    login: float,
    figures: dict[str, float],
) -> Section:
    (plain, plain_rate), (slow, slow_rate) = columns
    rows = [
        ("the line itself, a byte there and back, p50", _ms(plain.line), _ms(slow.line)),
        ("a call at the manager there, p50", _ms(plain.there), _ms(slow.there)),
        ("the same call from here, p50", _ms(plain.here), _ms(slow.here)),
        ("added to both", _ms(plain.added), _ms(slow.added)),
        (f"calls/s, {CONNECTIONS} connections", plain_rate, slow_rate),
    ]
    latencies = table(("what", "line as it is", f"line of {ROUND_TRIP_MS:g} ms"), rows)
    rest = [
        ("`ssh build true`, alone", f"{login * 1000:,.0f} ms"),
        ("first answer, no line yet, manager and server run there", f"{firsts[0] * 1000:,.0f} ms"),
        ("first answer, no line yet, nothing runs there", f"{firsts[1] * 1000:,.0f} ms"),
        ("memory here of a further project there", f"{figures['remote project KiB']:,.0f} KiB"),
    ]
    data = {"latency": [vars(one) for one, _ in columns], "firsts": firsts, "login": login}
    return Section("remote", f"{latencies}\n\n{table(('what', 'median'), rest)}", data, figures)


def _ms(value: float) -> str:
    return f"{value:.2f} ms"


@dataclass
class _Latency:
    """Medians in milliseconds: of the line, of a call at the manager there, and of the call from here."""

    line: float
    there: float
    here: float

    @property
    def added(self) -> float:
        return self.here - self.there - self.line


class _Bench:
    """What is measured on two hosts.

    Attributes:
        port: of the manager here.
    """

    def __init__(self, hosts: SshHosts, root: Path) -> None:
        self.port = 0
        self._hosts = hosts
        self._root = root

    # -- the first answer -----------------------------------------------------------------------------------

    async def first_answers(self, rounds: int) -> tuple[float, float]:
        """Seconds until the first answer with a warm and with a cold host, medians."""
        warm, without = [], []
        await asyncio.to_thread(self._first, self._root)
        for _ in range(rounds):
            await self._without_line()
            warm.append(await asyncio.to_thread(self._first, self._root))
        for _ in range(rounds):
            await self.stop_there()
            await self._without_line()
            without.append(await asyncio.to_thread(self._first, self._root))
        return statistics.median(warm), statistics.median(without)

    def _first(self, root: Path) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.connect()
        began = time.perf_counter()
        address = f"{ADDRESS}{root}"
        cold.call(connection, "/mcp", names.HANDSHAKE, {"cwd": address})
        answer = cold.call(connection, f"/mcp?cwd={quote(address)}", "calculator", SUM)
        took = time.perf_counter() - began
        if answer["result"]["structuredContent"] != {"value": 42}:
            raise RuntimeError(f"not answered: {answer}")
        connection.close()
        return took

    def login(self, rounds: int) -> float:
        """Seconds that ssh alone takes to log in, run a program and end."""
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            command = ["ssh", "-T", "-o", "BatchMode=yes", NAME, "true"]
            subprocess.run(command, env=self._hosts.near.environ, stdin=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    async def _without_line(self) -> None:
        await asyncio.to_thread(self._hosts.near.control.post, "/lines", {"renew": NAME})
        await self._gone("remote serve")

    async def stop_there(self) -> None:
        """Stop the manager there and its servers."""
        with contextlib.suppress(NoManager):
            await asyncio.to_thread(self._hosts.far.control.post, "/shutdown", {"reason": "bench"})
        await self._gone("manager serve")
        await self._gone("workspace_server")

    async def _gone(self, word: str) -> None:
        deadline = time.monotonic() + GONE_S
        for _ in iter(lambda: self._hosts.far.processes(word), {}):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{word} did not end")
            await asyncio.sleep(0.02)

    # -- memory ---------------------------------------------------------------------------------------------

    async def memory(self, pid: int) -> float:
        """KiB that a further project on the other host takes in the manager here."""
        roots = [self._hosts.project(f"p{number}") for number in range(PROJECTS + 1)]
        await asyncio.to_thread(self._first, roots[0])
        before = cold.pss(pid)
        for root in roots[1:]:
            await asyncio.to_thread(self._first, root)
        return (cold.pss(pid) - before) / PROJECTS

    # -- latency and rate -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def line(self, round_trip_ms: float) -> Iterator[None]:
        """Lead the next line through a delay."""
        if not round_trip_ms:
            yield
            return
        with delayed_line(self._hosts.server.port, round_trip_ms) as port:
            self._hosts.lead_through(port)
            self._hosts.near.control.post("/lines", {"renew": NAME})
            yield

    def latency(self, there: int, rounds: int) -> _Latency:
        """The medians, in turns."""
        here_target = f"/mcp?cwd={quote(f'{ADDRESS}{self._root}')}"
        there_target = f"/mcp?cwd={quote(str(self._root))}"
        found = []
        with self._echo() as echo:
            for port, target in ((self.port, here_target), (there, there_target)):
                times(port, target, CALLS // 3)
            for _ in range(rounds):
                line = [timed(echo) for _ in range(CALLS)]
                at_home, from_here = times(there, there_target, CALLS), times(self.port, here_target, CALLS)
                found.append(tuple(map(statistics.median, (line, at_home, from_here))))
        return _Latency(*(1000 * statistics.median(column) for column in zip(*found, strict=True)))

    @contextlib.contextmanager
    def _echo(self) -> Iterator[_Echo]:
        command = ["ssh", "-T", "-e", "none", "-o", "BatchMode=yes", NAME, "cat"]
        environ = self._hosts.near.environ
        with subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as ssh:
            echo = _Echo(ssh)
            echo()
            try:
                yield echo
            finally:
                ssh.kill()

    def rate(self, seconds: float) -> int:
        """Calls a second over several connections."""
        target = f"/mcp?cwd={quote(f'{ADDRESS}{self._root}')}"
        program = [
            sys.executable,
            "-m",
            "scripts.benchmarks.other_hosts.remote_calls",
            str(self.port),
            target,
            str(seconds),
        ]
        done = subprocess.run(program, check=True, capture_output=True, text=True)
        return int(done.stdout)


class _Echo:
    def __init__(self, ssh: subprocess.Popen[bytes]) -> None:
        assert ssh.stdin is not None
        assert ssh.stdout is not None
        self._write, self._read = ssh.stdin.write, ssh.stdout.read

    def __call__(self) -> None:
        self._write(b".")
        self._read(1)
