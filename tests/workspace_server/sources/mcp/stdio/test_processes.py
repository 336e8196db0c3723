"""Which callers share a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lm_tools_bridge.protocol.errors import Reason
from support.servers.mcp_sources.scripted_transport import ScriptedTransport
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor
from workspace_server.sources.mcp.stdio.processes import ProcessPerSession
from workspace_server.sources.mcp.stdio.restart_policy import RestartPolicy


def make() -> SessionSupervisor:
    async def connect(on_end: Callable[[str], None]) -> Session:
        return await Session.open(
            ScriptedTransport(),
            source="x",
            root="/",
            timeout_s=5,
            on_change=lambda _: None,
            on_end=on_end,
            version="1",
        )

    return SessionSupervisor(connect, RestartPolicy(), lambda state, error: None, source="x", revive=False)


async def test_the_longest_idle_process_makes_room_for_a_new_caller() -> None:
    processes = ProcessPerSession(make, max_sessions=2)
    sessions = {}
    for caller in ("a", "b", "a", "c"):
        async with processes.use(caller) as session:
            sessions[caller] = session
    assert len(processes.supervisors) == 2
    await asyncio.sleep(0.01)
    assert [sessions[caller].ended is None for caller in "abc"] == [True, False, True]
    await processes.close()


async def test_there_is_no_room_while_all_are_busy() -> None:
    processes = ProcessPerSession(make, max_sessions=1)
    async with processes.use("a"), processes.use("a"):
        with pytest.raises(Unavailable) as refused:
            async with processes.use("b"):
                pass
    assert refused.value.reason is Reason.OVERLOADED
    await processes.close()


async def test_a_listing_uses_any_existing_process() -> None:
    processes = ProcessPerSession(make)
    async with processes.use("a") as session, processes.use(None) as listing:
        assert listing is session
    await processes.close()
