"""A session whose client has no open stream hears of changed tools in front of its next answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from lm_tools_bridge.protocol import headers, names
from manager.routing.state.session_table import Session
from manager.sessions.notifier import Notifier
from support.clients.raw_clients import JSON, SessionClient
from support.http.event_stream import next_event
from support.processes.timeouts import within
from support.projects.gateway import Gateway, listed, running_gateway
from support.projects.registered_setup import registered_setup
from support.servers.scripted.listen_streams import ListenStreams
from support.servers.scripted.scripted_workspace_server import Received, result

pytestmark = pytest.mark.processes

CALL = {"name": "calculator", "arguments": {"expression": "6*7"}}


async def client_of(gateway: Gateway, name: str) -> SessionClient:
    """A session of a client that calls itself so; it has listed, and has called a tool."""
    client = await gateway.project(name).session_of(name)
    await listed(client)
    plain = 0
    async with asyncio.timeout(within(20)):
        while plain < 3:  # the later ones by the route cache
            if not (await client.ask(names.TOOLS_CALL, CALL)).is_stream:
                plain += 1
            else:  # a source that was slow to list on a busy machine has changed the list
                await listed(client)
                plain = 0
    return client


async def first_announcing_answer(gateway: Gateway, client: SessionClient) -> list[dict[str, object]]:
    """Add a tool; returns the messages of the first answer with an announcement."""
    gateway.user_tool("fresh0")
    return await announcing_answer(client)


async def announcing_answer(client: SessionClient) -> list[dict[str, object]]:
    """Call until an answer comes with an announcement; returns its messages."""
    async with asyncio.timeout(within(10)):
        while not (answer := await client.ask(names.TOOLS_CALL, CALL)).is_stream:
            await asyncio.sleep(0.05)
    return answer.messages


async def test_the_next_answer_announces_a_change_once(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        client = await client_of(gateway, "gemini-cli-mcp-client")
        announced, answer = await first_announcing_answer(gateway, client)
        assert announced["method"] == names.TOOLS_CHANGED
        assert "42" in json.dumps(answer["result"])
        assert not (await client.ask(names.TOOLS_CALL, CALL)).is_stream
        assert "fresh0" in await listed(client)


async def test_a_change_while_the_first_list_is_on_its_way_is_announced(tmp_path: Path) -> None:
    """The server says so after it was asked for the list, and before it answers."""
    async with registered_setup(tmp_path) as setup:
        streams, listening = ListenStreams(setup.upstream), []

        async def change(request: web.Request, received: Received) -> web.StreamResponse:
            listening.append(len(streams.open))
            await streams.say(names.TOOLS_CHANGED)
            return await result({"resultType": "complete", "tools": []})(request, received)

        setup.upstream.answers[names.TOOLS_LIST] = change
        client = SessionClient(setup.http, setup.pure_url)
        me = {"name": "opencode", "version": "1"}
        params = {"protocolVersion": client.revision, "capabilities": {}, "clientInfo": me}
        client.session = (await client.ask(names.INITIALIZE, params)).headers[headers.SESSION]
        await listed(client)
        assert listening == [1]
        announced, _ = await announcing_answer(client)
        assert announced["method"] == names.TOOLS_CHANGED


async def test_an_answer_waits_until_its_client_has_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.endpoints.session_requests.LIST_HOLD_S", 20.0)
    async with running_gateway(tmp_path) as gateway:
        client = await client_of(gateway, "opencode")
        async with asyncio.timeout(20):
            gateway.user_tool("fresh0")
            while True:
                async with client.open(client.body(names.TOOLS_CALL, CALL, 7)) as response:
                    if response.content_type == "application/json":
                        await asyncio.sleep(0.05)
                        continue
                    while names.TOOLS_CHANGED.encode() not in (await next_event(response)).data:
                        pass
                    assert "fresh0" in await listed(client)
                    assert json.loads((await next_event(response)).data)["id"] == 7
                    break


@pytest.mark.parametrize("name", ["gemini-cli-mcp-client", "opencode"])
async def test_the_first_answer_after_an_outage_announces_what_may_have_changed(
    tmp_path: Path, name: str
) -> None:
    """These clients do not open their stream again after some seconds without a manager."""
    async with running_gateway(tmp_path) as gateway:
        client = await client_of(gateway, name)
        port = gateway.manager.port
    async with running_gateway(tmp_path, http_port=port) as gateway:
        gateway.user_tool("meanwhile")
        client.http = gateway.http
        answer = await client.ask(names.TOOLS_CALL, CALL)
        assert [message.get("method") for message in answer.messages] == [names.TOOLS_CHANGED, None]
        assert "meanwhile" in await listed(client)


async def test_a_list_before_the_call_leaves_nothing_to_announce(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        client = await client_of(gateway, "opencode")
        await first_announcing_answer(gateway, client)
        gateway.user_tool("fresher")
        async with asyncio.timeout(20):
            while "fresher" not in await listed(client):
                await asyncio.sleep(0.05)
        answers = [await client.ask(names.TOOLS_CALL, CALL) for _ in range(3)]
        assert sum(answer.is_stream for answer in answers) <= 1, "a late notification at most"


async def test_a_client_that_never_lists_again_gets_its_answers_at_once(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, hears_list_changed="own-agent=never") as gateway:
        deaf = [await client_of(gateway, name) for name in ("codex-mcp-client", "own-agent")]
        hears = await client_of(gateway, "opencode")
        await first_announcing_answer(gateway, hears)
        for client in deaf:
            assert not (await client.ask(names.TOOLS_CALL, CALL)).is_stream


async def test_a_change_slows_down_one_call_only_of_a_client_without_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be said in front of its answers; the later ones come by the short way again."""
    noted: list[Session] = []
    note = Notifier._note_change

    def recording(own: Notifier, session: Session) -> None:
        noted.append(session)
        note(own, session)

    monkeypatch.setattr(Notifier, "_note_change", recording)
    async with running_gateway(tmp_path) as gateway:
        plain, hears = await client_of(gateway, "plain"), await client_of(gateway, "opencode")
        plain.accept = JSON
        await first_announcing_answer(gateway, hears)
        async with asyncio.timeout(20):
            while not (sessions := [one for one in noted if one.client_name == "plain"]):
                await asyncio.sleep(0.01)
        session = sessions[0]
        noted.clear()
        assert not (await plain.ask(names.TOOLS_CALL, CALL)).is_stream
        assert not session.list_due or session in noted, "unless there was another change"
