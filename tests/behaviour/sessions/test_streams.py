"""Event streams of sessions over broken connections: numbered, resumed, bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientResponse, web

from lm_tools_bridge.protocol import jsonrpc, names, sse
from support.clients.raw_clients import EVENTS, JSON, SessionClient
from support.http.event_stream import is_silent, next_event, next_message, next_methods, priming
from support.processes.managers.manager_in_process import running_manager
from support.processes.timeouts import within
from support.projects.registered_setup import RegisteredSetup, raw_http, registered_setup
from support.servers.scripted.scripted_workspace_server import (
    Received,
    ScriptedWorkspaceServer,
    cut,
    event,
    held,
    result,
    stream,
)

RESPONSE = b'{"jsonrpc":"2.0","id":%(id)s,"result":{"content":[]}}'


class Older(SessionClient):
    revision = "2025-06-18"


class Oldest(SessionClient):
    revision = "2024-11-05"


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


def progress(count: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": names.PROGRESS, "params": {"progressToken": 1, "progress": count}}


def break_off(response: ClientResponse) -> None:
    """Cut the TCP connection, as a network does."""
    assert response.connection is not None
    assert response.connection.transport is not None
    response.connection.transport.abort()


def calling(client: SessionClient, tool: str, identity: Any = 7) -> Any:
    return client.open(client.body(names.TOOLS_CALL, {"name": tool}, identity))


# The stream of a request -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_early", [True, False], ids=["before the answer", "after the answer"])
async def test_a_call_survives_a_broken_connection_and_its_answer_is_replayed(
    setup: RegisteredSetup, is_early: bool
) -> None:
    """Only later events of that stream, then its end."""
    client = await setup.legacy()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(progress(2)), gate, event(RESPONSE))
    async with calling(client, "slow") as response:
        first = await next_event(response)
        await next_event(response)
        break_off(response)
    if not is_early:
        gate.set()
        await answered(client, 7)
    async with client.stream(first.id) as again:
        assert (again.status, again.content_type) == (200, EVENTS)
        assert await next_message(again) == progress(2)
        gate.set()
        last = await next_event(again)
        assert json.loads(last.data) == {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}
        assert await again.content.read() == b""
    assert len(setup.upstream.called("slow")) == 1
    async with client.stream(last.id) as nothing:
        assert (nothing.status, await nothing.read()) == (204, b""), "so that nobody comes again and again"


async def answered(client: SessionClient, identity: int) -> None:
    """Wait until an id is no longer pending."""
    async with asyncio.timeout(within(2.5)):
        while (await client.ask(names.PING, identity=identity)).status == 400:
            await asyncio.sleep(0.01)


async def test_a_stream_can_be_resumed_from_its_priming_event(
    setup: RegisteredSetup,
) -> None:
    """The priming event exists since MCP 2025-11-25."""
    client = await setup.legacy()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = stream(event(progress(1)), gate, event(RESPONSE))
    async with calling(client, "slow") as response:
        identity = await priming(response)
        break_off(response)
    gate.set()
    async with client.stream() as standing, client.stream(identity) as again:
        assert (standing.status, again.status) == (200, 200)
        assert await next_message(again) == progress(1)
        assert (await next_message(again))["id"] == 7
        assert await is_silent(standing), "a response is on its own stream only"


@pytest.mark.parametrize(("kind", "numbered"), [(Oldest, False), (Older, True)])
async def test_older_revisions_get_no_event_without_data(
    setup: RegisteredSetup, kind: type[SessionClient], numbered: bool
) -> None:
    """Their parsers fail on it; they have event ids since 2025-03-26."""
    client = await kind.connect(setup.http, setup.pure_url)
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(RESPONSE))
    answer = await client.call("slow")
    assert answer.body.count(b"data: ") == answer.body.count(b"data: {") == 2
    assert b"retry" not in answer.body
    assert [one.id is not None for one in answer.events] == [numbered, numbered]
    async with client.stream() as standing:
        assert await is_silent(standing)


async def test_stateless_streams_have_no_event_ids(setup: RegisteredSetup) -> None:
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(RESPONSE))
    answer = await setup.modern().call("slow", identity=7)
    assert answer.body == event(progress(1)) + event(RESPONSE.replace(b"%(id)s", b"7"))


async def test_event_ids_differ_between_the_streams_of_a_session(setup: RegisteredSetup) -> None:
    client = await setup.legacy()
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(RESPONSE))
    ids = [one.id for _ in range(3) for one in (await client.call("slow")).events]
    async with client.stream() as standing:
        ids.append(await priming(standing))
    assert len(set(ids)) == len(ids) == 7


async def test_the_replay_buffer_is_bounded_and_keeps_the_answer(setup: RegisteredSetup) -> None:
    client = await setup.legacy()
    gate = asyncio.Event()
    flood = b"".join(event(progress(count)) for count in range(1000))
    setup.upstream.answers["slow"] = stream(event(progress(-1)), gate, flood, event(RESPONSE))
    async with calling(client, "slow") as response:
        first = await next_event(response)
        break_off(response)
    gate.set()
    await answered(client, 7)
    async with client.stream(first.id) as again:
        whole = sse.Decoder().feed(await again.read())
    counts = [json.loads(one.data).get("params", {}).get("progress") for one in whole]
    assert counts == [*range(745, 1000), None]


async def test_only_the_session_itself_can_resume_its_stream(setup: RegisteredSetup) -> None:
    """Another session learns only that the stream does not exist."""
    client, other = await setup.legacy(), await setup.legacy()
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(RESPONSE))
    first, _ = (await client.call("slow", identity="mine")).events
    async with other.stream(first.id) as again:
        (lost,) = sse.Decoder().feed(await again.read())
    assert json.loads(lost.data)["error"]["code"] == 47112


async def test_resuming_an_unknown_stream_without_a_request_gets_204(setup: RegisteredSetup) -> None:
    """Ids that are too long are not named; who made one up learns no more."""
    client = await setup.legacy()
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(RESPONSE))
    first, _ = (await client.call("slow", identity="x" * 100)).events
    async with client.stream(first.id) as again:
        assert (await next_message(again))["id"] == "x" * 100
    async with client.stream("abcd.5-1") as again:
        assert (again.status, await again.read()) == (204, b"")


async def test_a_cancelled_calls_stream_cannot_be_resumed(setup: RegisteredSetup) -> None:
    """Its client comes back once, because the stream ended without a response, and not again."""
    client = await setup.legacy()
    setup.upstream.answers["slow"] = stream(event(progress(1)), None)
    async with calling(client, "slow") as response:
        last = await next_event(response)
        await client.notify(names.CANCELLED, {"requestId": 7})
        assert await response.content.read() == b""
    async with client.stream(last.id) as again:
        assert again.status == 204


async def test_a_second_connection_takes_over_a_resumed_stream(setup: RegisteredSetup) -> None:
    """A client knows before the manager that its connection is dead."""
    client = await setup.legacy()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = stream(event(progress(1)), gate, event(RESPONSE))
    async with calling(client, "slow") as dead:
        first = await next_event(dead)
        async with client.stream(first.id) as again:
            gate.set()
            assert (await next_message(again))["id"] == 7
        with pytest.raises(ClientError):
            await dead.content.read()


async def test_the_error_of_a_dead_server_can_be_replayed(
    setup: RegisteredSetup,
) -> None:
    client = await setup.legacy()
    setup.upstream.answers["slow"] = cut(event(progress(1)))
    first, last = (await client.call("slow")).events
    assert json.loads(last.data)["result"]["structuredContent"]["error"]["code"] == 47103
    async with client.stream(first.id) as again:
        assert [one.data for one in sse.Decoder().feed(await again.read())] == [last.data]


# Server stream -----------------------------------------------------------------------------------------------


async def test_notifications_during_a_broken_connection_are_delivered_later(setup: RegisteredSetup) -> None:
    """What was missed, and nothing twice."""
    client = await setup.legacy(bound=False)
    setup.upstream.tools = [{"name": "a", "inputSchema": {"type": "object"}}]
    async with client.stream() as standing:
        identity = await priming(standing)
        await client.handshake(setup.upstream.root)
        assert await next_methods(standing, 3) == list(names.LISTS_CHANGED)
        break_off(standing)
    async with client.stream(identity) as again:
        ids = [(await next_event(again)).id for _ in range(3)]
        assert await is_silent(again)
    await gone(client)
    async with client.stream(ids[1]) as again:
        assert (await next_event(again)).id == ids[2]


async def test_an_unknown_event_id_announces_all_lists_as_changed(setup: RegisteredSetup) -> None:
    """Too old, of another manager, or made up."""
    client = await setup.legacy()
    for unknown in ("abcd.0-7", "rubbish"):
        async with client.stream(unknown) as standing:
            assert standing.status == 200
            assert await next_methods(standing, 3) == list(names.LISTS_CHANGED)
            async with client.stream("abcd.0-7") as second:
                assert second.status == 409
        await gone(client)


async def gone(client: SessionClient) -> None:
    """Wait until the server stream has no connection."""
    async with asyncio.timeout(within(2.5)):
        while True:
            async with client.stream() as tried:
                if tried.status == 200:
                    break
            await asyncio.sleep(0.01)


# Silence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_long_silent_call_is_kept_alive(
    setup: RegisteredSetup, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is opened, comments keep it, and the answer comes as its last event."""
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.05)
    client = await setup.legacy() if era == "legacy" else setup.modern()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": []}))
    async with calling(client, "slow") as response:
        assert response.content_type == EVENTS
        if era == "legacy":
            await priming(response)
        for _ in range(2):
            assert await response.content.readuntil(b"\n\n") == sse.KEEP_ALIVE
        gate.set()
        answer = json.loads((await next_event(response)).data)
        assert await response.content.read() == b""
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_silent_call_with_a_progress_token_gets_progress_not_comments(
    setup: RegisteredSetup, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clients give up on calls that only comments keep alive."""
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.05)
    client = await setup.legacy() if era == "legacy" else setup.modern()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": []}))
    wanted = client.body(names.TOOLS_CALL, {"name": "slow", "_meta": {"progressToken": "p"}}, 7)
    async with client.open(wanted) as response:
        if era == "legacy":
            await priming(response)
        seen = [json.loads((await next_event(response)).data)["params"] for _ in range(2)]
        gate.set()
        while json.loads((await next_event(response)).data).get("id") != 7:
            pass
    assert [one["progressToken"] for one in seen] == ["p", "p"]
    assert 0 < seen[0]["progress"] < seen[1]["progress"]


async def test_log_messages_do_not_take_the_place_of_progress(
    setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep the connection busy, but not the patience of a client that counts progress."""
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.5)
    client = setup.modern()
    gate = asyncio.Event()
    log = event(jsonrpc.notification(names.MESSAGE, {"level": "info", "data": "busy"}))

    async def talkative(request: web.Request, received: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENTS})
        await response.prepare(request)
        while not gate.is_set():
            await response.write(log)
            await asyncio.sleep(0.01)
        await response.write(event(RESPONSE).replace(b"%(id)s", received.id))
        return response

    setup.upstream.answers["slow"] = talkative
    wanted = client.body(names.TOOLS_CALL, {"name": "slow", "_meta": {"progressToken": "p"}}, 7)
    async with client.open(wanted) as response:
        while json.loads((await next_event(response)).data)["method"] != names.PROGRESS:
            pass
        gate.set()
        while json.loads((await next_event(response)).data).get("id") != 7:
            pass


async def test_a_json_only_client_gets_nothing_before_its_response(
    setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.01)
    client = await setup.legacy(accept=JSON)
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": []}))
    call = asyncio.create_task(client.call("slow"))
    await setup.upstream.arrival("slow")
    await asyncio.sleep(0.05)
    gate.set()
    assert not (await call).is_stream


# The next manager --------------------------------------------------------------------------------------------


async def test_a_new_manager_answers_that_a_response_is_lost(tmp_path: Path) -> None:
    """Error 47112 for a response of an earlier manager; lists are announced as changed."""
    root = tmp_path / "scripted"
    root.mkdir()
    async with raw_http() as http:
        async with running_manager(tmp_path / "manager", drain_s=0) as manager:
            upstream = ScriptedWorkspaceServer(root, manager.paths.control_socket)
            upstream.answers["slow"] = stream(event(progress(1)), None)
            async with upstream.serving():
                client = await SessionClient.connect(http, manager.address)
                await client.handshake(root)
                async with client.stream() as stood, calling(client, "slow", "x-7") as response:
                    standing, call = await priming(stood), (await next_event(response)).id
                    break_off(response)
                    break_off(stood)
        async with running_manager(tmp_path / "manager", http_port=manager.port):
            async with client.stream(call) as again:
                (lost,) = sse.Decoder().feed(await again.read())
            assert json.loads(lost.data)["id"] == "x-7"
            assert json.loads(lost.data)["error"]["data"]["reason"] == "answer_lost"
            assert json.loads(lost.data)["error"]["data"]["delivered"] == "unknown"
            async with client.stream(standing) as again:
                assert await next_methods(again, 3) == list(names.LISTS_CHANGED)
                assert await is_silent(again)
