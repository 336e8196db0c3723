"""Resources subscribed at a server for as long as somebody listens."""

from __future__ import annotations

import asyncio
from typing import Any

from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists.subscriptions import Subscriptions
from workspace_server.tool import RpcError


class Server:
    """A server and its sessions; `said` is what it was asked, with the number of the session."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.refused: set[str] = set()
        self.session = Sitting(self, 1)
        self.is_down = False

    async def with_session(self, ask: Any) -> None:
        if self.is_down:
            raise Unavailable("down")
        await ask(self.session)

    def restart(self) -> None:
        self.session.ended = "gone"
        self.session = Sitting(self, self.session.number + 1)

    async def settled(self, count: int) -> list[str]:
        """What was said, once that many things were."""
        async with asyncio.timeout(5):
            while len(self.said) < count:
                await asyncio.sleep(0)
        return self.said


class Sitting:
    """One session."""

    def __init__(self, server: Server, number: int) -> None:
        self.server = server
        self.number = number
        self.ended: str | None = None

    async def subscribe(self, uri: str) -> RpcError | None:
        self.server.said.append(f"{self.number}+{uri}")
        return RpcError(-32602, "no") if uri in self.server.refused else None

    async def unsubscribe(self, uri: str) -> None:
        self.server.said.append(f"{self.number}-{uri}")


async def test_many_listeners_are_one_subscription_that_ends_with_the_last() -> None:
    """"""
    server = Server()
    subscriptions = Subscriptions("s", server.with_session)
    heard: list[str] = []
    leave = [await subscriptions.add("x://a", heard.append) for _ in range(3)]
    assert server.said == ["1+x://a"]
    subscriptions.resource_changed("x://a")
    subscriptions.resource_changed("x://b")
    assert heard == ["x://a"] * 3
    for end in leave:
        assert end is not None
        end()
    assert await server.settled(2) == ["1+x://a", "1-x://a"]
    await subscriptions.stop()


async def test_a_new_session_is_told_what_is_listened_to() -> None:
    server = Server()
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


async def test_what_a_server_refuses_is_not_asked_for_again_nor_kept() -> None:
    server = Server()
    server.refused = {"x://a"}
    subscriptions = Subscriptions("s", server.with_session)
    assert await subscriptions.add("x://a", print) is None
    assert await subscriptions.add("x://b", print) is not None
    assert server.said == ["1+x://a", "1+x://b"]
    await subscriptions.stop()


async def test_a_server_that_is_down_is_told_when_it_is_back() -> None:
    server = Server()
    server.is_down = True
    subscriptions = Subscriptions("s", server.with_session)
    assert await subscriptions.add("x://a", print) is not None
    server.is_down = False
    subscriptions.renew()
    assert await server.settled(1) == ["1+x://a"]
    await subscriptions.stop()


async def test_one_that_waited_in_vain_leaves_nothing_behind() -> None:
    server = Server()
    subscriptions = Subscriptions("s", server.with_session)
    held = asyncio.Event()

    async def hanging(ask: Any) -> None:
        await held.wait()
        await ask(server.session)

    subscriptions._with_session = hanging
    adding = asyncio.create_task(subscriptions.add("x://a", print))
    await asyncio.sleep(0.01)
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    held.set()
    await asyncio.sleep(0.01)
    assert server.said == []
    await subscriptions.stop()
