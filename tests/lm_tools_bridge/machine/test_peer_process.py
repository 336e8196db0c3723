"""The process at the other end of a connection, by the files that processes have open."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from lm_tools_bridge.machine import peer_process
from lm_tools_bridge.machine.peer_process import PeerSearch, peer_pids, socket_holders
from lm_tools_bridge.machine.peer_uid import Address, tcp_peer_inode

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
CONNECTS = (
    "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"
)


def nothing_more() -> Iterator[int]:
    """Stands for all processes."""
    pytest.fail("all were looked at")
    yield 0


@contextmanager
def connected_process() -> Iterator[tuple[subprocess.Popen[bytes], tuple[Address, Address]]]:
    """A process that has a connection to us, and the connection's ends as we see them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", CONNECTS, str(server.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            accepted, _ = server.accept()
            with accepted:
                yield process, (accepted.getsockname(), accepted.getpeername())
                process.communicate()


def test_each_connection_leads_to_its_process() -> None:
    with connected_process() as (first, ends), connected_process() as (second, others):
        assert peer_pids([ends, others]) == [first.pid, second.pid]


def test_where_there_is_no_proc_the_system_is_asked_for_the_connections_of_each_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected_process() as (process, ends):
        monkeypatch.setattr(sys, "platform", "darwin")
        assert peer_pids([ends]) == [process.pid]


def test_the_search_of_all_processes_knows_this_user_and_looks_at_former_clients_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = PeerSearch()
    with connected_process() as (_, ends):
        assert search(*ends) == os.getuid()
        monkeypatch.setattr(psutil, "pids", list)
        assert search(*ends) == os.getuid(), "its process connected before"
    with connected_process() as (_, others):
        assert search(*others) is None


def test_a_process_of_another_user_is_not_taken_for_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected_process() as (process, ends):
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        assert PeerSearch()(*ends) is None
        assert peer_process._peer_pids_elsewhere([ends], [process.pid]) == [None]


def test_connecting_keeps_the_search_busy_for_a_limited_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pids = 0.0, []
    monkeypatch.setattr(psutil, "pids", lambda: pids.append(1) or [])
    search, ends = PeerSearch(lambda: now), (("127.0.0.1", 1), ("127.0.0.1", 2))
    for _ in range(1_000):
        assert search(*ends) is None
    assert len(pids) == 50
    now = 1.0
    for _ in range(1_000):
        assert search(*ends) is None
    assert len(pids) == 60


def test_a_client_may_connect_as_often_as_it_likes() -> None:
    search = PeerSearch(lambda: 0.0)
    for _ in range(3):  # the first process connects anew each time
        with connected_process() as (_, ends):
            for _ in range(40):
                assert search(*ends) == os.getuid()


def test_an_ipv4_connection_is_found_at_a_socket_of_ipv6() -> None:
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])),
    ):
        accepted, _ = server.accept()
        with accepted:
            assert PeerSearch()(accepted.getsockname(), accepted.getpeername()) == os.getuid()


@linux
def test_likely_processes_alone_are_looked_at_if_they_have_all_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected_process() as (process, ends):
        monkeypatch.setattr(peer_process, "_newest_first", nothing_more)
        assert peer_pids([ends], likely=[os.getpid(), process.pid]) == [process.pid]


@linux
def test_a_connection_whose_process_has_ended_leads_nowhere() -> None:
    with connected_process() as (process, ends):
        process.communicate()
        assert peer_pids([ends]) == [None]


@linux
def test_connections_of_other_users_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    monkeypatch.setattr(peer_process, "_newest_first", nothing_more)
    with connected_process() as (_, ends):
        assert peer_pids([ends]) == [None]


@linux
def test_all_processes_that_share_a_socket_are_its_holders() -> None:
    with connected_process() as (process, ends):
        inode = tcp_peer_inode(*ends)
        assert inode is not None
        assert list(socket_holders(inode)) == [process.pid]
        assert psutil.Process(process.pid).is_running()
