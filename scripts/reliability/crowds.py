"""Measures crowds: servers that send heartbeats, malformed requests, clients that stop reading or sending."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientSession, TCPConnector

from scripts.benchmarks.environment.processes import cpu_ns, rss_mb
from scripts.benchmarks.results.table import table
from support.clients.raw_clients import Client, StatelessClient
from support.processes.managers.manager_home import manager_home
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import configure, entry, modern
from support.servers.mcp_sources.stdio_servers import program
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer

SERVERS = 200
BEAT_S = 1.0
MEASURED_S = 8.0
PAUSE_S = 0.01
"""Between two timed requests."""
SENDERS, EACH_S = 10, 0.01
"""About a thousand malformed requests per second, if the machine can."""
MALFORMED = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name"'
SUM = {"expression": "6*7"}
MIB = 1024 * 1024
STOPPED, LARGE, HELD = 100, 5 * MIB, 16 * MIB
"""Clients that stop, bytes of the answer that each does not read, and of the request that none ends."""
LARGE_TOOL = f"""
tools = [{{"name": "large", "inputSchema": {{"type": "object"}}}}]
serve(lambda m: answer(m["id"], text("x" * {LARGE})))
"""
Rows = list[tuple[object, ...]]


@dataclass
class Sent:
    """How many malformed requests were refused."""

    refused: int = 0


async def run(folder: Path) -> str:
    """Measure all; the text is a Markdown table."""
    rows = [*await _storm(folder / "storm"), *await _poison(folder / "poison"), *await _stop(folder / "stop")]
    return table(("figure", "value"), rows)


async def p99_ms(once: Callable[[], Awaitable[object]]) -> float:
    """The 99th percentile of the duration of something that is done again and again."""
    times = []
    deadline = time.monotonic() + MEASURED_S
    while time.monotonic() < deadline:
        began = time.perf_counter()
        await once()
        times.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    return 1000 * statistics.quantiles(times, n=100)[98]


@contextlib.asynccontextmanager
async def meanwhile(*work: Awaitable[None]) -> AsyncIterator[None]:
    """Do this until the block ends."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _storm(folder: Path) -> Rows:
    """Processor time and answers of a manager with many registered servers, and no calls."""
    async with manager_home(folder) as home, contextlib.AsyncExitStack() as stack:
        manager = await home.start()
        servers = [
            ScriptedWorkspaceServer(make_project(folder / f"p{n}"), home.paths.control_socket)
            for n in range(SERVERS)
        ]
        for one in servers:
            one.is_silent = True
            await stack.enter_async_context(one.serving(registered=False))

        answered = [0]

        async def beat(one: ScriptedWorkspaceServer, after_s: float) -> None:
            await asyncio.sleep(after_s)
            while True:
                await one.heartbeat()
                answered[0] += 1
                await asyncio.sleep(BEAT_S)

        beats = (beat(one, n * BEAT_S / SERVERS) for n, one in enumerate(servers))
        async with meanwhile(*beats):
            await asyncio.sleep(3 * BEAT_S)
            before, began, so_far = cpu_ns([manager.pid]), time.monotonic(), answered[0]
            await asyncio.sleep(MEASURED_S)
            used, count = (cpu_ns([manager.pid]) - before) / 1e9, answered[0] - so_far
            cpu = used / (time.monotonic() - began)
            ready = [one["state"] for one in (await home.status())["instanceDetails"]].count("ready")
            p99 = await p99_ms(home.status)
        return [
            (f"servers of {SERVERS} that are ready, with a heartbeat each second", ready),
            ("processor time of the manager meanwhile, %", 100 * cpu),
            ("processor time of the manager for a heartbeat, µs", 1e6 * used / max(1, count)),
            ("p99 of its status, ms", p99),
            ("its memory, MiB", rss_mb([manager.pid])),
        ]


async def _poison(folder: Path) -> Rows:
    """Calls of one client while another sends malformed requests."""
    async with manager_home(folder) as home, ClientSession(connector=TCPConnector(limit=0)) as http:
        manager = await home.start()
        good = modern(http, manager.address, make_project(folder / "project"))
        await good.call("calculator", SUM)
        quiet = await p99_ms(lambda: good.call("calculator", SUM))
        lines, sent = manager.log.read_text().count("\n"), Sent()
        began = time.monotonic()
        async with meanwhile(*(_send(StatelessClient(http, manager.address), sent) for _ in range(SENDERS))):
            beside = await p99_ms(lambda: good.call("calculator", SUM))
        seconds = time.monotonic() - began
        return [
            ("malformed requests per second, all refused", sent.refused / seconds),
            ("p99 of another client's calls without and beside them, ms", f"{quiet:.1f}, {beside:.1f}"),
            ("log lines per second", (manager.log.read_text().count("\n") - lines) / seconds),
        ]


async def _send(client: Client, sent: Sent) -> None:
    while True:
        async with client.http.post(
            client.url, data=MALFORMED, headers={"Content-Type": "application/json"}
        ) as response:
            assert response.status == 400, response.status
            await response.read()
        sent.refused += 1
        await asyncio.sleep(EACH_S)


async def _stop(folder: Path) -> Rows:
    """The manager's memory, and the calls of one client, beside clients that stop reading or sending."""
    async with manager_home(folder) as home, ClientSession(connector=TCPConnector(limit=0)) as http:
        configure(home, entry("server", program(LARGE_TOOL)))
        manager = await home.start()
        good, bad = (modern(http, manager.address, make_project(folder / name)) for name in ("good", "bad"))
        await bad.call("calculator", SUM)
        quiet = await p99_ms(lambda: good.call("calculator", SUM))
        before = rss_mb([manager.pid])
        rows: Rows = []
        for what, name, length in (("reading", "server__large", None), ("sending", "any", HELD)):
            request = _unfinished(bad, name, length)
            peak = [before]
            async with meanwhile(
                *(_stopped(manager.port, request) for _ in range(STOPPED)), _watch(manager.pid, peak)
            ):
                stopping = await p99_ms(lambda: good.call("calculator", SUM))
                stopped = await p99_ms(lambda: good.call("calculator", SUM))
            rows += [
                (f"memory of the manager before and at most beside {STOPPED} clients that stop {what}, MiB",
                 f"{before:.0f}, {peak[0]:.0f}"),
                ("p99 of another client's calls without them, while their requests come in, and later, ms",
                 f"{quiet:.1f}, {stopping:.1f}, {stopped:.1f}"),
            ]  # fmt: skip
        return rows


def _unfinished(client: StatelessClient, name: str, length: int | None) -> bytes:
    """The bytes of a call; with `length`, of one that never ends."""
    body = client.body("tools/call", {"name": name, "arguments": {}}, 1)
    fields = {"Host": client.url.split("/")[2], **client.header(body), "Content-Length": length or len(body)}
    target = f"/{client.url.split('/', 3)[3]}"
    lines = [f"POST {target} HTTP/1.1", *(f"{field}: {value}" for field, value in fields.items())]
    padding = b" " * (length - len(body) - 1) if length else b""
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + padding + body


async def _stopped(port: int, request: bytes) -> None:
    """Send this and read nothing. Copies nothing, because the timed client runs in this process, too."""
    loop = asyncio.get_running_loop()
    with socket.socket() as connection, contextlib.suppress(ConnectionError):
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", port))
        await loop.sock_sendall(connection, request)
        await loop.create_future()


async def _watch(pid: int, peak: list[float]) -> None:
    """Note the most memory of a process."""
    while True:
        peak[0] = max(peak[0], rss_mb([pid]))
        await asyncio.sleep(PAUSE_S)
