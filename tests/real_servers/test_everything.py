"""The server that shows everything the protocol has, over stdio and over streamable HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Client
from support.processes.timeouts import within
from support.projects.gateway import Project, eventually
from support.servers.mcp_sources.real_servers import (
    Entry,
    Installed,
    asked_directly,
    gathered,
    outcome,
    same_definitions,
    same_outcome,
    source_of,
)
from workspace_server.processes.environment import NETWORK, PASSED_ON

pytestmark = pytest.mark.asyncio(loop_scope="module")
EACH_WAY = pytest.mark.parametrize("way", ["stdio", "http"])
EACH_ERA = pytest.mark.parametrize("era", ["legacy", "modern"])
DATA = "data:text/plain;base64," + base64.b64encode(b"something to compress " * 40).decode()
CALLS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("echo", {"message": '\n\t\u2028"}\\☕😀'}, {"text"}),
    ("get-sum", {"a": 0.1, "b": 12345678901234567890}, {"text"}),
    ("get-tiny-image", {}, {"text", "image"}),
    ("get-structured-content", {"location": "Chicago"}, {"text"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}, {"text", "image"}),
    ("get-annotated-message", {"messageType": "debug"}, {"text"}),
    ("get-resource-links", {"count": 4}, {"text", "resource_link"}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 3}, {"text", "resource"}),
    ("gzip-file-as-resource", {"name": "x.gz", "data": DATA, "outputType": "resource"}, {"resource"}),
    ("gzip-file-as-resource", {"name": "y.gz", "data": DATA}, {"resource_link"}),
    ("get-roots-list", {}, {"text"}),
    ("trigger-long-running-operation", {"duration": 0.1, "steps": 2}, {"text"}),
    ("simulate-research-query", {"topic": "needs a task"}, {"text"}),
]
"""Tool, arguments, and the kinds of content in its result."""
LONG = "trigger-long-running-operation"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def entries(servers: Installed) -> AsyncIterator[dict[str, Entry]]:
    with servers.everything_over_http() as http:
        yield {"stdio": servers.node("everything"), "http": http}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(
    entries: dict[str, Entry], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Project]:
    async with gathered(tmp_path_factory.mktemp("everything"), **entries) as made:
        yield made


async def client_of(project: Project, era: str) -> Client:
    return project.modern if era == "modern" else await project.legacy()


@EACH_WAY
@EACH_ERA
async def test_definitions_and_results_are_those_of_the_server(
    project: Project, entries: dict[str, Entry], way: str, era: str
) -> None:
    """Every kind of content, structured content, annotations, roots, errors."""
    client = await client_of(project, era)
    async with asked_directly(entries[way], project.root) as there:
        offered = await same_definitions(client, there, way)
        assert {tool for tool, _, _ in CALLS} <= set(offered)
        results = [
            (await same_outcome(client, there, f"{way}__{tool}", arguments), kinds)
            for tool, arguments, kinds in CALLS
        ]
    for result, kinds in results:
        assert {block["type"] for block in result["content"]} == kinds
    assert results[3][0]["structuredContent"]["temperature"]
    assert results[4][0]["content"][0]["annotations"] == {"priority": 1, "audience": ["user", "assistant"]}
    assert project.root.as_uri() in results[10][0]["content"][0]["text"]
    assert results[12][0]["isError"] is True


@EACH_WAY
@EACH_ERA
async def test_progress_comes_under_the_callers_token(project: Project, way: str, era: str) -> None:
    client = await client_of(project, era)
    answer = await client.call(
        f"{way}__{LONG}", {"duration": 0.3, "steps": 3}, meta={"progressToken": "mine"}
    )
    heard = [one["params"] for one in answer.messages if one.get("method") == names.PROGRESS]
    assert [(one["progressToken"], one["progress"], one["total"]) for one in heard] == [
        ("mine", step, 3) for step in (1, 2, 3)
    ]
    assert "Steps: 3" in answer.result["content"][0]["text"]


@EACH_WAY
async def test_an_abandoned_call_ends(project: Project, way: str) -> None:
    """The server goes on all the same and tells of progress that nobody wants; nothing comes of it."""
    identity = f"{'stdio' if way == 'stdio' else 'remote'}:{way}"
    client = project.modern
    call = asyncio.create_task(
        client.call(f"{way}__{LONG}", {"duration": 20, "steps": 200}, meta={"progressToken": 1})
    )

    async def in_flight() -> int:
        return int((await source_of(project, identity))["inFlight"])

    await eventually(in_flight)
    call.cancel()

    async def idle() -> bool:
        return await in_flight() == 0

    async with asyncio.timeout(within(1)):
        await eventually(idle)
    assert (await outcome(client, f"{way}__echo", {"message": "on"}))["content"][0]["text"] == "Echo: on"


@EACH_WAY
async def test_status_says_what_the_server_said_of_itself(
    project: Project, entries: dict[str, Entry], way: str
) -> None:
    """It asks for the roots by itself, and writes that to its log."""

    async def said() -> bool:
        return any("1 root(s)" in line for line in (await source_of(project, identity))["said"])

    identity = f"{'stdio' if way == 'stdio' else 'remote'}:{way}"
    await eventually(said)
    status = await source_of(project, identity)
    assert (status["state"], status["era"], status["protocolVersion"]) == ("ready", "legacy", "2025-11-25")
    assert status["serverInfo"]["name"] == "mcp-servers/everything"
    async with asked_directly(entries[way], project.root) as there:
        offered = await there.definitions()
    assert (status["tools"], status["junk"], status["error"]) == (len(offered), 0, None)
    if way == "stdio":
        assert status["stderr"] == ["Starting default (STDIO) server..."]


async def test_it_sees_no_more_of_the_environment_than_it_should(project: Project) -> None:
    text = (await outcome(project.modern, "stdio__get-env", {}))["content"][0]["text"]
    environ = json.loads(text)
    assert {name for name in environ if not name.startswith("LC_")} <= {
        *PASSED_ON,
        *NETWORK,
        "LMTB_WORKSPACE",
        names.CHILD_VARIABLE,
    }
    assert environ["LMTB_WORKSPACE"] == str(project.root)


async def test_many_calls_at_once_get_each_their_own(project: Project) -> None:
    client = project.modern
    pairs = [(way, f"{way} {number}") for number in range(40) for way in ("stdio", "http")]
    results = await asyncio.gather(
        *(outcome(client, f"{way}__echo", {"message": message}) for way, message in pairs)
    )
    assert [one["content"][0]["text"] for one in results] == [f"Echo: {message}" for _, message in pairs]
