"""The processes of clients: found once, and seen to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manager.routing.state.clients import ClientProcess, Peer
from manager.sessions import client_processes
from manager.sessions.client_processes import MAX_SOUGHT, ClientProcesses

ENDS = (("127.0.0.1", 1), ("127.0.0.1", 2))


class FakeMachine:
    """Says which process is at the other end, and when each process started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pid: int | None = 7
        self.starts: dict[int, str] = {7: "a"}
        self.looks: list[int] = []
        monkeypatch.setattr(client_processes, "peer_pids", self.peer_pids)
        monkeypatch.setattr(client_processes, "start_time", self.starts.get)
        monkeypatch.setattr(client_processes, "SETTLE_S", 0)

    def peer_pids(self, connections: list[object], likely: object) -> list[int | None]:
        self.looks.append(len(connections))
        return [self.pid for _ in connections]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    return FakeMachine(monkeypatch)


@contextlib.asynccontextmanager
async def looking(processes: ClientProcesses) -> AsyncIterator[None]:
    task = asyncio.create_task(processes.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def found(processes: ClientProcesses, peer: Peer) -> ClientProcess:
    processes.seek(peer)
    async with asyncio.timeout(5):
        while peer.process is None:
            await asyncio.sleep(0)
    return peer.process


async def test_connections_of_one_process_share_it(machine: FakeMachine) -> None:
    processes = ClientProcesses()
    async with looking(processes):
        assert await found(processes, Peer(ENDS)) is await found(processes, Peer(ENDS))
    assert machine.looks == [1, 1]


async def test_a_connection_is_looked_up_once_whatever_comes_of_it(machine: FakeMachine) -> None:
    processes, peer, other = ClientProcesses(), Peer(ENDS), Peer(ENDS)
    machine.pid = None
    async with looking(processes):
        processes.seek(peer)
        while not machine.looks:
            await asyncio.sleep(0)
        machine.pid = 7
        processes.seek(peer)
        await found(processes, other)
    assert (machine.looks, peer.process) == ([1, 1], None)


async def test_the_end_of_a_process_is_noticed_when_somebody_asks(machine: FakeMachine) -> None:
    processes = ClientProcesses()
    async with looking(processes):
        process = await found(processes, Peer(ENDS))
    processes.notice_ends(5.0)
    assert process.ended_at is None
    machine.starts.clear()
    processes.notice_ends(6.0)
    processes.notice_ends(7.0)
    assert process.ended_at == 6.0


async def test_a_number_that_is_given_to_another_process_is_another_process(machine: FakeMachine) -> None:
    processes = ClientProcesses()
    async with looking(processes):
        first = await found(processes, Peer(ENDS))
        machine.starts[7] = "b"
        second = await found(processes, Peer(ENDS))
    assert first is not second
    assert (first.ended_at is None, second.ended_at) == (False, None)


async def test_a_flood_of_connections_costs_no_more_than_one_look_at_some_of_them(
    machine: FakeMachine,
) -> None:
    processes = ClientProcesses()
    for _ in range(10 * MAX_SOUGHT):
        processes.seek(Peer(ENDS))
    async with looking(processes):
        while not machine.looks:
            await asyncio.sleep(0)
    assert machine.looks == [MAX_SOUGHT]
