"""Third-party MCP servers: installed, configured as their documentation says, and called directly and through us.

`scripts/real-servers` installs them. What a client gets through the manager is compared with what the server answers
to the official SDK's client (`third_party.direct`); both have the same folder as their only root.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lm_tools_bridge.machine.process_ending import read_variables
from support.clients.raw_clients import Client, StatelessClient
from support.projects.gateway import Project, codes, eventually, running_gateway
from support.servers.sdk_servers.third_party import Direct, direct

INSTALL_S = 180.0
START_S = 20.0

Entry = dict[str, Any]
"""One server of `.mcp.json`."""


@dataclass(frozen=True)
class Installed:
    """Where the servers are."""

    folder: Path

    def node(self, name: str, *arguments: str, **env: str) -> Entry:
        """A server from npm: the program that `npx` would run."""
        return entry(str(self.folder / "npm/node_modules/.bin" / f"mcp-server-{name}"), *arguments, **env)

    def npx(self, name: str, *arguments: str, **env: str) -> Entry:
        """The same by `npx`: npm, a shell and the server are three processes."""
        prefix = str(self.folder / "npm")
        return entry("npx", "--no", "--prefix", prefix, f"mcp-server-{name}", *arguments, **env)

    def python(self, name: str, *arguments: str, **env: str) -> Entry:
        """A server from PyPI."""
        return entry(str(self.folder / "venv/bin/python"), "-m", f"mcp_server_{name}", *arguments, **env)

    @contextlib.contextmanager
    def everything_over_http(self) -> Iterator[Entry]:
        """The server that shows everything, over streamable HTTP, on a port the system chooses."""
        command = [self.node("everything")["command"], "streamableHttp"]
        environ = {"PATH": os.environ["PATH"], "PORT": "0"}
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, env=environ, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            yield {"type": "http", "url": f"http://127.0.0.1:{_port(process)}/mcp"}
        finally:
            process.kill()
            process.wait()


def entry(command: str, *arguments: str, **env: str) -> Entry:
    """A stdio server as it stands in `.mcp.json`."""
    return {"command": command, "args": list(arguments), **({"env": env} if env else {})}


@contextlib.asynccontextmanager
async def gathered(
    folder: Path, prepare: Callable[[Path], None] | None = None, /, **servers: Entry
) -> AsyncIterator[Project]:
    """A manager and a project with these servers, trusted and listed; at the end nothing of them may be left.

    `prepare` gets the project's folder before any server starts.
    """
    async with running_gateway(folder) as gateway:
        project = gateway.project("proj")
        if prepare is not None:
            prepare(project.root)
        project.servers(**servers)
        await project.trust()
        await all_listed(project.modern)
        yield project
    left = [" ".join(one.cmdline()) for one in of_home(folder.resolve() / "home")]
    assert left == []


async def all_listed(client: StatelessClient) -> None:
    """Wait until every source has answered; a slow one is not waited for by a list."""

    async def settled() -> bool:
        return "SOURCE_STARTING" not in await codes(client)

    await eventually(settled, START_S)


def asked_directly(server: Entry, root: Path) -> contextlib.AbstractAsyncContextManager[Direct]:
    """The SDK's client at a server of its own, or at the same one where that is reached over HTTP.

    It declares the capabilities that a source declares, because a server may have tools for these alone.
    """
    if "url" in server:
        return direct(server["url"], "legacy", root=root, declines=True)
    command = (server["command"], *server["args"])
    return direct(command, "legacy", root=root, env=server.get("env"), declines=True)


async def outcome(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call through us, without the member that the legacy era does not have."""
    result = dict((await client.call(name, arguments)).result)
    assert result.pop("resultType", "complete") == "complete"
    return result


async def same_definitions(client: Client, there: Direct, namespace: str) -> list[str]:
    """Compare all definitions; the server's own names of its tools."""
    theirs = await there.definitions()
    listed = (await client.ask("tools/list")).result["tools"]
    ours = {tool["name"]: tool for tool in listed if tool["name"].startswith(f"{namespace}__")}
    assert ours == {
        f"{namespace}__{tool['name']}": {**tool, "name": f"{namespace}__{tool['name']}"} for tool in theirs
    }
    return [tool["name"] for tool in theirs]


async def same_outcome(client: Client, there: Direct, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make one call both ways; `name` is the tool's name here."""
    theirs = await there.call(name.partition("__")[2], arguments)
    ours = await outcome(client, name, arguments)
    assert ours == theirs, (name, arguments, ours, theirs)
    return theirs


async def source_of(project: Project, identity: str) -> dict[str, Any]:
    """What the user's command line is told about one source."""
    found: dict[str, Any] = next(one for one in (await project.inspect())["sources"] if one["id"] == identity)
    return found


def of_home(home: Path) -> list[psutil.Process]:
    """Everything alive that was started with this home folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (
                read_variables(process.pid).get("HOME") == str(home)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def _port(process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        for one in psutil.Process(process.pid).net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                return int(one.laddr.port)
        time.sleep(0.02)
    raise AssertionError(f"the server does not listen (exit code {process.poll()})")
