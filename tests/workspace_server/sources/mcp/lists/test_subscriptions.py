"""A resource is subscribed at its server while at least one client is subscribed to it."""

from __future__ import annotations

import asyncio
from typing import Any

from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists.subscriptions import Subscriptions
from workspace_server.tool import RpcError


class FakeServer:
    """A server and its sessions; `requests` are those it received, each with the number of the session."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.refused: set[str] = set()
        self.session = FakeSession(self, 1)
        self.is_down = False

    async def with_session(self, ask: Any) -> None:
        if self.is_down:
            raise Unavailable("down")
        await ask(self.session)

    def restart(self) -> None:
        self.session.ended = "gone"
        self.session = FakeSession(self, self.session.number + 1)

    async def settled(self, count: int) -> list[str]:
        """Returns the requests once `count` of them were received."""
        async with asyncio.timeout(5):
            while len(self.requests) < count:
                await asyncio.sleep(0)
        return self.requests


class FakeSession:
    """One session of the server."""

    def __init__(self, server: FakeServer, number: int) -> None:
        self.server = server
        self.number = number
        self.ended: str | None = None

    async def subscribe(self, uri: str) -> RpcError | None:
        self.server.requests.append(f"{self.number}+{uri}")
        return RpcError(-32602, "no") if uri in self.server.refused else None

    async def unsubscribe(self, uri: str) -> None:
        self.server.requests.append(f"{self.number}-{uri}")


async def test_many_subscribers_share_one_subscription() -> None:
    """The subscription at the server ends with the last of them."""
    server = FakeServer()
    subscriptions = Subscriptions("s", server.with_session)
    received: list[str] = []
    ends = [await subscriptions.add("x://a", received.append) for _ in range(3)]
    assert server.requests == ["1+x://a"]
    subscriptions.resource_changed("x://a")
    subscriptions.resource_changed("x://b")
    assert received == ["x://a"] * 3
    for end in ends:
        assert end is not None
        end()
    assert await server.settled(2) == ["1+x://a", "1-x://a"]
    await subscriptions.stop()


async def test_a_new_session_subscribes_again() -> None:
    server = FakeServer()
    subscriptions = Subscriptions("s", server.with_session)
    await subscriptions.add("x://a", print)
    end = await subscriptions.add("x://b", print)
    server.restart()
    subscriptions.renew()
    assert (await server.settled(4))[2:] == ["2+x://a", "2+x://b"]
    assert end is not None
    end()
    assert (await server.settled(5))[4:] == ["2-x://b"]
    await subscriptions.stop()


async def test_a_refused_subscription_is_neither_repeated_nor_kept() -> None:
    server = FakeServer()
    server.refused = {"x://a"}
    subscriptions = Subscriptions("s", server.with_session)
    assert await subscriptions.add("x://a", print) is None
    assert await subscriptions.add("x://b", print) is not None
    assert server.requests == ["1+x://a", "1+x://b"]
    await subscriptions.stop()


async def test_a_server_that_is_down_gets_the_subscription_when_it_is_back() -> None:
    server = FakeServer()
    server.is_down = True
    subscriptions = Subscriptions("s", server.with_session)
    assert await subscriptions.add("x://a", print) is not None
    server.is_down = False
    subscriptions.renew()
    assert await server.settled(1) == ["1+x://a"]
    await subscriptions.stop()


async def test_a_cancelled_subscription_sends_nothing_later() -> None:
    server = FakeServer()
    subscriptions = Subscriptions("s", server.with_session)
    gate = asyncio.Event()

    async def hanging(ask: Any) -> None:
        await gate.wait()
        await ask(server.session)

    subscriptions._with_session = hanging
    adding = asyncio.create_task(subscriptions.add("x://a", print))
    await asyncio.sleep(0.01)
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    gate.set()
    await asyncio.sleep(0.01)
    assert server.requests == []
    await subscriptions.stop()
