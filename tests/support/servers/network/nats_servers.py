"""Runs NATS servers: one, or a cluster of three, with a configuration of the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

START_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@dataclass
class NatsServer:
    """One server, which can be killed and started again on the same port."""

    program: Path
    folder: Path
    port: int
    config: str = ""
    name: str = "one"
    _process: Process | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._write()
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        self._process = await asyncio.create_subprocess_exec(
            self.program, "-c", str(file), stdout=DEVNULL, stderr=DEVNULL, env=environ
        )
        async with asyncio.timeout(START_S):
            while not await self._answers():
                assert self._process.returncode is None, (self.folder / f"{self.name}.log").read_text()
                await asyncio.sleep(0.05)

    def reload(self) -> None:
        """Have it follow its configuration as it is now, as an administrator does."""
        self._write()
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def _write(self) -> Path:
        file = self.folder / f"{self.name}.conf"
        file.write_text(
            f"listen: 127.0.0.1:{self.port}\nserver_name: {self.name}\nlog_file: '{self.folder / self.name}.log'\n"
            f"jetstream {{ store_dir: '{self.folder / self.name}' }}\n{self.config}\n"
        )
        return file

    async def kill(self) -> None:
        """As a crash or a loss of power."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        line = await reader.readline()
        writer.close()
        return line.startswith(b"INFO ")


@contextlib.asynccontextmanager
async def running_nats(program: Path, folder: Path, config: str = "") -> AsyncIterator[NatsServer]:
    """One server for as long as the block lasts."""
    server = NatsServer(program, folder, free_ports(1)[0], config)
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


@contextlib.asynccontextmanager
async def running_cluster(program: Path, folder: Path) -> AsyncIterator[list[NatsServer]]:
    """Three servers that form a cluster."""
    ports = free_ports(6)
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports[3:])
    servers = [
        NatsServer(
            program, folder, ports[number],
            f"cluster {{ name: team, listen: 127.0.0.1:{ports[3 + number]}, routes: [{routes}] }}",
            f"n{number}",
        )
        for number in range(3)
    ]  # fmt: skip
    try:
        await asyncio.gather(*(one.start() for one in servers))
        yield servers
    finally:
        for one in servers:
            await one.kill()
