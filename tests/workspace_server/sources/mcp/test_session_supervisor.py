"""A session that is opened on demand, opened again after failures, and closed for good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.servers.mcp_sources.scripted_transport import ScriptedTransport
from workspace_server.sources.mcp import session_supervisor
from workspace_server.sources.mcp.failures import SessionFailed, Unavailable
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.remote.retry_policy import RemoteRetryPolicy
from workspace_server.sources.mcp.retry_policy import CallVerdict
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor
from workspace_server.sources.mcp.stdio import restart_policy
from workspace_server.sources.mcp.stdio.restart_policy import RestartPolicy

pytestmark = pytest.mark.usefixtures("virtual_time")


async def session_of(supervisor: SessionSupervisor) -> Session:
    async with supervisor.use() as session:
        return session


class FakeServer:
    """Opens sessions over scripted transports; the next openings raise the exceptions in `fail`."""

    def __init__(self, *fail: Exception) -> None:
        self.transports: list[ScriptedTransport] = []
        self.fail = list(fail)
        self.gate: asyncio.Event | None = None
        self.states: list[str] = []
        self.supervisor = self.make(on_state=lambda state, _: self.states.append(state))

    def make(self, **options: Any) -> SessionSupervisor:
        policy = options.pop("policy", None) or RestartPolicy()
        on_state = options.pop("on_state", lambda state, error: None)
        return SessionSupervisor(
            self._open, policy, on_state, source="x", clock=time.monotonic, chance=lambda: 0.5, **options
        )

    async def _open(self, on_end: Callable[[str], None]) -> Session:
        transport = ScriptedTransport()
        self.transports.append(transport)
        if self.gate is not None:
            await self.gate.wait()
        if self.fail:
            raise self.fail.pop(0)
        return await Session.open(
            transport, source="x", root="/", timeout_s=5, on_change=lambda _: None, on_end=on_end, version="1"
        )

    async def until(self, state: str) -> None:
        async with asyncio.timeout(60):
            while self.supervisor.state != state:
                await asyncio.sleep(0.05)


async def test_the_first_use_opens_one_session_for_all_callers() -> None:
    server = FakeServer()
    assert server.states == []
    await asyncio.sleep(0)
    assert server.transports == []
    sessions = await asyncio.gather(*(session_of(server.supervisor) for _ in range(50)))
    assert len(set(map(id, sessions))) == len(server.transports) == 1
    assert server.states == ["starting", "ready"]
    await server.supervisor.close()
    assert server.transports[0].closed


async def test_cancelling_the_first_caller_does_not_stop_the_others() -> None:
    server = FakeServer()
    server.gate = asyncio.Event()
    first, second = (asyncio.create_task(session_of(server.supervisor)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    server.gate.set()
    assert await second is server.supervisor.session
    await server.supervisor.close()


async def test_an_ended_session_is_closed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting, a caller is refused until then."""
    monkeypatch.setattr(session_supervisor, "SHORT_PAUSE_S", 0.0)
    server = FakeServer()
    old = await session_of(server.supervisor)
    server.transports[0].end("exited with code 1")
    await server.until("backoff")
    assert (server.supervisor.session, server.supervisor.error) == (None, "exited with code 1")
    with pytest.raises(Unavailable, match="exited with code 1") as refused:
        await session_of(server.supervisor)
    assert refused.value.delivered == "no"
    assert 0 < (refused.value.retry_after_ms or 0) <= restart_policy.FIRST_S * 1000
    await server.until("ready")
    assert server.transports[0].closed == 1
    assert await session_of(server.supervisor) is not old
    assert (server.supervisor.error, len(server.transports)) == (None, 2)
    await server.supervisor.close()


async def test_a_call_waits_out_a_short_pause_before_the_next_try() -> None:
    server = FakeServer()
    old = await session_of(server.supervisor)
    server.transports[0].end("exited with code 1")
    await server.until("backoff")
    async with asyncio.timeout(5):
        assert await session_of(server.supervisor) is not old
    assert len(server.transports) == 2
    await server.supervisor.close()


async def test_session_that_ends_while_it_is_opened_is_closed_and_started_again() -> None:
    """It is never shown as ready."""
    server = FakeServer()

    async def opened_too_late(on_end: Callable[[str], None]) -> Session:
        session = await server._open(on_end)
        if len(server.transports) == 1:
            server.transports[0].end("exited with code 1")
            async with asyncio.timeout(5):
                while session.ended is None:
                    await asyncio.sleep(0.005)
        return session

    supervisor = SessionSupervisor(
        opened_too_late,
        RestartPolicy(),
        lambda state, _: server.states.append(state),
        source="x",
        clock=time.monotonic,
        chance=lambda: 0.5,
    )
    with pytest.raises(Unavailable, match="exited with code 1"):
        await session_of(supervisor)
    assert "ready" not in server.states
    async with asyncio.timeout(5):
        while supervisor.state != "ready":
            await asyncio.sleep(0.005)
    assert server.transports[0].closed == 1
    await supervisor.close()


async def test_five_failures_are_a_crash_loop_that_try_now_ends() -> None:
    server = FakeServer(*(SessionFailed(f"exited {n}") for n in range(5)))
    with pytest.raises(Unavailable, match="exited 0"):
        await session_of(server.supervisor)
    await server.until("crash_looping")
    assert server.supervisor.error == "exited 4"
    with pytest.raises(Unavailable) as refused:
        await session_of(server.supervisor)
    assert 59_000 < (refused.value.retry_after_ms or 0) <= 60_000
    server.supervisor.try_now()
    await server.until("ready")
    assert len(server.transports) == 6
    await server.supervisor.close()


async def test_a_final_failure_is_not_retried_except_by_try_now() -> None:
    server = FakeServer(SessionFailed("cannot start x", final=True))
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot start x") as refused:
            await session_of(server.supervisor)
        assert refused.value.retry_after_ms is None
    assert (server.supervisor.state, len(server.transports)) == ("failed", 1)
    server.supervisor.try_now()
    await server.until("ready")
    await server.supervisor.close()


async def test_an_unexpected_exception_is_a_failed_start() -> None:
    server = FakeServer(KeyError("secret"))
    with pytest.raises(Unavailable) as refused:
        await session_of(server.supervisor)
    assert "secret" not in refused.value.text
    assert server.supervisor.state == "backoff"
    await server.supervisor.close()


async def test_closing_during_a_start_leaves_nothing_and_cancels_no_caller() -> None:
    server = FakeServer()
    server.gate = asyncio.Event()
    asking = asyncio.create_task(session_of(server.supervisor))
    await asyncio.sleep(0.01)
    await server.supervisor.close()
    with pytest.raises(Unavailable, match="stopped"):
        await asking
    with pytest.raises(Unavailable, match="stopped"):
        await session_of(server.supervisor)
    server.supervisor.try_now()
    assert len(server.transports) == 1


async def test_a_session_without_revival_is_opened_by_the_next_use() -> None:
    server = FakeServer()
    supervisor = server.make(revive=False)
    await session_of(supervisor)
    server.transports[0].end()
    await asyncio.sleep(3600)
    assert len(server.transports) == 1
    await session_of(supervisor)
    assert len(server.transports) == 2
    await supervisor.close()


async def test_supervisors_of_one_server_share_its_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crashed server also delays the processes of other sessions."""
    monkeypatch.setattr(session_supervisor, "SHORT_PAUSE_S", 0.0)
    server, record = FakeServer(SessionFailed("exited 1")), RestartPolicy()
    first, second = (server.make(revive=False, policy=record) for _ in range(2))
    with pytest.raises(Unavailable):
        await session_of(first)
    with pytest.raises(Unavailable) as refused:
        await session_of(second)
    assert refused.value.retry_after_ms
    assert len(server.transports) == 1


async def test_a_server_never_runs_twice() -> None:
    """A server that closed its output but still runs is ended before another is started."""
    server = FakeServer()
    await session_of(server.supervisor)
    server.transports[0].close_gate = asyncio.Event()
    server.transports[0].end("closed its output")
    await server.until("backoff")
    server.supervisor.try_now()
    await asyncio.sleep(3600)
    assert (server.transports[0].closed, len(server.transports)) == (1, 1)
    server.transports[0].close_gate.set()
    await server.until("ready")
    await server.supervisor.close()


class ReplacingPolicy(RestartPolicy):
    """Replaces the session after every failed call."""

    def call_failed(self, *_: object, **__: object) -> CallVerdict:
        return "replace"


async def test_a_replaced_session_is_closed_with_its_last_caller() -> None:
    server = FakeServer()
    supervisor = server.make(policy=ReplacingPolicy())
    async with supervisor.use() as old:
        with pytest.raises(Unavailable):
            async with supervisor.use():
                raise Unavailable("session lost")
        assert await session_of(supervisor) is not old
        await asyncio.sleep(0.01)
        assert server.transports[0].closed == 0
    await asyncio.sleep(0.01)
    assert (server.transports[0].closed, server.transports[1].closed, supervisor.opened) == (1, 0, 2)
    await supervisor.close()


async def test_a_replaced_session_that_ends_leaves_its_successor_alone() -> None:
    server = FakeServer()
    supervisor = server.make(policy=ReplacingPolicy())
    async with supervisor.use():
        with pytest.raises(Unavailable):
            async with supervisor.use():
                raise Unavailable("session lost")
        new = await session_of(supervisor)
        server.transports[0].end("too late")
        await asyncio.sleep(0.01)
        assert supervisor.state == "ready"
        assert await session_of(supervisor) is new
    await supervisor.close()


async def test_a_session_that_a_failed_call_took_down_is_released() -> None:
    """Its end during the opening of its successor is no second failure, and opens no third session."""
    server, policy = FakeServer(), RemoteRetryPolicy()
    supervisor = server.make(policy=policy)
    with pytest.raises(HttpFailure):
        async with supervisor.use():
            raise HttpFailure("unreachable", "no route")
    assert (supervisor.session, supervisor.state, policy.breaker.failures) == (None, "backoff", 1)
    server.gate = asyncio.Event()
    supervisor.try_now()
    await asyncio.sleep(0.01)
    server.transports[0].end("too late")
    await asyncio.sleep(0.01)
    assert (len(server.transports), policy.breaker.failures) == (2, 1)
    server.gate.set()
    new = await session_of(supervisor)
    assert (server.transports[0].closed, supervisor.session) == (1, new)
    await supervisor.close()


async def test_a_retry_that_was_scheduled_leaves_a_usable_session_alone() -> None:
    """A session whose end is reported while its successor is being opened schedules one."""
    server = FakeServer()
    reported: list[Callable[[str], None]] = []

    async def open_session(on_end: Callable[[str], None]) -> Session:
        reported.append(on_end)
        return await server._open(lambda _: None)

    supervisor = SessionSupervisor(
        open_session, RestartPolicy(), lambda *_: None, source="x", clock=time.monotonic, chance=lambda: 0.5
    )
    old = await session_of(supervisor)
    server.transports[0].end("exited with code 1")
    async with asyncio.timeout(5):
        while old.ended is None:
            await asyncio.sleep(0.005)
    server.gate = asyncio.Event()
    supervisor.try_now()
    await asyncio.sleep(0.01)
    reported[0]("exited with code 1")
    server.gate.set()
    async with asyncio.timeout(5):
        while supervisor.session is None:
            await asyncio.sleep(0.005)
    await asyncio.sleep(3600)
    assert (len(server.transports), supervisor.opened, supervisor.state) == (2, 2, "ready")
    await supervisor.close()


async def test_closing_ends_a_replaced_session_that_still_has_callers() -> None:
    server = FakeServer()
    supervisor = server.make(policy=ReplacingPolicy())
    async with supervisor.use():
        with pytest.raises(Unavailable):
            async with supervisor.use():
                raise Unavailable("session lost")
        await supervisor.close()
        assert server.transports[0].closed == 1
    await asyncio.sleep(0.01)
    assert server.transports[0].closed == 1


async def test_a_restart_ends_a_session_that_works_with_its_calls() -> None:
    """The new one is opened when the old one has ended."""
    server = FakeServer()
    async with server.supervisor.use() as old:
        waiting = asyncio.create_task(old.request("tools/list"))
        await asyncio.sleep(0)
        assert await server.supervisor.restart() == "it was ended and is ready again"
        with pytest.raises(Unavailable):
            await waiting
    assert server.transports[0].closed == 1
    assert await session_of(server.supervisor) is not old
    assert (len(server.transports), server.supervisor.state) == (2, "ready")
    await server.supervisor.close()


async def test_a_restart_replaces_an_opening_that_hangs() -> None:
    server = FakeServer()
    server.gate = asyncio.Event()
    hanging = asyncio.create_task(session_of(server.supervisor))
    await asyncio.sleep(0)
    server.gate = None
    assert await server.supervisor.restart() == "it did not run and is ready again"
    with pytest.raises(Unavailable):
        await hanging
    await session_of(server.supervisor)
    await server.supervisor.close()


@pytest.mark.parametrize("policy", [RestartPolicy, RemoteRetryPolicy])
async def test_a_restart_asks_no_pause_and_says_why_it_failed(
    policy: Callable[[], Any],
) -> None:
    server = FakeServer(*(SessionFailed("the program is missing", final=True) for _ in range(3)))
    supervisor = server.make(policy=policy())
    with pytest.raises(Unavailable):
        await session_of(supervisor)
    assert supervisor.state == "failed"
    for _ in range(2):
        assert await supervisor.restart() == "it did not run and cannot be started: the program is missing"
    assert await supervisor.restart() == "it did not run and is ready again"
    await supervisor.close()
    assert await supervisor.restart() == "it is being stopped"


async def test_a_restart_says_that_a_slow_start_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_supervisor, "RESTARTING_S", 0.0)
    server = FakeServer()
    server.gate = asyncio.Event()
    assert await server.supervisor.restart() == "it did not run and is being started"
    server.gate.set()
    await session_of(server.supervisor)
    await server.supervisor.close()


async def test_two_restarts_at_once_leave_one_session() -> None:
    server = FakeServer()
    opening = asyncio.create_task(session_of(server.supervisor))
    await asyncio.sleep(0)
    await asyncio.gather(server.supervisor.restart(), server.supervisor.restart())
    with pytest.raises(Unavailable):
        await opening
    await session_of(server.supervisor)
    await server.supervisor.close()
    assert [transport.closed for transport in server.transports] == [1, 1], "the first, and one in its place"
