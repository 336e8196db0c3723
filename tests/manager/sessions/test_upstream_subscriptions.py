"""The manager's listen streams on behalf of sessions, and notifications that they missed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web

from lm_tools_bridge.protocol import jsonrpc, names, sse
from manager.routing.state.session_table import Session, SessionTable
from manager.sessions import upstream_subscriptions as listeners
from manager.sessions.notifier import Notifier
from manager.sessions.streams import Streams
from manager.sessions.upstream_subscriptions import UpstreamSubscriptions
from manager.supervision.instance import Instance
from support.http.runner_end import end_runner

LISTS = set(names.LISTS_CHANGED)


@dataclass
class Server:
    """A workspace server that only listens; it tells of what begins with `told:`."""

    refuses: bool = False
    most: int = 1000
    streams: list[tuple[list[str], asyncio.Event]] = field(default_factory=list)
    """The resources that each stream was asked for, and what ends it."""

    async def health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"ok": True, "nonce": "n"})

    async def listen(self, request: web.Request) -> web.StreamResponse:
        wanted = (await request.json())["params"]["notifications"].get("resourceSubscriptions", [])
        self.streams.append((wanted, asyncio.Event()))
        if self.refuses:
            return web.json_response({}, status=404)
        honoured = {"resourceSubscriptions": [uri for uri in wanted[: self.most] if uri.startswith("told:")]}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        end = self.streams[-1][1]
        await response.write(
            sse.encode(jsonrpc.notification(names.ACKNOWLEDGED, {"notifications": honoured}))
        )
        await end.wait()
        return response


@dataclass
class Setup:
    """One session of one workspace, and its upstream subscriptions."""

    server: Server
    session: Session
    subscriptions: UpstreamSubscriptions
    notifier: Notifier
    streams: Streams

    def take_pending(self) -> set[str]:
        """Remove and return the keys of the notifications that wait for the session."""
        server_stream = self.streams.server_stream(self.session)
        said, server_stream._pending = server_stream._pending or {}, None
        return set(said)

    def subscribe(self, uri: str) -> None:
        self.session.subscriptions[uri] = "w"
        self.notifier.interest_changed()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.01)


@pytest.fixture
async def setup(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setup]:
    monkeypatch.setattr(listeners, "RETRY_S", 0.2)
    server, app = Server(), web.Application()
    app.router.add_get("/mcp/health", server.health)
    app.router.add_post("/mcp", server.listen)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    instance = Instance("i", "w", (), runner.addresses[0][1], "n", "secret", 0.0)
    workspace = SimpleNamespace(root="/w", supervisor=SimpleNamespace(is_serving=True, instance=instance))
    known: Any = {"w": workspace}
    nobody: Any = SimpleNamespace(serving=lambda root: None)
    sessions, streams = SessionTable(limit=9, idle_s=1e9, unused_s=1e9), Streams(lambda: 0.0)
    session = Session("s", "2025-11-25", None, None, b"{}", 0.0, workspace="w")
    sessions.add(session)
    notifier = Notifier(sessions, streams, lambda: 0.0)
    subscriptions = UpstreamSubscriptions(notifier, known, nobody)
    running = asyncio.create_task(subscriptions.run())
    yield Setup(server, session, subscriptions, notifier, streams)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await instance.pool.close()
    await end_runner(runner)


async def test_concurrent_subscriptions_are_decided_together(setup: Setup) -> None:
    """One listen stream is given up for the next before it has begun; who waits for it is told all the same."""
    uris = ("told:1", "told:2", "other:3")

    async def one(uri: str) -> bool | None:
        setup.subscribe(uri)
        return await setup.subscriptions.honours("w", uri, 60)

    async with asyncio.timeout(10):
        assert await asyncio.gather(*map(one, uris)) == [True, True, False]


async def test_notifications_missed_between_streams_are_announced(setup: Setup) -> None:
    """Also where the next one is not begun for its end, but for another resource."""
    await setup.until(
        lambda: setup.subscriptions._listeners and setup.subscriptions._listeners["w"][0].honoured is not None
    )
    setup.take_pending()
    (first,) = setup.subscriptions._listeners["w"]
    setup.server.streams[0][1].set()
    await setup.until(lambda: first.is_over)
    setup.subscribe("told:1")
    assert await setup.subscriptions.honours("w", "told:1", 60)
    assert setup.take_pending() == LISTS | {"told:1"}


async def test_new_subscriptions_do_not_displace_acknowledged_ones(setup: Setup) -> None:
    setup.server.most = 2
    for uri, is_honoured in (("told:y", True), ("told:z", True), ("told:a", False)):
        setup.subscribe(uri)
        assert await setup.subscriptions.honours("w", uri, 60) is is_honoured
    assert setup.subscriptions._listeners["w"][-1].honoured == frozenset({"told:y", "told:z"})


async def test_a_refusing_server_leaves_one_listener(setup: Setup) -> None:
    setup.server.refuses = True
    for number in range(20):
        setup.subscribe(f"told:{number}")
        assert await setup.subscriptions.honours("w", f"told:{number}", 60) is False
    assert len(setup.subscriptions._listeners["w"]) == len(setup.subscriptions._tasks) == 1


async def test_an_invalid_acknowledgement_confirms_nothing() -> None:
    wanted = msgspec.Raw(b'{"resourceSubscriptions":["\xff"]}')
    assert listeners._honoured({"notifications": wanted}) == frozenset()
