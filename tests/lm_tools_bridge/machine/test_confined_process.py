"""Sockets of the user refuse confined scripts, whatever they do about their environment and session."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from lm_tools_bridge.machine.own_children import is_confined, is_confined_peer
from support.processes.child_processes import output, python
from workspace_server.sources.scripts.script_confinement import script_confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")

CONNECT = """
import os, socket, sys
def connect():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(sys.argv[1])
    print(sock.recv(100).decode())
way = sys.argv[2]
if way == "env -i":
    os.execve(sys.executable, [sys.executable, "-I", "-c", sys.argv[3], sys.argv[1], "plain", ""], {})
elif way == "detached" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        connect()
    os._exit(0) if os.getpid() == os.getsid(0) else None
elif way == "plain":
    connect()
"""


@pytest.mark.parametrize("way", ["plain", "env -i", "detached"])
@pytest.mark.parametrize("confined", [True, False])
async def test_a_confined_script_is_recognised_by_its_connection(
    tmp_path: Path, way: str, confined: bool
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        found.append(is_confined_peer(sock))
        writer.write(b"seen")
        writer.close()

    found: list[bool] = []
    path = tmp_path / "s"
    fence = script_confinement(tmp_path, tmp_path, {}) if confined else None
    async with await asyncio.start_unix_server(serve, path):
        arguments = [str(path), way, CONNECT]
        assert await output(python(CONNECT, *arguments, confinement=fence)) == b"seen\n"
    assert found == [confined]


def test_we_are_not_confined_and_who_is_gone_may_have_been() -> None:
    pid = os.spawnv(os.P_NOWAIT, "/bin/true", ["true"])
    os.waitpid(pid, 0)
    assert (is_confined(os.getpid()), is_confined(pid)) == (False, True)
    one, other = socket.socketpair()
    with one, other:
        assert not is_confined_peer(one)
