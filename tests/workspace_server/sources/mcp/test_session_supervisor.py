"""One session whenever it is needed: started once, started again, ended for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.servers.scripted_transport import ScriptedTransport
from workspace_server.sources.mcp import restart
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.restart import Restarts
from workspace_server.sources.mcp.session.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor


class Server:
    """Opens sessions over wires, as often as it is asked; `fail` are what the next openings raise."""

    def __init__(self, *fail: Exception) -> None:
        self.wires: list[ScriptedTransport] = []
        self.fail = list(fail)
        self.gate: asyncio.Event | None = None
        self.states: list[str] = []
        self.link = SessionSupervisor(
            self._open, lambda: self.states.append(self.link.state), source="x", chance=lambda: 0.5
        )

    def make(self, **options: Any) -> SessionSupervisor:
        return SessionSupervisor(self._open, lambda: None, source="x", chance=lambda: 0.5, **options)

    async def _open(self, on_end: Callable[[str], None]) -> Session:
        wire = ScriptedTransport()
        self.wires.append(wire)
        if self.gate is not None:
            await self.gate.wait()
        if self.fail:
            raise self.fail.pop(0)
        return await Session.open(
            wire, source="x", root="/", timeout_s=5, on_change=lambda _: None, on_end=on_end, version="1"
        )

    async def until(self, state: str) -> None:
        async with asyncio.timeout(5):
            while self.link.state != state:
                await asyncio.sleep(0.005)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "FIRST_S", 0.05)


async def test_nothing_starts_until_somebody_asks_and_then_once_for_all() -> None:
    server = Server()
    assert server.link.state == "idle"
    await asyncio.sleep(0)
    assert server.wires == []
    sessions = await asyncio.gather(*(server.link.get() for _ in range(50)))
    assert len(set(map(id, sessions))) == len(server.wires) == 1
    assert server.states == ["starting", "ready"]
    await server.link.close()
    assert server.wires[0].closed


async def test_who_asked_first_may_leave_without_stopping_the_others() -> None:
    server = Server()
    server.gate = asyncio.Event()
    first, second = (asyncio.create_task(server.link.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    server.gate.set()
    assert await second is server.link.session
    await server.link.close()


@pytest.mark.usefixtures("_quick")
async def test_a_session_that_ended_is_started_again_by_itself_and_the_old_one_is_closed() -> None:
    server = Server()
    old = await server.link.get()
    server.wires[0].end("exited with code 1")
    await server.until("backoff")
    assert (server.link.session, server.link.error) == (None, "exited with code 1")
    with pytest.raises(Unavailable, match="exited with code 1") as refused:
        await server.link.get()
    assert refused.value.delivered == "no"
    assert 0 < (refused.value.retry_after_ms or 0) <= 50
    await server.until("ready")
    assert server.wires[0].closed == 1
    assert await server.link.get() is not old
    assert (server.link.error, len(server.wires)) == (None, 2)
    await server.link.close()


async def test_session_that_ends_while_it_is_opened_is_closed_and_started_again() -> None:
    """It is never shown as ready."""
    server = Server()

    async def opened_too_late(on_end: Callable[[str], None]) -> Session:
        session = await server._open(on_end)
        if len(server.wires) == 1:
            server.wires[0].end("exited with code 1")
            async with asyncio.timeout(5):
                while session.ended is None:
                    await asyncio.sleep(0.005)
        return session

    link = SessionSupervisor(
        opened_too_late, lambda: server.states.append(link.state), source="x", chance=lambda: 0.5
    )
    with pytest.raises(Unavailable, match="exited with code 1"):
        await link.get()
    assert "ready" not in server.states
    async with asyncio.timeout(5):
        while link.state != "ready":
            await asyncio.sleep(0.005)
    assert server.wires[0].closed == 1
    await link.close()


async def test_five_failures_are_a_loop_and_a_person_may_try_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "FIRST_S", 0.005)
    server = Server(*(SessionFailed(f"exited {n}") for n in range(5)))
    with pytest.raises(Unavailable, match="exited 0"):
        await server.link.get()
    await server.until("crash_looping")
    assert server.link.error == "exited 4"
    with pytest.raises(Unavailable) as refused:
        await server.link.get()
    assert 59_000 < (refused.value.retry_after_ms or 0) <= 60_000
    server.link.try_now()
    await server.until("ready")
    assert len(server.wires) == 6
    await server.link.close()


async def test_what_cannot_help_is_not_tried_again_but_a_person_may() -> None:
    server = Server(SessionFailed("cannot start x", final=True))
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot start x") as refused:
            await server.link.get()
        assert refused.value.retry_after_ms is None
    assert (server.link.state, len(server.wires)) == ("failed", 1)
    server.link.try_now()
    await server.until("ready")
    await server.link.close()


async def test_a_start_that_breaks_is_a_start_that_failed() -> None:
    server = Server(KeyError("secret"))
    with pytest.raises(Unavailable) as refused:
        await server.link.get()
    assert "secret" not in refused.value.text
    assert server.link.state == "backoff"
    await server.link.close()


async def test_closing_during_a_start_leaves_nothing_and_nobody_is_cancelled_by_it() -> None:
    server = Server()
    server.gate = asyncio.Event()
    asking = asyncio.create_task(server.link.get())
    await asyncio.sleep(0.01)
    await server.link.close()
    with pytest.raises(Unavailable, match="stopped"):
        await asking
    with pytest.raises(Unavailable, match="stopped"):
        await server.link.get()
    server.link.try_now()
    assert len(server.wires) == 1


@pytest.mark.usefixtures("_quick")
async def test_a_link_that_is_not_revived_starts_when_somebody_asks() -> None:
    server = Server()
    link = server.make(revive=False)
    await link.get()
    server.wires[0].end()
    await asyncio.sleep(0.1)
    assert len(server.wires) == 1
    await link.get()
    assert len(server.wires) == 2
    await link.close()


async def test_links_of_one_server_share_its_record() -> None:
    """Another session's process of a server that crashes waits as well."""
    server, record = Server(SessionFailed("exited 1")), Restarts()
    first, second = (server.make(revive=False, restarts=record) for _ in range(2))
    with pytest.raises(Unavailable):
        await first.get()
    with pytest.raises(Unavailable) as refused:
        await second.get()
    assert refused.value.retry_after_ms
    assert len(server.wires) == 1


@pytest.mark.usefixtures("_quick")
async def test_there_are_never_two_of_one_server() -> None:
    """One that closed its output but lives is ended before another is started."""
    server = Server()
    await server.link.get()
    server.wires[0].lingers = asyncio.Event()
    server.wires[0].end("closed its output")
    await server.until("backoff")
    server.link.try_now()
    await asyncio.sleep(0.05)
    assert (server.wires[0].closed, len(server.wires)) == (1, 1)
    server.wires[0].lingers.set()
    await server.until("ready")
    await server.link.close()
