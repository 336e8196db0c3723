"""A connection of a program that we started is recognised, also where nobody sees whose it is."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import cast

import psutil  # noqa: F401  it asks for the system when it is imported
import pytest

from lm_tools_bridge.machine import own_child_connections, peer_uid
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


@pytest.mark.parametrize("family", ["tcp", "unix"])
@pytest.mark.parametrize(("environ", "expected"), [({}, False), ({names.CHILD_VARIABLE: "i.x"}, True)])
async def test_elsewhere_the_process_is_found_by_the_list_of_processes(
    family: str,
    environ: dict[str, str],
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program that connects dropped its mark; its parent has it."""
    connects = (
        "import socket, sys; s = socket.socket(getattr(socket, sys.argv[1])); s.connect(eval(sys.argv[2]));"
        "print('up', flush=True); sys.stdin.read()"
    )
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {connects!r}, *sys.argv[1:]], env={{}})"
    kind = "AF_INET" if family == "tcp" else "AF_UNIX"
    with socket.socket(getattr(socket, kind)) as server:
        server.bind(("127.0.0.1", 0) if family == "tcp" else str(tmp_path / "s"))
        server.listen()
        with subprocess.Popen(
            [sys.executable, "-c", starts, kind, repr(server.getsockname())],
            env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as parent:  # fmt: skip
            assert parent.stdout is not None
            assert parent.stdout.readline() == "up\n"
            accepted, _ = server.accept()
            _, writer = await asyncio.open_connection(sock=accepted)
            pid = peer_uid.unix_peer_pid(accepted)
            monkeypatch.setattr(sys, "platform", "darwin")
            monkeypatch.setattr(own_child_connections, "unix_peer_pid", lambda _: pid)
            assert await is_own_child_connection(writer.transport) is expected
            monkeypatch.undo()
            writer.close()
            parent.communicate("")


def test_elsewhere_a_peer_that_no_process_of_this_user_shows_may_be_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert is_own_child_tcp_peer(server.getsockname(), ("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("raw", "pid"), [(struct.pack("i", 77), 77), (struct.pack("i", 0), None), (b"", None)]
)
def test_macos_tells_the_process_that_connected_a_unix_socket(
    raw: bytes, pid: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MacSocket:
        family = socket.AF_UNIX

        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            assert (level, option, size) == (0, 2, 4), "SOL_LOCAL, LOCAL_PEERPID"
            return raw

    monkeypatch.setattr(sys, "platform", "darwin")
    assert peer_uid.unix_peer_pid(cast("socket.socket", MacSocket())) == pid
