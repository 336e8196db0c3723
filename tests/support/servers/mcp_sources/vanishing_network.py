"""A remote MCP server in a network namespace of its own, whose packets can be made to vanish.

Run as a program in a new network namespace (`in_a_network_of_its_own`), it prints what a source of this server did
while nothing that was sent arrived, and afterwards, as JSON. No end of a connection is ever told, as when a machine
loses its power.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

HERE, THERE = "10.99.0.1", "10.99.0.2"
PORT = 8080
CALLS = 5
DEADLINE_S = 2.0
BACK_S = 60.0
POOL = 8
"""Connections that may be kept for later calls."""
SETTLED_S = 10.0
"""Longest time until what was cut off has been told to the server that is back."""
_NOBODY = "02:00:00:00:00:99"
_UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net"]


def _can_make_networks() -> bool:
    script = "ip link add here type veth peer name there"
    try:
        return (
            subprocess.run([*_UNSHARE, "sh", "-c", script], check=False, capture_output=True).returncode == 0
        )
    except OSError:
        return False


needs_networks = pytest.mark.skipif(
    not _can_make_networks(), reason="needs network namespaces, and veth interfaces made by ip"
)


async def in_a_network_of_its_own(within_s: float) -> dict[str, Any]:
    """What this module prints when it runs in a network namespace of its own."""
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(
        *_UNSHARE, sys.executable, "-m", "support.servers.mcp_sources.vanishing_network", stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root}:{root.parent}"},
    )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(process.communicate(), within_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


async def _serve() -> None:
    """The server's side: wait until the interface is there, then serve until the input ends."""
    from aiohttp import web

    from support.servers.mcp_sources.remote_server import ScriptedRemoteServer

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    _ip("addr", "add", f"{THERE}/30", "dev", "there")
    _ip("link", "set", "there", "up")
    remote = ScriptedRemoteServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", remote.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, THERE, PORT).start()
    print("serving", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextlib.asynccontextmanager
async def _server() -> AsyncIterator[None]:
    """The server in another namespace, connected with this one."""
    process = await asyncio.create_subprocess_exec(
        "unshare", "--net", sys.executable, "-m", "support.servers.mcp_sources.vanishing_network", "serve",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        _ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(process.pid))
        _ip("addr", "add", f"{HERE}/30", "dev", "here")
        _ip("link", "set", "here", "up")
        process.stdin.write(b"\n")
        assert await process.stdout.readline() == b"serving\n"
        yield
    finally:
        process.stdin.close()
        process.kill()
        await process.wait()


def _vanish() -> None:
    """From now on, what is sent to the server goes to a machine that does not exist."""
    _ip("neigh", "replace", THERE, "lladdr", _NOBODY, "dev", "here", "nud", "permanent")


def _return() -> None:
    _ip("neigh", "del", THERE, "dev", "here")


def _sockets() -> int:
    return sum("socket:" in os.readlink(one.path) for one in os.scandir("/proc/self/fd") if _is_link(one))


def _is_link(entry: os.DirEntry[str]) -> bool:
    return os.path.lexists(entry.path)


async def _try(most: int) -> dict[str, Any]:
    """Call before, during and after; how long the calls of each phase took, what came, and what is left open.

    Waits in the end until no more than `most` sockets are open.
    """
    from support.servers.mcp_sources.remote_source import call, entry
    from workspace_server.sources.mcp.remote.session_opener import RemoteDependencies
    from workspace_server.sources.mcp.remote.source import RemoteSource

    remote = entry(f"http://{THERE}:{PORT}/mcp", allow_private=True)
    source = RemoteSource(remote, RemoteDependencies("/project", "1.0"))
    found: dict[str, Any] = {}

    async def once() -> Any:
        try:
            async with asyncio.timeout(DEADLINE_S):  # as every call has one
                return await call(source)
        except TimeoutError:
            return None

    async def phase(name: str) -> None:
        began = time.monotonic()
        outcomes = await asyncio.gather(*(once() for _ in range(CALLS)))
        found[name] = {
            "seconds": time.monotonic() - began,
            "answered": sum(isinstance(one, dict) for one in outcomes),
            "sockets": _sockets(),
            "tasks": len(asyncio.all_tasks()),
        }

    await source.list_tools()
    await phase("before")
    _vanish()
    await phase("during")
    await phase("during, again")
    _return()
    began = time.monotonic()
    while not isinstance(await once(), dict):
        assert time.monotonic() - began < BACK_S
        await asyncio.sleep(0.1)
    found["back_s"] = time.monotonic() - began
    await phase("after")
    began = time.monotonic()
    while _sockets() > most and time.monotonic() - began < SETTLED_S:
        await asyncio.sleep(0.05)
    found["settled"] = {"sockets": _sockets()}
    await source.close()
    await asyncio.sleep(0)
    found["left"] = {"sockets": _sockets(), "tasks": len(asyncio.all_tasks())}
    return found


async def _main() -> None:
    if sys.argv[1:] == ["serve"]:
        await _serve()
        return
    _ip("link", "set", "lo", "up")
    before = {"sockets": _sockets(), "tasks": len(asyncio.all_tasks())}
    async with _server():
        found = await _try(before["sockets"] + POOL)
    print(json.dumps({"start": before, **found}))


if __name__ == "__main__":
    asyncio.run(_main())
