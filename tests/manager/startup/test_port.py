"""Tests of manager.port against real sockets; only the clock is an argument."""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import random
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from manager.startup.port import PortTaken, bind_fixed, reserve

HOST = "127.0.0.1"
linux = pytest.mark.skipif(sys.platform != "linux", reason="what blocks a bind differs between systems")


class Clock:
    """Time that passes only by sleeping; `at` runs something when that many sleeps are over."""

    def __init__(self, at: dict[int, Callable[[], None]] | None = None) -> None:
        self.now = 1000.0
        self.naps: list[float] = []
        self.waits: list[PortTaken] = []
        self.at = at or {}

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds
        self.at.get(len(self.naps), lambda: None)()

    async def bind(self, port: int, host: str = HOST, patience: float = 75) -> socket.socket | PortTaken:
        return await bind_fixed(
            host,
            port,
            patience=patience,
            sleep=self.sleep,
            monotonic=lambda: self.now,
            on_wait=self.waits.append,
        )


@contextmanager
def outgoing_connection() -> Iterator[tuple[int, socket.socket]]:
    """A client connection and the local port it sits on, as the system might have chosen 47100."""
    with socket.create_server((HOST, 0)) as server, socket.socket() as client:
        client.bind((HOST, 0))
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            yield client.getsockname()[1], client


def abort(client: socket.socket) -> None:
    """Closes by reset, which leaves no TIME_WAIT."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def connects(sock: socket.socket) -> bool:
    _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
    writer.close()
    await writer.wait_closed()
    return True


async def test_free_port_is_bound_and_listens_at_once() -> None:
    clock = Clock()
    sock = await clock.bind(0)
    assert isinstance(sock, socket.socket)
    with sock:
        assert sock.getsockname()[0] == HOST
        assert not sock.get_inheritable()
        assert await connects(sock)
    assert clock.naps == []


@linux
async def test_a_listening_program_is_named_at_once() -> None:
    clock = Clock()
    with socket.create_server((HOST, 0)) as other_program:
        port = other_program.getsockname()[1]
        taken = await clock.bind(port)
    program = psutil.Process().name()
    assert taken == PortTaken(HOST, port, "listener", os.getpid(), getpass.getuser(), program)
    assert str(taken) == (
        f"{HOST}:{port} is taken: another program listens on it "
        f"(program {program}, pid {os.getpid()}, user {getpass.getuser()})"
    )
    assert (clock.naps, clock.waits) == ([], [])


@linux
async def test_listener_on_all_addresses_is_a_listener_too() -> None:
    with socket.create_server(("", 0)) as other_program:
        taken = await Clock().bind(other_program.getsockname()[1])
    assert isinstance(taken, PortTaken)
    assert (taken.kind, taken.pid) == ("listener", os.getpid())


@linux
async def test_listener_too_busy_to_accept_is_not_waited_for() -> None:
    """Its queue is full, so a connection hangs instead of being made."""
    clock = Clock()
    with socket.create_server((HOST, 0), backlog=0) as other_program:
        crowd = [socket.socket() for _ in range(4)]
        for client in crowd:
            client.setblocking(False)
            client.connect_ex(other_program.getsockname())
        taken = await clock.bind(other_program.getsockname()[1])
        for client in crowd:
            client.close()
    assert isinstance(taken, PortTaken)
    assert (taken.kind, clock.naps) == ("listener", [])


@linux
async def test_outgoing_connection_is_waited_for_and_explained_once() -> None:
    with outgoing_connection() as (port, client):
        clock = Clock(at={3: lambda: abort(client)})
        sock = await clock.bind(port)
        assert isinstance(sock, socket.socket)
        with sock:
            assert sock.getsockname() == (HOST, port)
    assert clock.naps == [0.25] * 3
    assert [(wait.kind, wait.pid) for wait in clock.waits] == [("outgoing", os.getpid())]


@linux
async def test_time_wait_is_waited_for_until_patience_ends() -> None:
    clock = Clock()
    with outgoing_connection() as (port, client):
        client.shutdown(socket.SHUT_WR)  # the side that closes first keeps the port
    taken = await clock.bind(port)
    assert taken == PortTaken(HOST, port, "time_wait")
    assert clock.naps == [0.25] * 300
    assert [wait.kind for wait in clock.waits] == ["time_wait"]


@linux
async def test_a_program_that_begins_to_listen_ends_the_wait() -> None:
    with socket.socket() as other_program:
        other_program.bind((HOST, 0))
        clock = Clock(at={2: other_program.listen})
        taken = await clock.bind(other_program.getsockname()[1])
    assert isinstance(taken, PortTaken)
    assert (taken.kind, clock.naps) == ("listener", [0.25] * 2)
    assert [wait.kind for wait in clock.waits] == ["unknown"]


@linux
async def test_owner_is_named_where_the_process_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user sees the sockets of others, not their processes."""

    def denied(_kind: str) -> list[object]:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    with socket.create_server((HOST, 0)) as other_program:
        taken = await Clock().bind(other_program.getsockname()[1])
    assert isinstance(taken, PortTaken)
    assert (taken.kind, taken.pid, taken.user) == ("listener", None, getpass.getuser())


async def test_other_faults_are_raised() -> None:
    with pytest.raises(OSError) as fault:
        await Clock().bind(0, host="192.0.2.1")
    assert fault.value.errno == errno.EADDRNOTAVAIL


async def test_two_starters_never_share_a_port() -> None:
    first = await Clock().bind(0)
    assert isinstance(first, socket.socket)
    with first:
        assert isinstance(await Clock().bind(first.getsockname()[1]), PortTaken)


async def test_reserved_socket_listens_in_the_range_and_is_not_inherited() -> None:
    with reserve(random.Random(1)) as sock:
        host, port = sock.getsockname()
        assert (host, port in range(21000, 30000)) == (HOST, True)
        assert not sock.get_inheritable()
        assert await connects(sock)


def test_start_of_the_search_comes_from_the_given_chance() -> None:
    ports = []
    for _ in range(2):
        with reserve(random.Random(7)) as sock:
            ports.append(sock.getsockname()[1])
    with reserve(random.Random(8)) as other:
        assert ports[0] == ports[1] != other.getsockname()[1]


def test_taken_ports_are_passed_over_and_the_search_wraps() -> None:
    with socket.create_server((HOST, 0)) as first:
        taken = first.getsockname()[1]
        ports = range(taken - 1, taken + 1)
        found = set()
        for seed in range(8):
            try:
                with reserve(random.Random(seed), ports) as sock:
                    found.add(sock.getsockname()[1])
            except OSError:
                pytest.skip("the neighbouring port is in use by somebody else")
    assert found == {taken - 1}


def test_range_without_a_free_port_is_a_fault() -> None:
    with socket.create_server((HOST, 0)) as only:
        port = only.getsockname()[1]
        with pytest.raises(OSError, match="no free port") as fault:
            reserve(random.Random(0), range(port, port + 1))
    assert fault.value.errno == errno.EADDRINUSE
