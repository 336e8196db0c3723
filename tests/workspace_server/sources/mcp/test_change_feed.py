"""Change notifications of servers in both eras: lists, and subscribed resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from support.servers.mcp_sources.scripted_transport import Message, ScriptedTransport
from workspace_server.sources.mcp import change_feed
from workspace_server.sources.mcp.session import Session
from workspace_server.tool import RpcError

LISTS: Message = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": False}}


class ModernServer:
    """A stateless server; `refused` are resources it does not acknowledge, `acknowledgement` replaces its answer."""

    def __init__(
        self, refused: tuple[str, ...] = (), acknowledges: bool = True, acknowledgement: Message | None = None
    ) -> None:
        self.transport = ScriptedTransport(self._serve, handshake_result={})
        self.refused = refused
        self.acknowledges = acknowledges
        self.acknowledgement = acknowledgement
        self.open: dict[int, Message] = {}

    def _serve(self, transport: ScriptedTransport, message: Message) -> None:
        method, identity = message["method"], message.get("id")
        if method == names.INITIALIZE:
            transport.deliver({"id": identity, "error": {"code": -32601, "message": "no"}})
        elif method == names.DISCOVER:
            transport.answer(message, {"supportedVersions": ["2026-07-28"], "capabilities": LISTS})
        elif method == names.LISTEN:
            wanted = message["params"]["notifications"]
            self.open[identity or 0] = wanted
            if self.acknowledges:
                uris = [uri for uri in wanted.get("resourceSubscriptions", ()) if uri not in self.refused]
                honoured = (
                    wanted if "resourceSubscriptions" not in wanted else {"resourceSubscriptions": uris}
                )
                params = {
                    "notifications": self.acknowledgement or honoured,
                    "_meta": {names.META_SUBSCRIPTION: identity},
                }
                transport.deliver({"method": names.ACKNOWLEDGED, "params": params})
            elif "resourceSubscriptions" in wanted:
                transport.deliver({"id": identity, "error": {"code": -32602, "message": "no"}})
        elif method == names.CANCELLED:
            self.open.pop(message["params"]["requestId"], None)

    @property
    def filters(self) -> list[Message]:
        return list(self.open.values())


@asynccontextmanager
async def opened(transport: ScriptedTransport, received: list[str]) -> AsyncIterator[Session]:
    session = await Session.open(
        transport,
        source="s",
        root="/w",
        timeout_s=5,
        on_change=lambda kind: received.append(f"list of {kind}"),
        on_end=lambda _: None,
        on_update=received.append,
        version="1",
    )
    try:
        yield session
    finally:
        await session.close()


async def until(done: Any) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0.001)


def updated(uri: Any) -> Message:
    return {"method": names.RESOURCE_UPDATED, "params": {"uri": uri}}


async def test_a_legacy_server_gets_one_request_for_each_resource() -> None:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message.get("params", {}).get("uri") == "x:refused":
            transport.deliver({"id": message["id"], "error": {"code": -32602, "message": "unknown"}})
        elif "id" in message:
            transport.answer(message, {})

    received: list[str] = []
    transport = ScriptedTransport(serve)
    async with opened(transport, received) as session:
        assert await session.subscribe("x:1") is None
        refused = await session.subscribe("x:refused")
        assert isinstance(refused, RpcError)
        transport.deliver(updated("x:1"))
        transport.deliver(updated(7))
        await until(lambda: received)
        await session.unsubscribe("x:1")
        assert transport.last(names.UNSUBSCRIBE)["params"] == {"uri": "x:1"}
    assert received == ["x:1"]
    assert all(one.get("method") != names.LISTEN for one in transport.sent)


async def test_a_modern_server_gets_one_request_for_all_resources() -> None:
    """Each change opens a new request; the old one is cancelled once the new one is acknowledged."""
    received: list[str] = []
    server = ModernServer(refused=("x:secret",))
    async with opened(server.transport, received) as session:
        await until(lambda: server.open)
        assert await session.subscribe("x:1") is None
        assert await session.subscribe("x:2") is None
        assert isinstance(await session.subscribe("x:secret"), RpcError)
        await until(lambda: len(server.open) == 2)
        assert server.filters[0] == {"toolsListChanged": True}
        server.transport.deliver(updated("x:2"))
        await until(lambda: received)
        await session.unsubscribe("x:1")
        await until(lambda: server.filters[1:] == [{"resourceSubscriptions": ["x:2"]}])
        await session.unsubscribe("x:2")
        await until(lambda: len(server.open) == 1)
    assert received == ["x:2"]


async def test_a_server_that_refuses_is_not_waited_for() -> None:
    server = ModernServer(acknowledges=False)
    async with opened(server.transport, []) as session, asyncio.timeout(change_feed.ACKNOWLEDGED_S * 0.8):
        assert isinstance(await session.subscribe("x:1"), RpcError)


async def test_a_refused_addition_keeps_the_existing_subscriptions() -> None:
    received: list[str] = []
    server = ModernServer()
    async with opened(server.transport, received) as session:
        assert await session.subscribe("x:1") is None
        server.acknowledges = False
        assert isinstance(await session.subscribe("x:2"), RpcError)
        server.acknowledges = True
        assert await session.subscribe("x:3") is None
        await until(lambda: server.filters[-1] == {"resourceSubscriptions": ["x:1", "x:3"]})


@pytest.mark.parametrize("acknowledged", ["x:1", [{"uri": "x:1"}], [["x:1"]], {"x:1": True}, 7, None])
async def test_an_invalid_acknowledgement_is_a_refusal(acknowledged: Any) -> None:
    server = ModernServer(acknowledgement={"resourceSubscriptions": acknowledged})
    async with opened(server.transport, []) as session:
        assert isinstance(await session.subscribe("x:1"), RpcError)
        assert session.ended is None


async def test_a_broken_stream_counts_as_a_change_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes during the interruption were not reported."""
    monkeypatch.setattr(change_feed, "LISTEN_AGAIN_S", 0.01)
    received: list[str] = []
    server = ModernServer()
    async with opened(server.transport, received) as session:
        assert await session.subscribe("x:1") is None
        await until(lambda: len(server.open) == 2)
        for identity in tuple(server.open):
            server.transport.deliver({"id": identity, "result": {"resultType": "complete"}})
        await until(lambda: len(server.open) == 4)
        await until(lambda: len(received) >= 2)
    assert set(received) == {"x:1", "list of tools"}
