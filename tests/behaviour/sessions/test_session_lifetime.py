"""What lives as long as a session: its server stream, its pending requests, its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession

from lm_tools_bridge.protocol import headers, jsonrpc, names
from manager.routing.discovery import MANAGER_RESOURCES, MANAGER_TEMPLATES, MANAGER_TOOLS
from support.clients.raw_clients import BOTH, EVENTS, JSON, SessionClient
from support.http.event_stream import priming
from support.processes.managers.manager_in_process import RunningManager, running_manager
from support.processes.timeouts import within
from support.projects.registered_setup import registered_setup
from support.servers.scripted.scripted_workspace_server import COMPLETE, held, never, result

WORK = {"name": "work", "inputSchema": {"type": "object"}}


async def status(http: ClientSession, manager: RunningManager) -> dict[str, Any]:
    async with http.get(manager.base + "/mcp/status") as response:
        shown: dict[str, Any] = await response.json()
    return shown


async def at_end(response: ClientResponse) -> bytes:
    """What is left of a stream, which must end by itself."""
    return await asyncio.wait_for(response.content.read(), 5)


# -- forms of an answer ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "as_stream"),
    [
        (None, False),
        ("*/*", False),
        (JSON, False),
        (BOTH, False),
        ("application/*", False),
        (EVENTS, True),
        (EVENTS.upper(), True),
    ],
)
async def test_the_response_has_a_content_type_that_the_client_accepts(
    manager: RunningManager, http: ClientSession, accept: str | None, as_stream: bool
) -> None:
    """Nobody is refused for what it accepts."""
    client = await SessionClient.connect(http, manager.address, accept=accept)
    answer = await client.ask(names.TOOLS_LIST)
    assert (answer.status, answer.is_stream) == (200, as_stream)
    assert len(answer.messages) == 1
    assert answer.result["tools"]


# -- server stream -------------------------------------------------------------------------------------------


async def test_a_second_server_stream_is_refused(manager: RunningManager, http: ClientSession) -> None:
    """409 for the second; free again when the first is gone; ended by DELETE."""
    client = await SessionClient.connect(http, manager.address)
    async with client.stream() as first:
        assert (first.status, first.content_type) == (200, EVENTS)
        async with client.stream() as second:
            assert second.status == 409
        assert (await status(http, manager))["sessionDetails"][0]["streaming"] is True
    async with asyncio.timeout(5):
        while (await status(http, manager))["sessionDetails"][0]["streaming"]:
            await asyncio.sleep(0.01)
    async with client.stream() as again:
        assert again.status == 200
        async with http.delete(manager.address, headers={headers.SESSION: client.session or ""}) as gone:
            assert gone.status == 200
        assert b"retry" not in (await at_end(again)).partition(b"\n\n")[2], "there is nothing to come back to"


async def test_a_silent_stream_gets_keep_alive_comments(
    manager: RunningManager, http: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that proxies and clients do not take the connection as dead."""
    monkeypatch.setattr("manager.http.open_streams.SILENCE_S", 0.02)
    client = await SessionClient.connect(http, manager.address)
    async with client.stream() as stream:
        await priming(stream)
        line = await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 5)
    assert line.startswith(b":")


NO_STREAM: list[tuple[dict[str, str], int]] = [
    ({}, 405),
    ({headers.VERSION: "2026-07-28"}, 405),
    ({headers.VERSION: "2026-07-28", headers.SESSION: "known"}, 405),
    ({headers.VERSION: "2099-01-01", headers.SESSION: "known"}, 405),
    ({headers.SESSION: "nobody"}, 404),
]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(("sent", "expected"), NO_STREAM)
async def test_get_and_delete_need_a_known_session(
    manager: RunningManager, http: ClientSession, method: str, sent: dict[str, str], expected: int
) -> None:
    """Never a stream and never a deletion for anybody else; at once."""
    client = await SessionClient.connect(http, manager.address)
    if sent.get(headers.SESSION) == "known":
        sent = {**sent, headers.SESSION: client.session or ""}
    if method == "DELETE" and not sent:
        expected = 400
    async with asyncio.timeout(2), http.request(method, manager.address, headers=sent) as response:
        assert response.status == expected
        assert response.content_type == JSON
        assert (response.headers.get("Allow") == "POST") is (expected == 405)
    assert (await client.ask(names.PING)).result == {}


# -- the end -----------------------------------------------------------------------------------------------


async def test_delete_ends_a_session_with_its_calls_and_stream(tmp_path: Path) -> None:
    """The server sees the cancellation, the id is unknown from then on."""
    async with registered_setup(tmp_path) as stage:
        stage.upstream.tools = [WORK]
        stage.upstream.answers["work"] = never
        client, other = await stage.legacy(), await stage.legacy()
        async with client.stream() as stream:
            call = asyncio.create_task(client.call("work"))
            arrived = await stage.upstream.arrival("work")
            identity = {headers.SESSION: client.session or ""}
            async with stage.http.delete(stage.manager.address, headers=identity) as response:
                assert response.status == 200
                assert await response.json() == {"ok": True, "deleted": True, "sessionId": client.session}
            await at_end(stream)
            await asyncio.wait_for(arrived.gone.wait(), within(1))
            await asyncio.wait_for(call, 2)
        for method in ("DELETE", "GET"):
            async with stage.http.request(method, stage.manager.address, headers=identity) as response:
                assert response.status == 404
        assert (await client.ask(names.TOOLS_LIST)).status == 404
        assert (await other.ask(names.PING)).result == {}


@pytest.mark.parametrize(
    ("settings", "ended"),
    [
        ({"session_unused_s": 0.2, "session_idle_s": 60}, {"unused"}),
        ({"session_unused_s": 60, "session_idle_s": 0.2}, {"used"}),
    ],
)
async def test_unused_and_idle_sessions_expire_but_not_with_an_open_stream(
    tmp_path: Path, http: ClientSession, settings: dict[str, Any], ended: set[str]
) -> None:
    """Each by its own setting; an open stream keeps a session alive."""
    async with running_manager(tmp_path, **settings) as manager:
        clients = {
            name: await SessionClient.connect(http, manager.address)
            for name in ("unused", "used", "streaming")
        }
        async with clients["streaming"].stream():
            assert (await clients["used"].ask(names.PING)).status == 200
            await asyncio.sleep(0.4)
            gone = {name for name, one in clients.items() if (await one.ask(names.PING)).status == 404}
    assert gone == ended


async def test_a_session_above_the_limit_is_refused_without_harm(tmp_path: Path, http: ClientSession) -> None:
    """47111 with 503 and `Retry-After`, for initialize and for recovery."""
    async with running_manager(tmp_path, session_limit=2) as manager:
        first, second = [await SessionClient.connect(http, manager.address) for _ in range(2)]
        for client in (first, second):
            assert (await client.ask(names.PING)).status == 200
        late = SessionClient(http, manager.address)
        attempts = [
            await late.ask(names.INITIALIZE, {"protocolVersion": "2025-11-25", "capabilities": {}}),
            await late.handshake("/nowhere"),
        ]
        for answer in attempts:
            assert answer.status == 503
            assert int(answer.headers["Retry-After"]) >= 1
            assert (answer.error["code"], answer.error["data"]["reason"]) == (47111, "too_many_sessions")
            assert headers.SESSION not in answer.headers
        assert (await first.ask(names.PING)).status == 200
        async with http.delete(manager.address, headers={headers.SESSION: second.session or ""}) as response:
            assert response.status == 200
        assert (await SessionClient.connect(http, manager.address)).session


# -- ids in flight -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["same", '"same"', 7, 7.0])
async def test_a_pending_id_cannot_be_reused(tmp_path: Path, again: object) -> None:
    """Refused at once, the first is unharmed, and its id is free afterwards."""
    identity = 7 if isinstance(again, int | float) else "same"
    async with registered_setup(tmp_path) as stage:
        gate = asyncio.Event()
        stage.upstream.tools = [WORK]
        stage.upstream.answers["work"] = held(gate, result(COMPLETE))
        client, other = await stage.legacy(), await stage.legacy()
        first = asyncio.create_task(client.call("work", identity=identity))
        await stage.upstream.arrival("work")
        spelt = '"s\\u0061me"' if again == '"same"' else '"same"' if again == "same" else repr(again)
        body = f'{{"jsonrpc":"2.0","id":{spelt},"method":"ping"}}'.encode()
        second = await asyncio.wait_for(client.post(body), 2)
        assert (second.status, second.error["code"]) == (400, -32600)
        assert (await other.post(body)).status == (400 if again == 7.0 and isinstance(again, float) else 200)
        gate.set()
        assert (await first).result["content"] == COMPLETE["content"]
        assert (await client.ask(names.PING, identity=identity)).result == {}


# -- without a workspace -----------------------------------------------------------------------------------


async def test_what_an_unbound_session_can_request(manager: RunningManager, http: ClientSession) -> None:
    """The manager's own constant answers, else 47100."""
    client = await SessionClient.connect(http, manager.address)
    before = SessionClient(http, manager.address)
    opened = await before.ask(names.INITIALIZE, {"protocolVersion": "2025-11-25", "capabilities": {}})
    before.session = opened.headers[headers.SESSION]  # `initialized` was never sent
    assert (await before.ask(names.PING)).result == {}
    expected: dict[str, dict[str, Any]] = {
        names.PING: {},
        names.SET_LEVEL: {},
        names.TOOLS_LIST: {"tools": list(MANAGER_TOOLS)},
        names.RESOURCES_LIST: {"resources": list(MANAGER_RESOURCES)},
        names.TEMPLATES_LIST: {"resourceTemplates": list(MANAGER_TEMPLATES)},
        names.PROMPTS_LIST: {"prompts": []},
    }
    for method, value in expected.items():
        answer = await client.ask(method, {"level": "info"} if method == names.SET_LEVEL else None)
        assert answer.result == value, method
        if method not in (names.PING, names.SET_LEVEL):
            assert answer.headers[headers.WORKSPACE_SOURCE] == "none"
        assert headers.WORKSPACE_ID not in answer.headers
    refused = await client.ask("roots/list")
    assert (refused.status, refused.error["code"]) == (200, jsonrpc.METHOD_NOT_FOUND)
    unanswerable: list[tuple[str, dict[str, Any]]] = [
        (names.RESOURCES_READ, {"uri": names.URI_NAMES}),
        (names.PROMPTS_GET, {"name": "x"}),
        (names.COMPLETE, {"ref": {}}),
        ("nobody/knows", {}),
    ]
    for method, params in unanswerable:
        error = (await client.ask(method, params)).error
        assert (error["code"], error["data"]["reason"]) == (47100, "workspace_not_set"), method
    assert (await client.call("lm_findFiles", {"query": "x"})).refusal["code"] == 47100
