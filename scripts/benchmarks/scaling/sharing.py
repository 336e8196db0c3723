"""Measures the processes and memory of several windows of an agent, with and without the manager.

The servers are three public ones from the npm registry, started with `npx` as their documentation says.
Without the manager, each window starts all of them, as agents do. With it, all windows share one of each.
Memory is the proportional set size (PSS), in which a page that several processes share counts once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths
from scripts.benchmarks.plan import RESULTS, Missing, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

SERVERS: Mapping[str, tuple[str, ...]] = {
    "everything": ("@modelcontextprotocol/server-everything@2026.8.31",),
    "memory": ("@modelcontextprotocol/server-memory@2026.8.31",),
    "filesystem": ("@modelcontextprotocol/server-filesystem@2026.8.31", "."),
}
"""The arguments of `npx -y` for each server."""
WINDOWS = 4
REVISION = "2025-11-25"
READY_S = 180.0
"""`npx` downloads its packages in the first run."""
REST_S = 5.0
"""Node.js gives back within seconds what a start needed."""
LOOK_S = 0.1
"""Between two looks at the list of tools: this client has no stream that would announce a change."""


@dataclass(frozen=True)
class Footprint:
    """The number of processes, their memory in MiB, and the seconds until every window had all tools."""

    processes: int
    mib: float
    seconds: float


def run(plan: Plan) -> Section:
    """Measure one window and `WINDOWS`, each without and with the manager."""
    if not shutil.which("npx"):
        raise Missing("npx is not installed; next step: install Node.js")
    footprints: dict[str, Footprint] = {}
    for windows in (1, WINDOWS):
        plan.say(f"sharing: {windows} windows")
        folder = plan.folder / str(windows)
        project = folder / "project"
        (project / ".git").mkdir(parents=True)
        footprints[f"{windows} alone"] = asyncio.run(_measure_alone(project, windows))
        footprints[f"{windows} shared"] = asyncio.run(_measure_shared(folder, project, windows))
    data = {name: asdict(footprint) for name, footprint in footprints.items()}
    figures = {f"sharing {name} MiB": footprint.mib for name, footprint in footprints.items()}
    return Section("sharing", _text(footprints), data, figures, is_single=True)


def _text(footprints: Mapping[str, Footprint]) -> str:
    names_of_rows = {
        "1 alone": "one window, without the manager", "1 shared": "one window, with the manager",
        f"{WINDOWS} alone": f"{WINDOWS} windows, without the manager",
        f"{WINDOWS} shared": f"{WINDOWS} windows, with the manager",
    }  # fmt: skip
    rows = [
        (title, footprints[name].processes, footprints[name].mib, footprints[name].seconds)
        for name, title in names_of_rows.items()
    ]
    note = (
        f"Servers: {', '.join(arguments[0] for arguments in SERVERS.values())}, each started with `npx -y`. "
        "With the manager, its own processes are included."
    )
    return f"{table(('windows in one project', 'processes', 'MiB (PSS)', 'seconds'), rows)}\n\n{note}"


def pss(pids: Iterable[int]) -> int:
    """The proportional set size of processes, in bytes."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in pids)


def _family(pids: list[int]) -> tuple[int, float]:
    """The number and the memory in MiB of processes with all their descendants."""
    family = [process.pid for pid in pids for process in _descendants(psutil.Process(pid))]
    return len(family), pss(family) / 2**20


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _environment() -> dict[str, str]:
    """The packages are downloaded once, into a folder of the benchmarks."""
    return {"npm_config_cache": str(RESULTS / "npx"), "npm_config_update_notifier": "false"}


def initialize(number: int) -> dict[str, object]:
    """The first request of a client."""
    me = {"name": "bench", "version": "1"}
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": me}
    return {"jsonrpc": "2.0", "id": number, "method": names.INITIALIZE, "params": params}


def request(number: int, method: str, **params: object) -> dict[str, object]:
    """A request with a method and parameters."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


# --- every window starts its own servers


async def _start_server(arguments: tuple[str, ...], project: Path) -> asyncio.subprocess.Process:
    """Start a server, read its list of tools, and return its process."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "npx", "-y", *arguments, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL,
        cwd=project, env=os.environ | _environment(), start_new_session=True, limit=2**24,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for message in (
        initialize(1), {"jsonrpc": "2.0", "method": names.INITIALIZED}, request(2, names.TOOLS_LIST)
    ):  # fmt: skip
        process.stdin.write(json.dumps(message).encode() + b"\n")
        while "id" in message and json.loads(await process.stdout.readline()).get("id") != message["id"]:
            pass  # servers also send notifications
    return process


async def _measure_alone(project: Path, windows: int) -> Footprint:
    """Windows that each start every server, as agents do."""
    processes: list[asyncio.subprocess.Process] = []
    try:
        warm = await _start_server(SERVERS["everything"], project)
        processes.append(warm)
        await _end(processes.pop())
        began = time.monotonic()
        for _ in range(windows):
            starts = (_start_server(arguments, project) for arguments in SERVERS.values())
            processes += await asyncio.wait_for(asyncio.gather(*starts), READY_S)
        seconds = time.monotonic() - began
        await asyncio.sleep(REST_S)
        return Footprint(*_family([process.pid for process in processes]), seconds)
    finally:
        for process in processes:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    family = _descendants(psutil.Process(process.pid))
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    await process.wait()


# --- all windows use one manager


@contextlib.asynccontextmanager
async def running_manager(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a manager in the folder, on a free port, until the block ends; yields its process and address."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LMTB_HTTP_PORT": "0"}
    environ |= {f"LMTB_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "STATE", "RUNTIME")}
    control = Control(Paths.of_user(environ).control_socket)
    with (folder / "manager.log").open("wb") as log:
        manager = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", "manager", "serve"),
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environ,
        )  # fmt: skip
    try:
        async with asyncio.timeout(READY_S):
            address = await _await_address(control)
        yield manager, address
    finally:
        manager.terminate()
        await manager.wait()


async def _await_address(control: Control) -> str:
    while True:
        with contextlib.suppress(NoManager, ManagerFault):
            return str((await asyncio.to_thread(control.get, "/status"))["address"])
        await asyncio.sleep(LOOK_S)


async def _open_window(http: ClientSession, address: str) -> None:
    """Open a session and wait until the tools of all servers are listed."""
    async with http.post(address, json=initialize(1)) as response:
        own = {headers.SESSION: response.headers[headers.SESSION], headers.VERSION: REVISION}
    async with asyncio.timeout(READY_S):
        while True:
            async with http.post(address, json=request(2, names.TOOLS_LIST), headers=own) as response:
                answer = await response.text()
            if all(f'"{name}__' in answer for name in SERVERS):
                return
            await asyncio.sleep(LOOK_S)


async def _measure_shared(folder: Path, project: Path, windows: int) -> Footprint:
    """Windows that all use one manager, which started their servers once."""
    (folder / "config").mkdir()
    environment = ", ".join(f"{name} = {json.dumps(value)}" for name, value in _environment().items())
    entries = [
        f'[[mcp.stdio_servers]]\nnamespace = "{name}"\ncommand = {json.dumps(["npx", "-y", *arguments])}\n'
        f"env = {{ {environment} }}\n"
        for name, arguments in SERVERS.items()
    ]
    (folder / "config" / "workspace.toml").write_text("\n".join(entries))
    async with running_manager(folder) as (manager, address), ClientSession() as http:
        http.headers["Accept"] = "application/json, text/event-stream"
        began = time.monotonic()
        where = f"{address}?cwd={project}"
        await asyncio.gather(*(_open_window(http, where) for _ in range(windows)))
        seconds = time.monotonic() - began
        await asyncio.sleep(REST_S)
        return Footprint(*_family([manager.pid]), seconds)
