"""Tests of lm_tools_bridge.machine.peer_uid against real connections and, where possible, a real other user."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from lm_tools_bridge.machine import peer_uid
from lm_tools_bridge.machine.peer_uid import tcp_peer_uid, unix_peer_pid, unix_peer_uid

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the owner of a connection")
NOBODY = 65534


class Connection(NamedTuple):
    accepted: socket.socket
    client: socket.socket


@contextmanager
def connection(listen_on: str = "127.0.0.1", connect_to: str | None = None) -> Iterator[Connection]:
    connect_to = connect_to or listen_on
    families = [socket.AF_INET6 if ":" in host else socket.AF_INET for host in (listen_on, connect_to)]
    with socket.socket(families[0]) as listener, socket.socket(families[1]) as client:
        try:
            listener.bind((listen_on, 0))
        except OSError as error:
            pytest.skip(f"{listen_on} cannot be used here: {error}")
        listener.listen()
        client.connect((connect_to, listener.getsockname()[1]))
        accepted, _ = listener.accept()
        with accepted:
            yield Connection(accepted, client)


def ask(accepted: socket.socket) -> int | None:
    return tcp_peer_uid(accepted.getsockname(), accepted.getpeername())


def no_netlink(*_arguments: object) -> None:
    raise PermissionError("sock_diag is closed")


def no_proc(*_arguments: object) -> None:
    raise AssertionError("/proc was searched although the kernel had answered")


@pytest.fixture(params=["sock_diag", "proc"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two methods alone."""
    if request.param == "proc":
        monkeypatch.setattr(peer_uid, "_ask_kernel", no_netlink)
    else:
        monkeypatch.setattr(peer_uid, "_search_proc", lambda *_: None)
    return str(request.param)


@pytest.mark.usefixtures("method")
@pytest.mark.parametrize(
    ("listen_on", "connect_to"),
    [("127.0.0.1", None), ("::1", None), ("::", "127.0.0.1"), ("127.0.0.1", "::ffff:127.0.0.1")],
    ids=["IPv4", "IPv6", "IPv4 client of an IPv6 listener", "IPv6 client of an IPv4 listener"],
)
def test_own_client_has_our_uid(listen_on: str, connect_to: str | None) -> None:
    with connection(listen_on, connect_to) as (accepted, _):
        assert ask(accepted) == os.geteuid()


def test_after_a_kernel_answer_proc_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_uid, "_search_proc", no_proc)
    with connection() as (accepted, _):
        assert ask(accepted) == os.geteuid()


def test_after_its_socket_was_closed_the_kernel_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_uid, "_search_proc", no_proc)
    with connection() as (accepted, _):
        ask(accepted)
        peer_uid.close_kernel_socket()
        peer_uid.close_kernel_socket()
        assert ask(accepted) == os.geteuid()


@contextmanager
def client_of_nobody(port: int) -> Iterator[None]:
    """A process of user nobody that connects and stays until its standard input ends."""
    setpriv, bash = shutil.which("setpriv"), shutil.which("bash")
    if os.geteuid() != 0 or not setpriv or not bash:
        pytest.skip("needs root, setpriv and bash to start a process of another user")
    command = [
        setpriv,
        "--reuid",
        str(NOBODY),
        "--clear-groups",
        bash,
        "-c",
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; read",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd="/") as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.usefixtures("method")
def test_client_of_another_user_has_that_uid() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        with client_of_nobody(listener.getsockname()[1]):
            accepted, _ = listener.accept()
            with accepted:
                assert ask(accepted) == NOBODY


@pytest.mark.usefixtures("method")
@pytest.mark.parametrize("drained", [False, True], ids=["just closed", "remains in FIN_WAIT2 or TIME_WAIT"])
def test_closed_client_is_unknown_and_never_root(drained: bool) -> None:
    """The kernel reports uid 0 for a socket without an owner."""
    with connection() as (accepted, client):
        local, remote = accepted.getsockname(), accepted.getpeername()
        client.close()
        if drained:
            assert accepted.recv(1) == b""
            accepted.close()
        assert tcp_peer_uid(local, remote) is None


@pytest.mark.usefixtures("method")
def test_a_listener_on_the_client_port_is_not_the_client() -> None:
    """The kernel returns the listener if no connection matches."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert tcp_peer_uid(("127.0.0.1", 1), listener.getsockname()) is None


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        (("127.0.0.1", 1), ("127.0.0.1", 2)),
        (("127.0.0.1", 1), ("::1", 2, 0, 0)),
        (("", 0), ("", 0)),
        (("localhost", 1), ("127.0.0.1", 2)),
        (("127.0.0.1", 1), ("127.0.0.1", 70000)),
    ],
)
def test_addresses_without_connection_have_no_uid(local: peer_uid.Address, remote: peer_uid.Address) -> None:
    assert tcp_peer_uid(local, remote) is None


@pytest.mark.usefixtures("method")
def test_both_ends_of_a_connection_are_matched() -> None:
    """The same client port may belong to several connections."""
    with connection() as (accepted, _), connection() as (other, _):
        assert tcp_peer_uid(accepted.getsockname(), other.getpeername()) is None


def uids_of_unix(act: Callable[[socket.socket, Path], None], path: Path) -> int | None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)
        act(listener, path)
        accepted, _ = listener.accept()
        with accepted:
            return unix_peer_uid(accepted)


def test_unix_peer_has_our_uid(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        assert uids_of_unix(lambda _, path: client.connect(str(path)), tmp_path / "s") == os.geteuid()


def test_only_a_connected_unix_socket_has_a_peer_uid() -> None:
    with socket.socket(socket.AF_UNIX) as lonely, socket.socket() as tcp:
        assert unix_peer_uid(lonely) is None
        assert unix_peer_uid(tcp) is None
        assert unix_peer_pid(lonely) is unix_peer_pid(tcp) is None
    assert unix_peer_pid(lonely) is unix_peer_uid(lonely) is None  # closed


def test_looking_at_a_peer_leaves_its_connection_open() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert unix_peer_pid(ours) == os.getpid()
        theirs.sendall(b"x")
        assert ours.recv(1) == b"x"


@pytest.mark.usefixtures("method")
@pytest.mark.parametrize(
    ("listen_on", "connect_to"),
    [("127.0.0.1", None), ("::1", None), ("::", "127.0.0.1"), ("0.0.0.0", "127.0.0.1")],
)
def test_a_listener_is_known_by_either_method(listen_on: str, connect_to: str | None) -> None:
    """Without the second one, the list of processes is searched for seconds where sock_diag is closed."""
    with connection(listen_on, connect_to) as (_, client):
        local, remote = client.getsockname(), client.getpeername()
        listener = peer_uid.tcp_listener(remote)
        assert listener is not None
        assert listener.uid == os.geteuid()
        assert peer_uid.is_served_by_us(local, remote)
    assert peer_uid.tcp_listener(remote) is None
    assert not peer_uid.is_served_by_us(local, remote)
