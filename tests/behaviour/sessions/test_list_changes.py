"""Session clients are notified on their server stream when their workspace's lists change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest
from aiohttp import ClientResponse
from structlog.testing import capture_logs

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import SessionClient
from support.http.event_stream import is_silent, next_message
from support.processes.timeouts import within
from support.projects.gateway import Gateway, listed, running_gateway

pytestmark = pytest.mark.processes


async def hears_of_tools(stream: ClientResponse) -> None:
    """Wait until the stream says that the tools changed."""
    heard: set[str] = set()
    async with asyncio.timeout(within(2.5)):
        while names.TOOLS_CHANGED not in heard:
            heard.add((await next_message(stream))["method"])


@pytest.mark.always
@pytest.mark.parametrize("way", ["handshake", "workspace endpoint"])
async def test_a_session_is_notified_of_a_new_tool_within_two_seconds(tmp_path: Path, way: str) -> None:
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj")
        if way == "handshake":
            client = await project.legacy()
        else:
            client = await SessionClient.connect(gateway.http, project.url)
        await listed(client)
        async with client.stream() as stream:
            gateway.user_tool("heard")
            await hears_of_tools(stream)
        assert "heard" in await listed(client)


async def test_only_sessions_of_the_workspace_are_notified(tmp_path: Path) -> None:
    """Whoever is somewhere else is left alone."""
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("here")
        here, there = await project.legacy(), await gateway.project("there").legacy()
        for client in (here, there):
            await listed(client)
        async with here.stream() as near, there.stream() as far:
            project.tool("only_here")
            await project.trust()
            await hears_of_tools(near)
            assert await is_silent(far, 0.5)


async def test_a_session_is_notified_when_another_server_takes_over(tmp_path: Path) -> None:
    """Nobody knows what was missed meanwhile."""
    async with running_gateway(tmp_path) as gateway:
        client = await gateway.project("proj").legacy()
        await listed(client)
        async with client.stream() as stream:
            await asyncio.sleep(1)  # the manager has begun to listen by then
            os.kill(await server_pid(gateway), signal.SIGKILL)
            await hears_of_tools(stream)


@pytest.mark.parametrize("era", ["stateless", "session"])
async def test_a_server_that_dies_while_a_client_listens_is_no_failed_call(tmp_path: Path, era: str) -> None:
    """The exit is logged once; nothing was called, so no error is counted."""
    with capture_logs() as log:
        await kill_while_listening(tmp_path, era)
    events = [line["event"] for line in log]
    assert "tools.call" not in events
    assert events.count("workspace.exited") == 1


async def kill_while_listening(folder: Path, era: str) -> None:
    """Kill the server of an open stream, and compare the errors that are counted then."""
    async with running_gateway(folder) as gateway:
        project = gateway.project("proj")
        client = project.modern if era == "stateless" else await project.legacy()
        await listed(client)
        async with contextlib.AsyncExitStack() as opened:
            if isinstance(client, SessionClient):
                stream = await opened.enter_async_context(client.stream())
                await asyncio.sleep(1)  # the manager has begun to listen by then
            else:
                wanted = {"notifications": {"toolsListChanged": True}}
                stream = await opened.enter_async_context(client.open(client.body(names.LISTEN, wanted, 1)))
                await next_message(stream)
            os.kill(await server_pid(gateway), signal.SIGKILL)
            if isinstance(client, SessionClient):
                await hears_of_tools(stream)
            else:
                assert "error" in await next_message(stream)
                await listed(client)  # the server runs again
        async with gateway.http.get(gateway.manager.base + "/mcp/status") as response:
            shown = await response.json()
    assert [one["errors"] for one in shown["instanceDetails"]] == [0]


async def server_pid(gateway: Gateway) -> int:
    async with gateway.http.get(gateway.manager.base + "/mcp/status") as response:
        (instance,) = (await response.json())["instanceDetails"]
    return int(instance["pid"])
