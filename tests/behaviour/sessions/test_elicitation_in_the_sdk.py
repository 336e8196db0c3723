"""Real servers of both protocol generations ask for input through the whole chain; the client is the official SDK.

The expected outcome is that of the same client connected directly. `test_input_requests.py` tests the manager's
part alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import mcp
import mcp_types
import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from support.clients.askable_client import AskableClient
from support.projects.gateway import Project, eventually, running_gateway
from support.servers.sdk_servers.third_party import stdio_command

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

SOURCES = {"old": "--legacy", "new": "--modern"}
TOOLS = ["elicit", "sample", "roots"]
EVERY_SOURCE = pytest.mark.parametrize("source", sorted(SOURCES))
ROOT = mcp_types.Root(uri="file:///of/the/client", name="mine")


class Person:
    """The user's answer to each kind of input request; an `ErrorData` is sent as an error."""

    def __init__(self, **answers: Any) -> None:
        given = {"elicit": mcp_types.ElicitResult(action="accept", content={"name": "Ada"})}
        self.answers = (
            given | {"sample": _sampled("a poem"), "roots": mcp_types.ListRootsResult(roots=[ROOT])} | answers
        )
        self.asked: list[Any] = []
        self.logged: list[Any] = []

    async def elicit(self, context: Any, params: Any) -> Any:
        self.asked.append(params)
        return self.answers["elicit"]

    async def sample(self, context: Any, params: Any) -> Any:
        self.asked.append(params)
        return self.answers["sample"]

    async def roots(self, context: Any) -> Any:
        return self.answers["roots"]

    async def log(self, params: Any) -> None:
        self.logged.append(params.data)


def _sampled(text: str) -> mcp_types.CreateMessageResult:
    content = mcp_types.TextContent(type="text", text=text)
    return mcp_types.CreateMessageResult(role="assistant", content=content, model="m")


@contextlib.asynccontextmanager
async def client_of(server: Any, person: Person, mode: str = "legacy") -> AsyncIterator[mcp.Client]:
    async with mcp.Client(
        server,
        mode=mode,
        read_timeout_seconds=20,
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        list_roots_callback=person.roots,
        logging_callback=person.log,
    ) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Project]:
    """A project with the same third-party server twice, once of each protocol generation."""
    async with running_gateway(tmp_path_factory.mktemp("asking")) as gateway:
        project = gateway.project("strange")
        entries: dict[str, Any] = {}
        for name, era in SOURCES.items():
            command, *arguments = stdio_command(era)
            entries[name] = {"command": command, "args": arguments}
        project.servers(**entries)
        await project.trust()
        await project.until_listed(*(f"{name}__elicit" for name in SOURCES), seconds=20)
        yield project


def shown(answer: Any) -> dict[str, Any]:
    """A result, or the error in its place, as it can be compared."""
    dumped: dict[str, Any] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in dumped.items() if key not in ("resultType", "_meta")}


async def outcome(client: mcp.Client, tool: str) -> Mapping[str, Any]:
    try:
        return shown(await client.call_tool(tool, {}))
    except mcp.MCPError as error:
        return {"code": error.error.code, "message": error.error.message}


@EVERY_SOURCE
@pytest.mark.parametrize("tool", TOOLS)
async def test_an_input_request_reaches_the_user_and_the_answer_the_server(
    project: Project, source: str, tool: str
) -> None:
    person = Person()
    async with client_of(project.pinned_url, person) as client:
        result = await outcome(client, f"{source}__{tool}")
    told = dict(result["structuredContent"])
    state = told.pop("state", None)
    assert state == (f"state of {tool}" if source == "new" else None), "a server's own state comes back to it"
    assert told == shown(person.answers[tool])
    assert [one.message for one in person.asked if tool == "elicit"] == ["Your name?"][: tool == "elicit"]


async def test_a_refusal_by_the_user_has_the_same_outcome_as_directly(project: Project) -> None:
    """The client answers with an error: a server with sessions receives it and decides the call's result."""
    refusal = mcp_types.ErrorData(code=-1, message="User rejected it")
    refusing = Person(**dict.fromkeys(TOOLS, refusal))
    command, *arguments = stdio_command("--legacy")
    server = mcp.StdioServerParameters(command=command, args=arguments)
    async with client_of(server, refusing) as client:
        directly = {tool: await outcome(client, tool) for tool in TOOLS}
    assert "User rejected it" in json.dumps(directly["elicit"])
    async with client_of(project.pinned_url, refusing) as client:
        assert {tool: await outcome(client, f"old__{tool}") for tool in TOOLS} == directly
        refused = await outcome(client, "new__sample")
    assert refused["structuredContent"]["error"]["reason"] == "question_unanswered"


async def test_progress_and_log_messages_arrive_during_the_call(project: Project) -> None:
    person = Person()
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with client_of(project.pinned_url, person) as client:
        await client.call_tool("old__progress", {}, progress_callback=progressed)
    assert steps == [1.0, 2.0, 3.0]
    assert person.logged == [{"step": 1}, {"step": 2}, {"step": 3}]


async def test_a_call_cancelled_during_its_input_request_ends_at_its_server(
    project: Project,
) -> None:
    """The call has no connection that could be closed at that time."""
    client = await AskableClient.connect(project.gateway.http, project.url)
    body = client.body(names.TOOLS_CALL, {"name": "old__elicit", "arguments": {}}, "c")
    async with asyncio.timeout(10), client.open(body) as response:
        while b"elicitation/create" not in await response.content.readline():
            pass
        await client.notify(names.CANCELLED, {"requestId": "c"})
        rest = await response.read()
    assert b"notifications/cancelled" in rest
    assert b'"result"' not in rest

    async def is_cancelled() -> bool:
        counts = (await client.call("old__ledger")).payload
        return counts["cancelled"].get("elicit") == 1

    await eventually(is_cancelled)
