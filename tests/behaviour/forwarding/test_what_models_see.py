"""Models that see only one part of a result get all of it, whichever part a server put it into."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from protocol import names
from support.clients.raw_clients import Client, StatelessClient
from support.projects.gateway import Project, running_gateway
from support.servers.mcp_sources.stdio_servers import program

pytestmark = pytest.mark.processes

SERVER = """
def call(m): answer(m["id"], m["params"]["arguments"])
serve(call)
"""
FOUND = {"files": 3}
WORDS = {"type": "text", "text": "Three files, one of them empty."}


class NamedStateless(StatelessClient):
    """A stateless client that says who it is."""

    name = ""

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        me = {names.META_CLIENT: {"name": self.name, "version": "1"}}
        return await super().call(name, arguments, meta=me, **options)


@pytest.fixture
async def project(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Project]:
    async with running_gateway(tmp_path, **getattr(request, "param", {})) as gateway:
        project = gateway.project("proj")
        command, *arguments = program(SERVER)
        project.servers(theirs={"command": command, "args": arguments})
        await project.trust()
        await project.until_listed("theirs__echo")
        yield project


async def client_of(project: Project, name: str, era: str) -> Client:
    if era == "session":
        return await project.session_of(name)
    client = NamedStateless(project.gateway.http, project.url)
    client.name = name
    return client


async def result_of(client: Client, tool: str = "theirs__echo", **result: Any) -> dict[str, Any]:
    """What the client gets of a server's result; the same the second and third time, by the route cache."""
    answers = [(await client.call(tool, result)).result for _ in range(3)]
    for answer in answers:
        answer.pop("resultType", None)
        answer.pop("_meta", None)
        assert answer == answers[0]
    return answers[0]


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_a_result_without_text_has_text_for_a_client_that_shows_only_text(
    project: Project, era: str
) -> None:
    client = await client_of(project, "gemini-cli-mcp-client", era)
    result = await result_of(client, content=[], structuredContent=FOUND)
    assert result == {"content": [{"type": "text", "text": json.dumps(FOUND)}], "structuredContent": FOUND}


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_text_reaches_a_client_that_shows_structured_content_instead(
    project: Project, era: str
) -> None:
    client = await client_of(project, "claude-code", era)
    result = await result_of(client, content=[WORDS], structuredContent=FOUND)
    assert result == {"content": [WORDS, {"type": "text", "text": json.dumps(FOUND)}]}


async def test_results_that_are_complete_stay_as_they_are(project: Project) -> None:
    gemini, claude = [
        await client_of(project, name, "session") for name in ("gemini-cli-mcp-client", "claude-code")
    ]
    both = {"content": [WORDS], "structuredContent": FOUND}
    assert await result_of(gemini, **both) == both
    alone = {"content": [], "structuredContent": FOUND}
    assert await result_of(claude, **alone) == alone


@pytest.mark.parametrize("project", [{"model_sees": "gemini*=both, mine=structured"}], indirect=True)
async def test_a_user_can_say_what_a_client_shows(project: Project) -> None:
    gemini, mine = [await client_of(project, name, "session") for name in ("gemini-cli-mcp-client", "mine")]
    alone = {"content": [], "structuredContent": FOUND}
    assert await result_of(gemini, **alone) == alone
    assert "structuredContent" not in await result_of(mine, content=[WORDS], structuredContent=FOUND)
