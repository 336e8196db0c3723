"""What servers tell of changes, in either era: lists, and resources somebody subscribed to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol import names
from support.servers.scripted_transport import Message, ScriptedTransport
from workspace_server.sources.mcp.session import change_feed
from workspace_server.sources.mcp.session.session import Session
from workspace_server.tool import RpcError

LISTS: Message = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": False}}


class Modern:
    """A stateless server; `refused` are resources it tells nothing of, `says` is what it always honours."""

    def __init__(
        self, refused: tuple[str, ...] = (), acknowledges: bool = True, says: Message | None = None
    ) -> None:
        self.wire = ScriptedTransport(self._serve, greeting={})
        self.refused = refused
        self.acknowledges = acknowledges
        self.says = says
        self.open: dict[int, Message] = {}

    def _serve(self, wire: ScriptedTransport, message: Message) -> None:
        method, identity = message["method"], message.get("id")
        if method == names.INITIALIZE:
            wire.say({"id": identity, "error": {"code": -32601, "message": "no"}})
        elif method == names.DISCOVER:
            wire.answer(message, {"supportedVersions": ["2026-07-28"], "capabilities": LISTS})
        elif method == names.LISTEN:
            wanted = message["params"]["notifications"]
            self.open[identity or 0] = wanted
            if self.acknowledges:
                uris = [uri for uri in wanted.get("resourceSubscriptions", ()) if uri not in self.refused]
                honoured = (
                    wanted if "resourceSubscriptions" not in wanted else {"resourceSubscriptions": uris}
                )
                told = {"notifications": self.says or honoured, "_meta": {names.META_SUBSCRIPTION: identity}}
                wire.say({"method": names.ACKNOWLEDGED, "params": told})
            elif "resourceSubscriptions" in wanted:
                wire.say({"id": identity, "error": {"code": -32602, "message": "no"}})
        elif method == names.CANCELLED:
            self.open.pop(message["params"]["requestId"], None)

    @property
    def listened_to(self) -> list[Message]:
        return list(self.open.values())


@asynccontextmanager
async def opened(wire: ScriptedTransport, heard: list[str]) -> AsyncIterator[Session]:
    session = await Session.open(
        wire,
        source="s",
        root="/w",
        timeout_s=5,
        on_change=lambda kind: heard.append(f"list of {kind}"),
        on_end=lambda _: None,
        on_update=heard.append,
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


async def test_the_older_era_has_a_request_for_each_resource() -> None:
    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message.get("params", {}).get("uri") == "x:refused":
            wire.say({"id": message["id"], "error": {"code": -32602, "message": "unknown"}})
        elif "id" in message:
            wire.answer(message, {})

    heard: list[str] = []
    wire = ScriptedTransport(serve)
    async with opened(wire, heard) as session:
        assert await session.subscribe("x:1") is None
        refused = await session.subscribe("x:refused")
        assert isinstance(refused, RpcError)
        wire.say(updated("x:1"))
        wire.say(updated(7))
        await until(lambda: heard)
        await session.unsubscribe("x:1")
        assert wire.last(names.UNSUBSCRIBE)["params"] == {"uri": "x:1"}
    assert heard == ["x:1"]
    assert all(one.get("method") != names.LISTEN for one in wire.sent)


async def test_the_newer_era_has_one_request_for_all_of_them() -> None:
    """Opened anew for each change, the old one ended only when there is the new one."""
    heard: list[str] = []
    server = Modern(refused=("x:secret",))
    async with opened(server.wire, heard) as session:
        await until(lambda: server.open)
        assert await session.subscribe("x:1") is None
        assert await session.subscribe("x:2") is None
        assert isinstance(await session.subscribe("x:secret"), RpcError)
        await until(lambda: len(server.open) == 2)
        assert server.listened_to[0] == {"toolsListChanged": True}
        server.wire.say(updated("x:2"))
        await until(lambda: heard)
        await session.unsubscribe("x:1")
        await until(lambda: server.listened_to[1:] == [{"resourceSubscriptions": ["x:2"]}])
        await session.unsubscribe("x:2")
        await until(lambda: len(server.open) == 1)
    assert heard == ["x:2"]


async def test_a_server_that_refuses_is_not_waited_for() -> None:
    server = Modern(acknowledges=False)
    async with opened(server.wire, []) as session, asyncio.timeout(change_feed.ACKNOWLEDGED_S * 0.8):
        assert isinstance(await session.subscribe("x:1"), RpcError)


async def test_what_was_listened_to_goes_on_where_a_server_will_not_hear_of_more() -> None:
    heard: list[str] = []
    server = Modern()
    async with opened(server.wire, heard) as session:
        assert await session.subscribe("x:1") is None
        server.acknowledges = False
        assert isinstance(await session.subscribe("x:2"), RpcError)
        server.acknowledges = True
        assert await session.subscribe("x:3") is None
        await until(lambda: server.listened_to[-1] == {"resourceSubscriptions": ["x:1", "x:3"]})


@pytest.mark.parametrize("said", ["x:1", [{"uri": "x:1"}], [["x:1"]], {"x:1": True}, 7, None])
async def test_an_acknowledgement_of_something_else_is_none_and_ends_nothing(said: Any) -> None:
    server = Modern(says={"resourceSubscriptions": said})
    async with opened(server.wire, []) as session:
        assert isinstance(await session.subscribe("x:1"), RpcError)
        assert session.ended is None


async def test_after_a_stream_that_broke_everything_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happened meanwhile nobody told."""
    monkeypatch.setattr(change_feed, "LISTEN_AGAIN_S", 0.01)
    heard: list[str] = []
    server = Modern()
    async with opened(server.wire, heard) as session:
        assert await session.subscribe("x:1") is None
        await until(lambda: len(server.open) == 2)
        for identity in tuple(server.open):
            server.wire.say({"id": identity, "result": {"resultType": "complete"}})
        await until(lambda: len(server.open) == 4)
        await until(lambda: len(heard) >= 2)
    assert set(heard) == {"x:1", "list of tools"}
