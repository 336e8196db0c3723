"""Measures what a call to a member of a team costs over NATS, beside the same call at its host.

Two managers and a NATS server run on this machine, so that no network is measured. The ways are called in
turns: the host itself; the host behind a plain HTTP relay, as the least that a direct path would cost; the
team, for a tool that may run twice and for one that may not (which takes a round trip more); NATS alone. NATS
is installed by `scripts/nats-servers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientSession, TCPConnector

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.names import LATEST_MODERN
from lm_tools_bridge.team import membership
from lm_tools_bridge.team.membership import Membership, OwnOffer, Use
from scripts.benchmarks.environment import own_manager
from scripts.benchmarks.environment.own_manager import CLIENT, POST_HEADERS, Manager
from scripts.benchmarks.environment.processes import READY_S, cores, running
from scripts.benchmarks.plan import ROOT, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

TOOL: Final = "lm_readFile"
AT_ONCE: Final = 16
"""Calls at once for the rate: as many as one member may have at a host."""
BLOCK: Final = 20
"""Calls of one way before it is the turn of the next."""
WARM_UP: Final = 50
INSTALL_S: Final = 180
_HOST, _RELAY, _CONFIRMED, _REPEATABLE, _NATS = (
    "the host itself",
    "the host behind an HTTP relay",
    "the team, a tool that may not run twice",
    "the team, a read-only tool",
    "a request over NATS alone",
)


@dataclass
class Way:
    """One way to call, and the seconds that its calls took."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    rate: float = 0.0

    def at(self, part: float) -> float:
        """A percentile in ms."""
        ordered = sorted(self.took)
        return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def run(plan: Plan) -> Section:
    """Measure all ways."""
    return asyncio.run(_measured(plan))


async def _measured(plan: Plan) -> Section:
    plan.say("team: a NATS server and two managers")
    with _nats(plan.folder) as url, _managers(plan.folder, url) as (host, caller, project):
        at_host = host.address(f"{names.MCP_PATH}?cwd={quote(str(project))}")
        async with _relay(at_host) as relay, ClientSession(connector=TCPConnector(limit=0)) as http:
            team = caller.address("/team/docs")
            await _until_answered(http, Way(_CONFIRMED, team))
            ways = [Way(_HOST, at_host), Way(_RELAY, relay), Way(_CONFIRMED, team)]
            await _in_turns(plan, http, ways)
            await _listed(http, team)  # from now on the caller knows that the tool is read-only
            ways.append(Way(_REPEATABLE, team))
            await _in_turns(plan, http, [ways[0], ways[3]])
            line = await _line(plan, url)
    return _section([*ways, line])


async def _in_turns(plan: Plan, http: ClientSession, ways: list[Way]) -> None:
    for way in ways:
        for _ in range(WARM_UP):
            await _call(http, way)
    ends = time.monotonic() + plan.rounds * plan.seconds * len(ways)
    while time.monotonic() < ends:
        for way in ways:
            for _ in range(BLOCK):
                way.took.append(await _call(http, way))
    for way in ways:
        way.rate = await _rate(plan, http, way)


async def _rate(plan: Plan, http: ClientSession, way: Way) -> float:
    """Calls a second with `AT_ONCE` of them at once."""
    begun, count = time.perf_counter(), 0
    ends = begun + 2 * plan.seconds

    async def worker() -> None:
        nonlocal count
        while time.perf_counter() < ends:
            await _call(http, way)
            count += 1

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - begun)


async def _line(plan: Plan, url: str) -> Way:
    """Requests and answers of two clients of nats-py, which have nothing else to do."""
    from nats.aio.client import Client

    way, asks, answers = Way(_NATS, url), Client(), Client()
    await asks.connect(url)
    await answers.connect(url)

    async def answer(message: Any) -> None:
        await message.respond(message.data)

    await answers.subscribe("bench", cb=answer)
    await answers.flush()
    ends = time.monotonic() + plan.rounds * plan.seconds
    while time.monotonic() < ends:
        begun = time.perf_counter()
        await asks.request("bench", b"x" * 300, timeout=READY_S)
        way.took.append(time.perf_counter() - begun)
    await asks.close()
    await answers.close()
    return way


def _section(ways: list[Way]) -> Section:
    local = ways[0]
    rows = [
        (one.name, one.at(0.5), one.at(0.99), one.at(0.5) - local.at(0.5) if one.name != _NATS else None,
         round(one.rate) if one.rate else None)
        for one in ways
    ]  # fmt: skip
    text = table(("way", "p50 ms", "p99 ms", "added p50 ms", f"calls/s, {AT_ONCE} at once"), rows)
    data = {one.name: {"p50": one.at(0.5), "p99": one.at(0.99), "rate": one.rate} for one in ways}
    return Section("team", text, data, is_single=True)


async def _call(http: ClientSession, way: Way) -> float:
    begun = time.perf_counter()
    params = {"name": TOOL, "arguments": {"filePath": "a.txt"}}
    said = await _post(http, way.url, names.TOOLS_CALL, params, {headers.NAME: TOOL})
    if b"a page" not in said:
        raise RuntimeError(f"{way.name}: {said.decode()[:300]}")
    return time.perf_counter() - begun


async def _listed(http: ClientSession, url: str) -> None:
    said = json.loads(await _post(http, url, names.TOOLS_LIST, {}, {}))
    if TOOL not in {one["name"] for one in said["result"]["tools"]}:
        raise RuntimeError(f"{TOOL} is not offered")


async def _post(
    http: ClientSession, url: str, method: str, params: dict[str, Any], more: Mapping[str, str]
) -> bytes:
    meta = {names.META_VERSION: LATEST_MODERN, names.META_CAPABILITIES: {}, names.META_CLIENT: CLIENT}
    body = jsonrpc.request(b"1", method, {**params, "_meta": meta})
    sent = {**POST_HEADERS, headers.VERSION: LATEST_MODERN, headers.METHOD: method, **more}
    async with http.post(url, data=body, headers=sent) as answer:
        return await answer.read()


async def _until_answered(http: ClientSession, way: Way) -> None:
    """Wait until the caller has seen its host."""
    ends = time.monotonic() + READY_S
    while True:
        try:
            await _call(http, way)
        except RuntimeError:
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.1)
        else:
            return


@contextlib.contextmanager
def _nats(folder: Path) -> Iterator[str]:
    """A NATS server, until the block ends."""
    done = subprocess.run(
        [str(ROOT / "scripts" / "nats-servers")], env={**os.environ, "PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=INSTALL_S,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"no NATS server: {(done.stderr.splitlines() or ['?'])[-1]}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    program = Path(done.stdout.splitlines()[-1]) / "nats-server"
    words = (str(program), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "nats"))
    with running(*words, on=cores().backend, log=folder / "nats.log"):
        yield f"nats://127.0.0.1:{port}"


@contextlib.contextmanager
def _managers(folder: Path, url: str) -> Iterator[tuple[Manager, Manager, Path]]:
    """The host and the caller, members since their start, and the offered project."""
    project = own_manager.project(folder / "project")
    (project / "a.txt").write_text("a page\n")
    offers = (OwnOffer("docs", str(project)),)
    _join(folder / "host", Membership(servers=(url,), name="host", offers=offers))
    uses = (Use("docs", "docs", ("host",)),)
    _join(folder / "caller", Membership(servers=(url,), name="caller", uses=uses))
    with (
        own_manager.manager(folder / "host", cores().measured) as host,
        own_manager.manager(folder / "caller", cores().load) as caller,
    ):
        yield host, caller, project


def _join(folder: Path, held: Membership) -> None:
    config = folder / "config"
    config.mkdir(parents=True)
    membership.store(config, held)


@contextlib.asynccontextmanager
async def _relay(target: str) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scripts.benchmarks.other_hosts.team_relay",
        target,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        await process.wait()
