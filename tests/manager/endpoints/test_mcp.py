"""The MCP routes: unusual queries, and what a stopping manager waits for and refuses."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import cast

import pytest
from aiohttp import ClientPayloadError, ClientSession, TCPConnector

from lm_tools_bridge.protocol import names
from manager.answers.exchange import Unlocated
from manager.endpoints import session_requests
from manager.endpoints.mcp import McpRoutes
from manager.http.request import HttpRequest
from support.clients.raw_clients import JSON, SessionClient
from support.http.served_connection import served_by
from support.processes.managers.manager_in_process import RunningManager
from support.projects.registered_setup import raw_http, registered_setup
from support.servers.scripted.scripted_workspace_server import held, result


async def test_a_query_that_is_not_utf_8_is_accepted(manager: RunningManager) -> None:
    async with raw_http() as http:
        client = await SessionClient.connect(http, manager.address)
        answer = await client.ask(names.TOOLS_LIST, url=f"{manager.address}?tool_mode=%ff")
        assert answer.status == 200


async def test_a_stop_waits_for_calls_of_disconnected_session_clients(tmp_path: Path) -> None:
    """The call continues, so it is in flight."""
    async with registered_setup(tmp_path) as setup:
        gate = asyncio.Event()
        setup.upstream.answers["slow"] = held(gate, result({"content": []}))
        leaving = asyncio.create_task((await setup.legacy()).call("slow"))
        received = await setup.upstream.arrival("slow")
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        await asyncio.sleep(0.05)  # the manager has seen the client leave
        setup.manager.daemon.ask_to_stop("test")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(received.gone.wait(), 0.3)
        gate.set()


async def test_no_stream_is_opened_for_a_session_that_has_just_ended(
    manager: RunningManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends while the workspace is looked up; nothing would end the stream."""
    async with raw_http() as http:
        client = await SessionClient.connect(http, manager.address)

        async def while_it_ends(workspaces: object, claims: object) -> Unlocated:
            async with http.delete(client.url, headers=client.header(b"")) as ended:
                assert ended.status == 200
            return Unlocated()

        monkeypatch.setattr(session_requests, "look_up_workspace", while_it_ends)
        async with client.stream() as response:
            assert response.status == 404


async def test_no_stream_is_opened_while_the_manager_stops(tmp_path: Path) -> None:
    """It would delay the stop."""
    async with registered_setup(tmp_path) as setup, ClientSession(connector=TCPConnector(limit=2)) as http:
        gate = asyncio.Event()
        setup.upstream.answers["slow"] = held(gate, result({"content": []}))
        client = await SessionClient.connect(http, setup.manager.address)
        assert (await client.handshake(setup.upstream.root)).payload["ok"] is True
        call = asyncio.create_task(client.call("slow"))
        await setup.upstream.arrival("slow")
        assert (await client.ask(names.PING)).status == 200  # the second connection is open now
        setup.manager.daemon.ask_to_stop("test")
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            while (answer := await client.ask(names.PING)).status != 503:
                await asyncio.sleep(0.01)
        assert answer.error["data"]["retryAfterMs"] == 1000
        async with client.stream() as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
        gate.set()
        assert (await call).status == 200


async def test_a_response_that_breaks_off_after_its_head_closes_the_connection() -> None:
    """The client would wait for the rest."""

    async def broken(http_request: HttpRequest) -> None:
        http_request.start(200, {}, JSON, 10)
        McpRoutes.failed(cast("McpRoutes", None), http_request, ConnectionResetError())

    async with served_by(broken) as url, ClientSession() as http, asyncio.timeout(5):
        with pytest.raises(ClientPayloadError):
            async with http.post(url, json={}) as response:
                await response.read()
