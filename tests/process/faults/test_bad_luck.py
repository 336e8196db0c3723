"""Tests faults with real processes: a copied nonce and closed standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.managers.manager_home import ManagerHome, until
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.manager_process import environment

SUM = {"expression": "6*7"}


class Impostor:
    """Answers every request with a health answer that has the right nonce, but the pid of an unrelated process."""

    def __init__(self, nonce: str, pid: int) -> None:
        self.recorded = b""
        body = json.dumps({"ok": True, "nonce": nonce, "pid": pid}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = head.encode() + body

    async def listen(self, port: int) -> asyncio.Server:
        """Listens on a port that was released a moment before."""
        async with asyncio.timeout(5):
            while True:
                with contextlib.suppress(OSError):
                    return await asyncio.start_server(self._serve, "127.0.0.1", port)
                await asyncio.sleep(0.005)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65_536):
                self.recorded += chunk
                writer.write(self._answer)
                await writer.drain()
        writer.close()


async def test_a_process_that_only_knows_the_nonce_is_not_adopted(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Any user can read a nonce from a health answer, so the stored process must match, too."""
    manager = await home.start()
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))
    await manager.killed()
    with contextlib.closing(sqlite3.connect(home.paths.state_file)) as database:
        (row,) = database.execute("SELECT pid, port, nonce, secret FROM instances").fetchall()
    pid, port, nonce, secret = row
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not home.servers())
    with subprocess.Popen(["sleep", "60"]) as innocent:
        impostor = Impostor(nonce, innocent.pid)
        try:
            async with await impostor.listen(port):
                successor = await home.start(http_port=manager.port)
                assert (await client.call("calculator", SUM)).payload == {"value": 42}
                assert innocent.pid not in (await home.server_pids()).values()
                successor.send(signal.SIGTERM)
                assert await successor.ended() == 0
            assert secret.encode() not in impostor.recorded
            assert innocent.poll() is None
        finally:
            innocent.kill()


async def test_a_manager_starts_with_closed_standard_streams(home: ManagerHome) -> None:
    """A parent process may have closed them; the manager drops its output then."""
    manager = await home.start(prefix=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
    assert (await home.status())["pid"] == manager.pid


@pytest.mark.skipif(sys.platform != "linux", reason="sets the size of a pipe")
async def test_a_log_that_nobody_reads_stops_nobody(home: ManagerHome, http: ClientSession) -> None:
    """As after Ctrl-S in its terminal. The manager also stops in order."""
    pipe = home.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        manager = await home.start(prefix=["sh", "-c", f'exec "$@" 2>{pipe}', "sh"], log_level="debug")
        for _ in range(60):
            await SessionClient.connect(http, manager.address)
        assert (await home.status())["pid"] == manager.pid
        assert len(os.read(reader, 100_000)) > 3000  # it is full: lines are written whole
        manager.send(signal.SIGTERM)
        assert await manager.ended() == 0
    finally:
        os.close(reader)


async def test_connections_beyond_the_limit_of_open_files_are_told_to_retry(
    home: ManagerHome, http: ClientSession, tmp_path: Path
) -> None:
    """Those that fit are served, the command line, too; there is room again as soon as connections close."""
    manager = await home.start(prefix=["sh", "-c", 'ulimit -Sn 64; ulimit -Hn 160; exec "$@"', "sh"])
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(make_project(tmp_path / "proj"))
    idle = [await asyncio.open_connection("127.0.0.1", manager.port) for _ in range(30)]
    try:
        status, reason = await health(manager.port)
        assert (status, b"too many open connections" in reason) == (503, True)
        idle += [await asyncio.open_connection("127.0.0.1", manager.port) for _ in range(200)]
        assert (await client.call("calculator", SUM)).payload == {"value": 42}
        assert (await home.lmtb("status")).code == 0
    finally:
        for _, writer in idle:
            writer.close()
    async with asyncio.timeout(10):
        while (await health(manager.port))[0] != 200:
            await asyncio.sleep(0.05)
    log = manager.log.read_text()
    assert log.count("connections.limited") == 1
    assert "Errno 24" not in log


async def health(port: int) -> tuple[int, bytes]:
    """The HTTP status and body of a request on a connection of its own; 0 if it was closed without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /mcp/health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]) if answer else 0, answer.partition(b"\r\n\r\n")[2]


def test_arguments_from_a_closed_standard_input_are_refused(tmp_path: Path) -> None:
    """The error is a message, not a traceback."""
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-I", "-m", "manager", "call", "x", "-"]
    ended = subprocess.run(
        command, env=environment(tmp_path), capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, "the arguments are not JSON" in ended.stderr) == (2, True), ended.stderr
