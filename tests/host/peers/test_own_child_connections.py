"""A connection of a program that we started is recognised, also where nobody sees whose it is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from host.peers import own_child_connections
from host.peers.own_child_connections import is_own_child_connection, is_own_child_tcp_peer
from protocol import names

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

STAYS = "import sys; print('up', flush=True); sys.stdin.read()"
STARTS = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {STAYS!r}], env={{}}, stdin=0, stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print(child.pid, flush=True); child.wait()\n"
)


@pytest.mark.parametrize(("environ", "expected"), [({}, False), ({names.CHILD_VARIABLE: "i.x"}, True)])
def test_a_connection_of_a_child_that_made_itself_unreadable_is_a_childs(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: bool
) -> None:
    """As after prctl(PR_SET_DUMPABLE): nobody sees who has the socket. A login does so, too, and is no child."""
    monkeypatch.setattr(own_child_connections, "socket_holders", lambda inode: iter(()))
    with (
        subprocess.Popen(
            [sys.executable, "-c", STARTS],
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as parent,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert parent.stdout is not None
        hidden = int(parent.stdout.readline())
        monkeypatch.setattr(own_child_connections, "unreadable_processes", lambda: iter([hidden]))
        found = is_own_child_tcp_peer(server.getsockname(), client.getsockname())
        parent.communicate("")
    assert found is expected


def test_who_closed_the_connection_may_have_been_a_child() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            ends = server.getsockname(), client.getsockname()
        assert is_own_child_tcp_peer(*ends)


async def test_a_connection_that_tells_nothing_may_be_a_childs() -> None:
    assert await is_own_child_connection(None)
