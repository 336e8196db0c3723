"""What changed while the manager was away, or after it, reaches agents that do not open their stream again."""

from __future__ import annotations

import asyncio
import signal

import pytest

from support.clients.agent_workplace import AS_SHIPPED, Deed, Workplace, script
from support.servers.models.formats.steps import Call, ModelRequest, Say
from support.servers.models.scripted_model import Script

AWAY_S = 7.0
"""Longer than these agents try to open their stream again."""
MOST_REQUESTS = 12


def outage_of(workplace: Workplace) -> Deed:
    """The manager is killed, and another one is there some seconds later."""

    async def outage() -> None:
        workplace.manager.send(signal.SIGKILL)
        await workplace.manager.ended()
        await asyncio.sleep(AWAY_S)
        workplace.manager = await workplace.home.start(http_port=workplace.manager.port, **AS_SHIPPED)

    return outage


def restart_of(workplace: Workplace) -> Deed:
    """`lmtb restart`, which keeps the socket."""

    async def restart() -> None:
        done = await workplace.home.lmtb("restart", cwd=workplace.project)
        assert done.code == 0, done

    return restart


def calls_what_appears(workplace: Workplace, deed: Deed) -> Script:
    """The model has a tool added after the deed, reads files until it is offered, and calls it."""
    appeared, called = workplace.calls("demo__appeared"), False

    async def next_step(request: ModelRequest) -> Call | Say:
        nonlocal called
        if called:
            return Say("done")
        if request.number == 1:
            return workplace.reads("nonce.txt")
        if request.number == 2:
            await deed()
            return workplace.calls("demo__change_tools")
        called = appeared.tool in request.tools
        assert called or request.number < MOST_REQUESTS, "it was never offered"
        return appeared if called else workplace.reads("other.txt")

    return next_step


@pytest.mark.parametrize("workplace", ["opencode"], indirect=True)
async def test_a_tool_that_appears_after_an_outage_joins_the_list(workplace: Workplace) -> None:
    await workplace.trust_server()
    model = await workplace.work(calls_what_appears(workplace, outage_of(workplace)))
    assert "appeared" in model.requests[-1].last_result


@pytest.mark.parametrize("workplace", ["gemini-cli", "opencode"], indirect=True)
async def test_a_tool_that_appears_after_a_restart_joins_the_list(workplace: Workplace) -> None:
    await workplace.trust_server()
    model = await workplace.work(calls_what_appears(workplace, restart_of(workplace)))
    assert "appeared" in model.requests[-1].last_result


@pytest.mark.parametrize("workplace", ["gemini-cli"], indirect=True)
async def test_an_agent_that_gave_its_stream_up_reaches_a_later_tool_otherwise(workplace: Workplace) -> None:
    """Gemini CLI acts on no notification after a failed attempt to connect."""
    await workplace.trust_server()
    outage = {2: outage_of(workplace)}
    finds = workplace.executes("tool_search", query="appeared")
    grows, reaches = workplace.calls("demo__change_tools"), workplace.executes("demo__appeared")
    model = await workplace.work(script(workplace.reads("nonce.txt"), grows, finds, reaches, before=outage))
    assert "demo__appeared" in model.requests[3].last_result
    assert "appeared" in model.requests[4].last_result
