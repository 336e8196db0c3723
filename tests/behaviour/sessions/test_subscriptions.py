"""Resource subscriptions and log levels of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import jsonrpc, names
from support.clients.raw_clients import SessionClient
from support.http.event_stream import is_silent, next_message, next_methods, priming
from support.processes.managers.manager_in_process import RunningManager, running_manager
from support.projects.registered_setup import RegisteredSetup, raw_http, registered_setup
from support.servers.scripted.listen_streams import ListenStreams
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer, error


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


@pytest.fixture
def listened(setup: RegisteredSetup) -> ListenStreams:
    return ListenStreams(setup.upstream)


async def subscribe(client: SessionClient, *uris: str) -> None:
    for uri in uris:
        assert (await client.ask(names.SUBSCRIBE, {"uri": uri})).result == {}


def updated(uri: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": names.RESOURCE_UPDATED, "params": {"uri": uri}}


async def test_each_session_is_notified_of_its_subscribed_resources(
    setup: RegisteredSetup, listened: ListenStreams
) -> None:
    """Over one upstream listen stream for all sessions; the notification has no subscription id."""
    one, two, none = await setup.legacy(), await setup.legacy(), await setup.legacy()
    await subscribe(one, "x:1", "x:both")
    await subscribe(two, "x:2", "x:both")
    await listened.until(lambda: listened.resources == [{"x:1", "x:2", "x:both"}])
    async with one.stream() as first, two.stream() as second, none.stream() as third:
        for uri in ("x:1", "x:2", "x:both"):
            await listened.say(names.RESOURCE_UPDATED, {"uri": uri, "_meta": {names.META_SUBSCRIPTION: "l"}})
        assert [await next_message(first) for _ in range(2)] == [updated("x:1"), updated("x:both")]
        assert [await next_message(second) for _ in range(2)] == [updated("x:2"), updated("x:both")]
        assert await is_silent(third)


async def test_a_subscription_takes_effect_before_it_is_answered(
    setup: RegisteredSetup, listened: ListenStreams
) -> None:
    """The server has acknowledged it by then; updates before the server stream opens are sent once, later."""
    client = await setup.legacy()
    await subscribe(client, "x:1", "x:2")
    for uri in ("x:1", "x:2", "x:1"):
        await listened.say(names.RESOURCE_UPDATED, {"uri": uri})
    await listened.say(names.PROMPTS_CHANGED)
    await subscribe(client, "x:3")  # what was said before has arrived by then
    async with client.stream() as stream:
        heard = [await next_message(stream) for _ in range(3)]
        assert heard[:2] == [updated("x:1"), updated("x:2")]
        assert heard[2]["method"] == names.PROMPTS_CHANGED
        assert await is_silent(stream)


async def test_nothing_is_missed_while_the_listen_stream_is_renewed(
    setup: RegisteredSetup, listened: ListenStreams
) -> None:
    """The old stream stays open until the new one is acknowledged."""
    client = await setup.legacy()
    await subscribe(client, "x:0")
    async with client.stream() as stream:
        for number in range(1, 20):
            wishing = asyncio.create_task(subscribe(client, f"x:{number}"))
            await listened.say(names.RESOURCE_UPDATED, {"uri": f"x:{number - 1}"})
            assert await next_message(stream) == updated(f"x:{number - 1}")
            await wishing
    assert len(listened.open) <= 2


async def test_unused_subscriptions_end_upstream(setup: RegisteredSetup, listened: ListenStreams) -> None:
    one, two = await setup.legacy(), await setup.legacy()
    await subscribe(one, "x:1", "x:2")
    await subscribe(two, "x:2", "x:3")
    await listened.until(lambda: listened.resources == [{"x:1", "x:2", "x:3"}])
    assert (await one.ask(names.UNSUBSCRIBE, {"uri": "x:1"})).result == {}
    assert (await one.ask(names.UNSUBSCRIBE, {"uri": "never subscribed"})).result == {}
    await listened.until(lambda: listened.resources == [{"x:2", "x:3"}])
    async with setup.http.delete(two.url, headers={"Mcp-Session-Id": two.session or ""}) as gone:
        assert gone.status == 200
    await listened.until(lambda: listened.resources == [{"x:2"}])


async def test_at_a_workspaces_url_its_resources_are_subscribed(
    setup: RegisteredSetup, listened: ListenStreams
) -> None:
    """A workspace's URL needs no handshake."""
    client = await SessionClient.connect(setup.http, setup.pure_url)
    await subscribe(client, "x:1")
    async with client.stream() as stream:
        await listened.say(names.RESOURCE_UPDATED, {"uri": "x:1/part"})
        assert await next_message(stream) == updated("x:1/part")


async def test_concurrent_subscriptions_are_answered_individually(
    setup: RegisteredSetup, listened: ListenStreams
) -> None:
    """A pending subscription keeps waiting when another one renews the stream."""
    client = await setup.legacy()
    listened.attentive.clear()
    listened.refused = {"x:2"}
    requests = [asyncio.create_task(client.ask(names.SUBSCRIBE, {"uri": f"x:{one}"})) for one in range(4)]
    await listened.until(lambda: {"x:0", "x:1", "x:2", "x:3"} in listened.resources)
    assert not any(one.done() for one in requests)
    listened.attentive.set()
    answers = [one.message.get("result") for one in await asyncio.gather(*requests)]
    assert answers == [{}, {}, None, {}]
    await listened.until(lambda: listened.resources == [{"x:0", "x:1", "x:3"}])


async def test_a_slow_acknowledgement_counts_as_given(
    setup: RegisteredSetup, listened: ListenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.sessions.preferences.CONFIRM_S", 0.05)
    client = await setup.legacy()
    listened.attentive.clear()
    await subscribe(client, "x:1")
    listened.attentive.set()
    async with client.stream() as stream:
        await listened.until(lambda: listened.resources == [{"x:1"}])
        await listened.say(names.RESOURCE_UPDATED, {"uri": "x:1"})
        assert await next_message(stream) == updated("x:1")


async def test_without_server_support_subscriptions_are_refused(setup: RegisteredSetup) -> None:
    """A server without listen streams: an error is better than missing updates."""
    client = await setup.legacy()
    setup.upstream.answers[names.LISTEN] = error(jsonrpc.METHOD_NOT_FOUND, "no", status=404)
    answer = await client.ask(names.SUBSCRIBE, {"uri": "x:1"})
    assert answer.error["code"] == jsonrpc.INVALID_PARAMS


async def test_the_number_of_subscriptions_is_limited(
    setup: RegisteredSetup, listened: ListenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.sessions.session_manager.MAX_SUBSCRIPTIONS", 2)
    client, other = await setup.legacy(), await setup.legacy()
    await subscribe(client, "x:1", "x:2", "x:2")
    assert (await client.ask(names.SUBSCRIBE, {"uri": "x:3"})).error["code"] == jsonrpc.INVALID_PARAMS
    await subscribe(other, "x:3")
    await client.ask(names.UNSUBSCRIBE, {"uri": "x:1"})
    await subscribe(client, "x:3")


async def test_an_invalid_subscription_is_refused(setup: RegisteredSetup, listened: ListenStreams) -> None:
    client, unbound = await setup.legacy(), await setup.legacy(bound=False)
    listened.refused = {"x:constant"}
    refused = await client.ask(names.SUBSCRIBE, {"uri": "x:constant"})
    assert (refused.error["code"], refused.error["message"]) == (
        jsonrpc.INVALID_PARAMS,
        "this resource cannot be subscribed: x:constant",
    )
    for params in ({}, {"uri": 7}, {"uri": ""}, {"uri": "x" * 5000}):
        for method in (names.SUBSCRIBE, names.UNSUBSCRIBE):
            assert (await client.ask(method, params)).error["code"] == jsonrpc.INVALID_PARAMS
    assert (await unbound.ask(names.SUBSCRIBE, {"uri": "x:1"})).error["code"] == 47100
    nowhere = await SessionClient.connect(setup.http, setup.manager.address + "?cwd=relative")
    refused = await nowhere.ask(names.SUBSCRIBE, {"uri": "x:1"})
    assert refused.error["data"]["reason"] == "invalid_cwd"
    await subscribe(client, "x:1")
    await listened.until(lambda: listened.resources == [{"x:1"}])


async def test_a_restarted_server_is_resubscribed_and_all_may_have_changed(
    setup: RegisteredSetup, listened: ListenStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.sessions.upstream_subscriptions.RETRY_S", 0.05)
    client = await setup.legacy()
    await subscribe(client, "x:1")
    async with client.stream() as stream:
        listened.break_off()
        assert await next_methods(stream, 4) == [*names.LISTS_CHANGED, names.RESOURCE_UPDATED]
    assert listened.resources == [{"x:1"}]


async def test_resource_subscriptions_are_declared_to_sessions_only(setup: RegisteredSetup) -> None:
    answer = await setup.modern(pure=False).ask(names.DISCOVER)
    assert "subscribe" not in answer.result["capabilities"]["resources"], "a stateless client has no session"
    client = SessionClient(setup.http, setup.manager.address)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    assert (await client.ask(names.INITIALIZE, params)).result["capabilities"]["resources"][
        "subscribe"
    ] is True


# The log level -----------------------------------------------------------------------------------------------

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


async def test_only_valid_log_levels_are_accepted(setup: RegisteredSetup) -> None:
    client = await setup.legacy()
    for level in LEVELS:
        assert (await client.ask(names.SET_LEVEL, {"level": level})).result == {}
    for params in ({}, {"level": "loud"}, {"level": 3}, {"level": None}, {"level": "Info"}):
        answer = await client.ask(names.SET_LEVEL, params)
        assert (answer.status, answer.error["code"]) == (200, jsonrpc.INVALID_PARAMS)
    await client.call("echo")
    assert setup.upstream.called()[-1].params["_meta"][names.META_LOG_LEVEL] == "emergency"


# The next manager --------------------------------------------------------------------------------------------


async def test_subscriptions_and_log_levels_survive_a_manager_restart(tmp_path: Path) -> None:
    """The client continues with the same session id and does not repeat them."""
    root = tmp_path / "scripted"
    root.mkdir()
    async with raw_http() as http:
        async with running_manager(tmp_path / "manager") as manager:
            upstream = await begun(http, manager, root)
            async with upstream.serving():
                ListenStreams(upstream)
                client = await SessionClient.connect(http, manager.address)
                await client.handshake(root)
                await subscribe(client, "x:1")
                await client.ask(names.SET_LEVEL, {"level": "error"})
        async with running_manager(tmp_path / "manager", http_port=manager.port) as successor:
            upstream = await begun(http, successor, root)
            listened = ListenStreams(upstream)
            async with upstream.serving(), client.stream() as stream:
                await priming(stream)
                await client.call("echo")
                assert upstream.called()[-1].params["_meta"][names.META_LOG_LEVEL] == "error"
                await listened.until(lambda: listened.resources == [{"x:1"}])
                assert await next_methods(stream, 3) == list(names.LISTS_CHANGED)
                await listened.say(names.RESOURCE_UPDATED, {"uri": "x:1"})
                assert await next_message(stream) == updated("x:1")


async def begun(http: ClientSession, manager: RunningManager, root: Path) -> ScriptedWorkspaceServer:
    return ScriptedWorkspaceServer(root, manager.paths.control_socket)
