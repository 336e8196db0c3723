"""`server/discover` never fails and waits only briefly; `subscriptions/listen` starts and ends in order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol import skills_extension as skills
from manager.answers import catalog
from support.clients.raw_clients import EVENTS, Answer, SessionClient, StatelessClient
from support.clients.stateless_requests import REVISION, events
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.processes.timeouts import within
from support.projects.gateway import eventually
from support.projects.registered_setup import registered_setup
from support.servers.scripted.scripted_workspace_server import event, stream

pytestmark = pytest.mark.processes

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
KINDS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


# -- discover ----------------------------------------------------------------------------------------------


def urls_without_workspace(manager: RunningManager, project: Path) -> dict[str, str]:
    """Every kind of request that names no workspace."""
    return {
        "fixed": manager.address,
        "fixed with slash": manager.address + "/",
        "query of a missing folder": f"{manager.address}?cwd={project}/missing",
        "placeholder": manager.address + "?cwd=${PWD}",
    }


async def status(http: ClientSession, manager: RunningManager) -> dict[str, Any]:
    async with http.get(manager.base + "/mcp/status") as response:
        shown: dict[str, Any] = await response.json()
    return shown


async def test_discover_without_a_workspace_starts_nothing(
    manager: RunningManager, http: ClientSession, tmp_path: Path
) -> None:
    """The same response for every request without a workspace, at once."""
    project = make_project(tmp_path / "proj")
    results = []
    for name, url in urls_without_workspace(manager, project).items():
        started = time.monotonic()
        answer = await StatelessClient(http, url).ask(names.DISCOVER)
        assert time.monotonic() - started < within(1), name
        assert answer.status == 200, name
        assert headers.SESSION not in answer.headers
        validate_server_result(names.DISCOVER, REVISION, answer.result)
        results.append(answer.result)
    assert all(one == results[0] for one in results)
    assert results[0]["supportedVersions"] == [REVISION]
    assert (results[0]["ttlMs"], results[0]["cacheScope"]) == (0, "private")
    assert names.HANDSHAKE in results[0]["instructions"]
    assert (await status(http, manager))["instances"] == 0


async def test_a_workspaces_url_gives_the_workspace_servers_result(
    manager: RunningManager, http: ClientSession, tmp_path: Path
) -> None:
    """The server is started for it; both `initialize` and `server/discover` get its result."""
    project = make_project(tmp_path / "proj")
    query = f"{manager.address}?cwd={project}"

    async def when_started() -> Answer | None:
        answer = await StatelessClient(http, query).ask(names.DISCOVER)
        return None if "starting" in answer.result["instructions"] else answer

    by_query = await eventually(when_started)  # until then the instructions change under the reader
    path = f"{manager.base}/w/{by_query.headers[headers.WORKSPACE_ID]}/mcp"
    by_path = await StatelessClient(http, path).ask(names.DISCOVER)
    by_header = StatelessClient(http, manager.address)
    by_header.extra = {headers.WORKSPACE_CWD: str(project)}
    assert by_query.result == by_path.result == (await by_header.ask(names.DISCOVER)).result
    validate_server_result(names.DISCOVER, REVISION, by_query.result)
    opened = (await SessionClient(http, query).ask(names.INITIALIZE, INITIALIZE)).result
    assert opened["serverInfo"] == by_query.result["_meta"][names.META_SERVER]
    assert opened["serverInfo"]["name"] == names.WORKSPACE_SERVER
    assert opened["instructions"] == by_query.result["instructions"]
    assert names.HANDSHAKE not in opened["instructions"]
    extensions = {skills.EXTENSION: skills.CAPABILITY}
    own: dict[str, Any] = {"experimental": {names.CODEX_SANDBOX: {}}, "extensions": extensions}
    assert opened["capabilities"] == {**by_query.result["capabilities"], **own}
    assert opened["protocolVersion"] == INITIALIZE["protocolVersion"]


async def test_discover_waits_only_briefly_for_a_hung_server(
    manager: RunningManager, http: ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a 5xx; the manager then gives its own result."""
    monkeypatch.setattr(catalog, "WAIT_S", 0.2)
    project = make_project(tmp_path / "proj")
    client = await SessionClient.connect(http, manager.address)
    await client.handshake(project)
    (detail,) = (await status(http, manager))["instanceDetails"]
    os.kill(detail["pid"], signal.SIGSTOP)
    try:
        url = f"{manager.address}?cwd={project}"
        answer = await StatelessClient(http, url).ask(names.DISCOVER)
        opened = await SessionClient(http, url).ask(names.INITIALIZE, INITIALIZE)
    finally:
        os.kill(detail["pid"], signal.SIGCONT)
    assert (answer.status, opened.status) == (200, 200)
    assert answer.headers[headers.WORKSPACE_ID] == detail["workspace"]
    assert names.HANDSHAKE in answer.result["instructions"]
    assert opened.result["serverInfo"]["name"] == "lm-tools-bridge-manager"


async def test_an_unknown_workspace_in_the_path_is_refused(
    manager: RunningManager, http: ClientSession
) -> None:
    """404 with 47101, for any method, with the request's id."""
    url = f"{manager.base}/w/nobody-12345678/mcp"
    for method in (names.DISCOVER, names.TOOLS_LIST, names.LISTEN):
        answer = await StatelessClient(http, url).ask(method)
        assert (answer.status, answer.error["code"]) == (404, 47101)
        assert answer.error["data"]["reason"] == "workspace_not_matched"
    legacy = await SessionClient(http, url).ask(names.INITIALIZE)
    assert (legacy.status, legacy.error["code"]) == (404, 47101)


# -- listen ------------------------------------------------------------------------------------------------


def listening(client: StatelessClient, wanted: object, identity: object) -> Any:
    """An open listen request."""
    return client.open(client.body(names.LISTEN, {"notifications": wanted}, identity))


@pytest.mark.parametrize("identity", ["l-1", 7])
@pytest.mark.parametrize("endpoint", ["fixed", "query"])
async def test_a_listen_stream_is_acknowledged_first_and_closed_at_shutdown(
    tmp_path: Path, http: ClientSession, endpoint: str, identity: str | int
) -> None:
    """The id in every message keeps its type; the stop does not wait for listeners."""
    project = make_project(tmp_path / "proj")
    async with running_manager(tmp_path / "manager", drain_s=20) as manager:
        url = manager.address if endpoint == "fixed" else f"{manager.address}?cwd={project}"
        client = StatelessClient(http, url)
        async with listening(client, KINDS, identity) as response:
            assert (response.status, response.content_type) == (200, EVENTS)
            assert response.headers["X-Accel-Buffering"] == "no"
            (acknowledged,) = await events(response, 1)
            started = time.monotonic()
            manager.daemon.ask_to_stop("the test says so")
            rest = await asyncio.wait_for(response.content.read(), 5)
    assert time.monotonic() - started < 8
    assert acknowledged["method"] == names.ACKNOWLEDGED
    assert "id" not in acknowledged
    assert acknowledged["params"]["_meta"] == {names.META_SUBSCRIPTION: identity}
    assert acknowledged["params"]["notifications"] == KINDS
    frames = [one for one in rest.split(b"\n\n") if b"data:" in one]
    last = json.loads(frames[-1].partition(b"data:")[2])
    assert len(frames) == 1
    assert last["id"] == identity
    assert last["result"]["resultType"] == "complete"
    assert last["result"]["_meta"][names.META_SUBSCRIPTION] == identity


@pytest.mark.parametrize(
    ("wanted", "honoured"),
    [
        ({}, {}),
        ({"toolsListChanged": True}, {"toolsListChanged": True}),
        ({"toolsListChanged": False, "promptsListChanged": True}, {"promptsListChanged": True}),
        ({"toolsListChanged": "yes", "nobodyKnows": True}, {}),
    ],
)
async def test_only_requested_notifications_are_acknowledged(
    manager: RunningManager, http: ClientSession, wanted: dict[str, object], honoured: dict[str, bool]
) -> None:
    """At `/mcp`, where lists never change."""
    async with listening(StatelessClient(http, manager.address), wanted, 1) as response:
        (acknowledged,) = await events(response, 1)
    assert acknowledged["params"]["notifications"] == honoured


async def test_a_workspaces_listen_stream_is_forwarded_until_the_client_leaves(tmp_path: Path) -> None:
    """Event by event; the client's end is seen by the server within a second."""
    later = asyncio.Event()
    first = {"jsonrpc": "2.0", "method": names.ACKNOWLEDGED, "params": {"_meta": {"k": 1}, "x": [None]}}
    second = {"jsonrpc": "2.0", "method": names.TOOLS_CHANGED, "params": {"_meta": {"k": 2}}}
    async with registered_setup(tmp_path) as stage:
        never = asyncio.Event()
        stage.upstream.answers[names.LISTEN] = stream(event(first), later, event(second), never)
        async with listening(stage.modern(), KINDS, "l") as response:
            assert await events(response, 1) == [first]
            later.set()
            assert await events(response, 1) == [second]
            assert response.headers[headers.WORKSPACE_SOURCE] == "query"
            (received,) = [one for one in stage.upstream.received if one.message["method"] == names.LISTEN]
        await asyncio.wait_for(received.gone.wait(), within(1))
        assert received.header(headers.METHOD) == names.LISTEN
