"""Tests a manager's stop during an input request: the call is lost, the session goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientResponse, ClientSession

from lm_tools_bridge.protocol import names, sse
from support.clients.askable_client import AskableClient
from support.processes.managers.manager_home import ManagerHome
from support.processes.managers.manager_in_process import make_project
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Answerer,
    ScriptedWorkspaceServer,
    result,
)

ASKING = {
    "resultType": "input_required",
    "inputRequests": {"a": {"method": names.ELICIT, "params": {"message": "?"}}},
    "requestState": "s",
}


def call_ask(client: AskableClient, identity: str) -> Any:
    """Open the response to a call of the tool that requests input."""
    return client.open(client.body(names.TOOLS_CALL, {"name": "ask", "arguments": {}}, identity))


async def accept(client: AskableClient, request: Mapping[str, Any]) -> None:
    """Accept an input request, whether or not the manager still waits for the answer."""
    message = {"jsonrpc": "2.0", "id": request["id"], "result": {"action": "accept"}}
    assert (await client.post(json.dumps(message).encode())).status == 202


def asks_until_answered() -> Answerer:
    async def answer(request: Any, received: Any) -> Any:
        done = "inputResponses" in received.params
        return await result(COMPLETE if done else ASKING)(request, received)

    return answer


async def next_message(response: ClientResponse) -> dict[str, Any]:
    while True:
        for one in sse.Decoder().feed(await response.content.readuntil(b"\n\n")):
            if one.data:
                return dict(json.loads(one.data))


async def after_list_changes(response: ClientResponse) -> dict[str, Any]:
    """The next message besides what a restored session is told first: its lists may have changed."""
    while (message := await next_message(response)).get("method") in names.LISTS_CHANGED:
        pass
    return message


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_late_answer_is_dropped_and_the_call_can_be_repeated(
    home: ManagerHome, http: ClientSession, tmp_path: Path, end: signal.Signals
) -> None:
    """A manager that is stopped ends the call at once; it does not wait for the user."""
    manager = await home.start(drain_s=60)
    external = ScriptedWorkspaceServer(make_project(tmp_path / "external"), home.paths.control_socket)
    external.answers["ask"] = asks_until_answered()
    async with asyncio.timeout(60), external.serving():
        client = await AskableClient.connect(http, manager.address)
        await client.handshake(external.root)
        async with call_ask(client, "one") as response:
            question = await next_message(response)
            manager.send(end)
            await manager.ended()
            if end is signal.SIGTERM:
                assert (await next_message(response))["method"] == names.CANCELLED
                refused = (await next_message(response))["result"]["structuredContent"]["error"]
                assert refused["reason"] == "question_unanswered"
            with contextlib.suppress(ClientError):
                assert await response.read() == b""

        await home.start(http_port=manager.port)
        await external.register()
        await accept(client, question)
        async with call_ask(client, "two") as response:
            again = await after_list_changes(response)
            assert again["id"] != question["id"]
            await accept(client, question)
            await accept(client, again)
            message = await after_list_changes(response)
    assert (message["id"], message["result"]["content"]) == ("two", COMPLETE["content"])
    assert len(external.called("ask")) == 3
