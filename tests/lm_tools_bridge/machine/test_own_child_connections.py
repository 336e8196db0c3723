"""A connection of a program that we started is recognised, also where nobody sees whose it is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from lm_tools_bridge.machine import own_child_connections
from lm_tools_bridge.machine.own_child_connections import is_own_child_connection, is_own_child_tcp_peer
from lm_tools_bridge.protocol import names

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

STAYS = "import sys; print('up', flush=True); sys.stdin.read()"
STARTS = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {STAYS!r}], env={{}}, stdin=0, stdout=subprocess.PIPE)\n"
    "child.stdout.readline(); print(child.pid, flush=True); child.wait()\n"
)
HIDES = {
    "on its way through a unix socket": (
        "one, other = socket.socketpair(); socket.send_fds(one, [b'x'], [client.fileno()]); client.close()"
    ),
    "among the files of a thread": (
        "import ctypes, threading; own = threading.Event()\n"
        "def keep(): ctypes.CDLL(None).unshare(0x400); own.set(); threading.Event().wait()\n"
        "threading.Thread(target=keep, daemon=True).start(); own.wait(); client.close()"
    ),
    "as a mapping": "import ctypes; ctypes.CDLL(None).mmap(None, 4096, 1, 1, client.fileno(), 0); client.close()",
}
CONNECTS = "import os, socket, sys\nclient = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"


@pytest.mark.parametrize("way", HIDES)
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_socket_that_is_no_open_file_of_a_process_is_a_childs_if_one_hides_such(
    way: str, *, is_marked: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends_with = "\nprint('up', flush=True); sys.stdin.read(); os._exit(0)"
        child = subprocess.Popen(
            [sys.executable, "-c", CONNECTS + HIDES[way] + ends_with, str(server.getsockname()[1])],
            env={**os.environ, **({names.CHILD_VARIABLE: "i.x"} if is_marked else {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child, server.accept()[0] as accepted:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            found = is_own_child_tcp_peer(accepted.getsockname(), accepted.getpeername())
            child.communicate("")
    assert found is is_marked


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
