#!/usr/bin/env python3
"""What the manager's memory grows by: with each session, each idle connection, each open stream of a session.

Usage: .venv/bin/python -m scripts.benchmarks.connections [number]   (1500 where nothing is said)
Linux only. The number of each must be allowed: open files, too (`ulimit -n`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil

from manager.client import Control, ManagerFault, NoManager
from manager.paths import Paths
from protocol import headers, jsonrpc, names

REVISION = "2025-11-25"
READY_S = 20.0
REST_S = 2.0
"""Before memory is looked at."""
MANY = "100000"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def running_manager(folder: Path) -> AsyncIterator[tuple[int, int]]:
    """The process id and the port of a manager on folders of its own."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LMTB_HTTP_PORT": "0"}
    environ |= {"LMTB_CONNECTION_LIMIT": MANY, "LMTB_SESSION_LIMIT": MANY}
    environ |= {f"LMTB_{one}_DIR": str(folder / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")}
    quiet = asyncio.subprocess.DEVNULL
    manager = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "manager", "serve"),
        stdin=quiet, stdout=quiet, stderr=quiet, cwd=folder, env=environ,
    )  # fmt: skip
    control = Control(Paths.of_user(environ).control_socket)
    try:
        yield manager.pid, int(address_of(control).removesuffix("/mcp").rpartition(":")[2])
    finally:
        manager.terminate()
        await manager.wait()


def address_of(control: Control) -> str:
    """The manager's address, as soon as it answers."""
    end = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(NoManager, ManagerFault):
            return str(control.get("/status")["address"])
        if time.monotonic() > end:
            raise TimeoutError("the manager does not answer")
        time.sleep(0.02)


def head(port: int, method: str, *fields: str) -> bytes:
    """The head of a request."""
    lines = [f"{method} {names.MCP_PATH} HTTP/1.1", f"Host: 127.0.0.1:{port}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


async def session(port: int) -> str:
    """A session, opened over a connection that is closed again."""
    client = {"name": "bench", "version": "1"}
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
    body = jsonrpc.request(b"1", names.INITIALIZE, params)
    own = ("Content-Type: application/json", "Connection: close", f"Content-Length: {len(body)}")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head(port, "POST", *own) + body)
    answer = (await reader.read()).decode()
    writer.close()
    found = re.search(rf"{headers.SESSION}: (\S+)", answer)
    if found is None:
        raise RuntimeError(answer)
    return found[1]


async def grown(pid: int, before: float, number: int) -> tuple[float, float]:
    """The memory now, in KiB, and what each of so many takes of it."""
    await asyncio.sleep(REST_S)
    now = psutil.Process(pid).memory_info().rss / 1024
    return now, (now - before) / number


async def main(number: int) -> None:
    """Measure, and print what was found."""
    with tempfile.TemporaryDirectory(prefix="lmtb-bench-") as name:
        async with running_manager(Path(name)) as (pid, port):
            await session(port)
            before, _ = await grown(pid, 0, 1)
            sessions = [await session(port) for _ in range(number)]
            before, each = await grown(pid, before, number)
            print(f"session          {each:6.2f} KiB")
            idle: list[Stream] = [await asyncio.open_connection("127.0.0.1", port) for _ in sessions]
            for _, writer in idle:
                writer.write(head(port, "DELETE"))  # names no session, and is told so
            before, connection = await grown(pid, before, number)
            print(f"idle connection  {connection:6.2f} KiB")
            for identity, (_, writer) in zip(sessions, idle, strict=True):
                own = ("Accept: text/event-stream", f"{headers.SESSION}: {identity}")
                writer.write(head(port, "GET", *own))
            _, stream = await grown(pid, before, number)
            print(f"open stream      {connection + stream:6.2f} KiB, its connection included")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1500))
