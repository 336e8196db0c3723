"""A forwarded request leaves the count of calls in flight, however it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.configuration.settings import Settings
from manager.forwarding.answer import Answer, response_of
from manager.forwarding.forward import Forwarder, Outgoing
from manager.forwarding.forwarded_call import Admission, ForwardedCall
from manager.supervision.instance import Figures
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces


async def test_a_reader_cancelled_within_a_body_leaves_the_calls_in_flight(serve, pool_to) -> None:
    async def half_a_body(peer) -> None:
        await peer.identify()
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        await peer.disconnect()

    server = await serve(half_a_body)
    response = await pool_to(server.port).request(b"POST", b"/mcp", (), b"{}")
    mine, total = Figures(), Admission(Settings())
    call = ForwardedCall(total, mine, b"1")
    call.response = response
    answer = Answer(call, Settings())
    assert (mine.in_flight, total.in_flight) == (1, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await response_of(answer, 10_000)
    assert (mine.in_flight, total.in_flight) == (0, 0)
    assert mine.last_outcome == "cancelled"
    await server.finished()


async def test_a_request_is_not_sent_after_its_deadline() -> None:
    """The workspace server took longer to start than a call may last."""
    sent: list[object] = []
    settings = Settings(call_timeout_s=0.02)
    instance = SimpleNamespace(
        owner="external",
        credentials=lambda: (b"a", b"b"),
        pool=SimpleNamespace(request_now=lambda *it: sent.append(it)),
    )
    workspace = SimpleNamespace(supervisor=SimpleNamespace(figures=Figures()))

    async def ready(_: object, *, is_pure: bool) -> object:
        await asyncio.sleep(0.05)
        return instance

    forwarder = Forwarder(cast("Workspaces", SimpleNamespace(ready=ready)), settings)
    outgoing = Outgoing("tools/call", (), b"{}", b"1")
    outcome = await forwarder.send(cast("Workspace", workspace), outgoing)
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.delivered, sent) == (Reason.CALL_TIMED_OUT, "no", [])
