"""Configures stdio servers with child processes for a real manager, and reads the process table.

A family is a server with one child in its process group and one that left group, session and parent. Who belongs to
whom is read from the system: parents, and the mark in the environment that all of them inherit.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from aiohttp import ClientSession

from lm_tools_bridge.machine.process_ending import read_variables
from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Client, SessionClient, StatelessClient
from support.processes.managers.manager_home import ManagerHome
from support.projects.script_tools import write_tool
from support.servers.mcp_sources.stdio_servers import program

FAMILY = """
def start(*words):
    if os.fork() == 0:
        os.execvp(words[0], words)
start("sleep", "1000")
if os.fork() == 0:
    os.setsid()
    start("sleep", "1000")
    os._exit(0)
os.wait()
"""
"""Starts the two relatives; the one that left is nobody's child when the server begins to answer."""
FAMILY_SIZE = 3

TOOLS = """
tools = [{"name": one, "inputSchema": {"type": "object"}} for one in ("pid", "hold")]
def call(m):
    given = m["params"].get("arguments") or {}
    if m["params"]["name"] == "hold":
        while not os.path.exists(given["until"]): time.sleep(0.01)
    answer(m["id"], text(str(os.getpid())))
serve(call)
"""
"""`pid` tells its process id; `hold` does so once the file `until` is there."""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
"""Ignores TERM, and so does all it starts."""


def family() -> tuple[str, ...]:
    """The command of a server with relatives."""
    return program(f"{FAMILY}{TOOLS}")


def stubborn_family() -> tuple[str, ...]:
    """The command of one that ends for nothing but KILL, and neither do its relatives."""
    return program(f"{STUBBORN}{FAMILY}{TOOLS}time.sleep(1000)\n")


def entry(
    namespace: str,
    command: tuple[str, ...] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    sharing: str = "workspace",
) -> str:
    """A server of a `workspace.toml`; without a command it is a family."""
    keys = {"namespace": namespace, "command": command or family(), "sharing": sharing}
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in (env or {}).items())
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[[mcp.stdio_servers]]", *lines, f"env = {{ {variables} }}", ""])


def configure(home: ManagerHome, *entries: str) -> None:
    """Give the user these servers, in every workspace."""
    folder = home.paths.config_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "workspace.toml").write_text("\n".join(entries))


def user_tool(home: ManagerHome, name: str, script: str) -> None:
    """Give the user a shell script as a tool."""
    write_tool(home.paths.config_dir / "tools", name, f"#!/bin/sh\n{script}", file="run.sh")


def living(home: ManagerHome) -> Iterator[psutil.Process]:
    """Everything that lives on these folders; what has ended and was not reaped does not."""
    for pid in home.processes():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process


def marks(home: ManagerHome) -> dict[int, str]:
    """Process id -> mark of all that workspace servers started, and of all that those started."""
    found = {}
    for process in living(home):
        with contextlib.suppress(psutil.Error):
            if mark := read_variables(process.pid).get(names.CHILD_VARIABLE):
                found[process.pid] = mark
    return found


def children(home: ManagerHome, server: int) -> set[int]:
    """Process ids of the marked processes that this workspace server started itself."""
    found = set()
    for pid in marks(home):
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).ppid() == server:
                found.add(pid)
    return found


async def legacy(http: ClientSession, address: str, project: Path) -> SessionClient:
    """A client of the session era, bound to a project."""
    client = await SessionClient.connect(http, address)
    assert not (await client.handshake(project)).result.get("isError")
    return client


def modern(http: ClientSession, address: str, project: Path) -> StatelessClient:
    """A stateless client that names its project with every request."""
    client = StatelessClient(http, address)
    client.extra = {"X-Workspace-Cwd": str(project)}
    return client


async def number(client: Client, tool: str, arguments: Mapping[str, Any] | None = None) -> int:
    """The process id that a family's tool answers with."""
    result = (await client.call(tool, dict(arguments or {}))).result
    assert not result.get("isError"), result
    return int(result["content"][0]["text"])
