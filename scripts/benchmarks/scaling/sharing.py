"""Measures processes and memory of N clients with M stdio servers, with and without the manager.

Usage: .venv/bin/python -m scripts.benchmarks.scaling.sharing [clients [servers]]   (default: 8 and 6)
Linux only. Memory is the proportional set size (PSS), in which the pages that processes share count once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths

SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def pid() -> int:
    "The pid of the server."
    import os
    return os.getpid()
server.run("stdio")
"""
"""A stdio server with the official SDK."""
REVISION = "2025-11-25"
READY_S = 60.0


@dataclass(frozen=True)
class Footprint:
    """The number of processes, their memory in bytes, and the seconds until every client had all answers."""

    label: str
    processes: int
    pss: int
    seconds: float

    def line(self) -> str:
        """One row of the table."""
        return f"{self.label:28}{self.processes:>11}{self.pss / 2**20:>11.1f} MiB{self.seconds:>9.1f} s"


def pss(pids: Iterable[int]) -> int:
    """The proportional set size of the processes, in bytes."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids)


def initialize(number: int) -> dict[str, object]:
    """The first request of a client."""
    me = {"name": "bench", "version": "1"}
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": me}
    return {"jsonrpc": "2.0", "id": number, "method": names.INITIALIZE, "params": params}


def request(number: int, method: str, **params: object) -> dict[str, object]:
    """A request with a method and parameters."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def server(folder: Path) -> list[str]:
    """Write the server into the folder and return its command."""
    program = folder / "server.py"
    program.write_text(SERVER)
    return [sys.executable, str(program)]


# --- each client starts its own servers


async def started_server(command: list[str]) -> asyncio.subprocess.Process:
    """Start a server, call it once, and return its process."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    initialized = {"jsonrpc": "2.0", "method": names.INITIALIZED}
    for message in (initialize(1), initialized, request(2, names.TOOLS_CALL, name="pid", arguments={})):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        if "id" in message:
            await process.stdout.readline()
    return process


async def without_manager(command: list[str], clients: int, servers: int) -> Footprint:
    """Measure clients that each start every server, as they do without the manager."""
    began = time.monotonic()
    processes: list[asyncio.subprocess.Process] = []
    try:
        for _ in range(clients):
            processes += await asyncio.gather(*(started_server(command) for _ in range(servers)))
        seconds = time.monotonic() - began
        return Footprint("without the manager", len(processes), pss(one.pid for one in processes), seconds)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            await process.wait()


# --- all clients use one manager


@contextlib.asynccontextmanager
async def running_manager(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a manager in the folder, on a free port, until the block ends; yield its process and address."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LMTB_HTTP_PORT": "0"}
    environ |= {f"LMTB_{one}_DIR": str(folder / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")}
    control = Control(Paths.of_user(environ).control_socket)
    with (folder / "manager.log").open("wb") as log:
        manager = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", "manager", "serve"),
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environ,
        )  # fmt: skip
    try:
        async with asyncio.timeout(READY_S):
            address = await address_of(control)
        yield manager, address
    finally:
        manager.terminate()
        await manager.wait()


async def address_of(control: Control) -> str:
    """Wait until the manager answers and return the address of its endpoint."""
    while True:
        with contextlib.suppress(NoManager, ManagerFault):
            return str((await asyncio.to_thread(control.get, "/status"))["address"])
        await asyncio.sleep(0.02)


async def one_client(http: ClientSession, address: str, project: Path, servers: int) -> None:
    """Open a session, wait until all servers' tools are listed, and call one tool of each server."""
    async with http.post(address, json=initialize(1)) as response:
        own = {headers.SESSION: response.headers[headers.SESSION], headers.VERSION: REVISION}

    async def ask(method: str, **params: object) -> str:
        async with http.post(address, json=request(2, method, **params), headers=own) as response:
            answer = await response.text()
        if '"isError":true' in answer.replace(" ", "") or '"error":{' in answer:
            raise RuntimeError(f"{method} {params}: {answer}")
        return answer

    await ask(names.TOOLS_CALL, name=names.HANDSHAKE, arguments={"cwd": str(project)})
    async with asyncio.timeout(READY_S):
        while (await ask(names.TOOLS_LIST)).count('__pid"') < servers:  # noqa: ASYNC110  no event without a stream
            await asyncio.sleep(0.1)
    for number in range(servers):
        await ask(names.TOOLS_CALL, name=f"s{number}__pid", arguments={})


async def with_manager(command: list[str], folder: Path, clients: int, servers: int) -> list[Footprint]:
    """Measure clients that share one workspace: all processes, and the stdio servers alone."""
    (folder / "config").mkdir()
    entries = [
        f'[[mcp.stdio_servers]]\nnamespace = "s{n}"\ncommand = {json.dumps(command)}' for n in range(servers)
    ]
    (folder / "config" / "workspace.toml").write_text("\n".join(entries))
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    async with running_manager(folder) as (manager, address), ClientSession() as http:
        http.headers["Accept"] = "application/json, text/event-stream"
        began = time.monotonic()
        await asyncio.gather(*(one_client(http, address, project, servers) for _ in range(clients)))
        seconds = time.monotonic() - began
        family = psutil.Process(manager.pid).children(recursive=True)
        servers_alone = [one.pid for one in family if command[-1] in one.cmdline()]
        all_pids = [manager.pid, *(one.pid for one in family)]
        return [
            Footprint("with the manager", len(all_pids), pss(all_pids), seconds),
            Footprint("  stdio servers of it", len(servers_alone), pss(servers_alone), seconds),
        ]


async def main(clients: int, servers: int) -> None:
    """Measure both and print the table."""
    with tempfile.TemporaryDirectory(prefix="lmtb-bench-") as name:
        folder = Path(name)
        command = server(folder)
        rows = [await without_manager(command, clients, servers)]
        rows += await with_manager(command, folder, clients, servers)
    print(f"{clients} clients, {servers} stdio servers{'':8}processes     memory      until answered")
    for row in rows:
        print(row.line())


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    asyncio.run(main(*(given + [8, 6][len(given) :])))
