"""Prompts, resources and completions of MCP sources equal the server's own.

Names cannot clash; changes are announced on streams.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import mcp
import mcp_types
import pytest
import pytest_asyncio
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Client
from support.processes.timeouts import within
from support.projects.gateway import Gateway, Project, codes, eventually
from support.servers.sdk_servers.third_party import Direct, ThirdParty, direct, stdio_command
from support.servers.sdk_servers.third_party_content import PROMPTS, RESOURCES, TEMPLATES
from workspace_server.catalog.toolset import COALESCE_S

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

SOURCES = ["stdio_old", "http_old", "http_new"]
"""In the order of their entries: the first owns the URIs that all of them have."""
ERAS = ["modern", "legacy"]
OURS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@dataclass
class ThirdPartySetup:
    """A project with one third-party server over three transports, and direct clients of that server."""

    project: Project
    web: ThirdParty

    def directly(self, source: str) -> contextlib.AbstractAsyncContextManager[Direct]:
        """The SDK's client at the server of a source."""
        if source == "stdio_old":
            return direct(stdio_command("--legacy"), "legacy")
        return direct(self.web.at("legacy/mcp" if source == "http_old" else "modern/mcp"))

    async def client(self, era: str) -> Client:
        """A session client or a stateless client."""
        return self.project.modern if era == "modern" else await self.project.legacy()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(gateway: Gateway, third_party_server: ThirdParty) -> ThirdPartySetup:
    command, *arguments = stdio_command("--legacy")
    project = gateway.project("strange")
    project.servers(
        stdio_old={"command": command, "args": arguments},
        http_old={"type": "http", "url": third_party_server.at("legacy/mcp")},
        http_new={"type": "http", "url": third_party_server.at("modern/mcp")},
    )
    await project.trust()

    async def are_listed() -> bool:
        return len(await listed(project.modern, names.PROMPTS_LIST, "prompts")) == 3 * len(PROMPTS)

    await eventually(are_listed, 10)
    await project.until_listed(*(f"{source}__change_prompts" for source in SOURCES))
    return ThirdPartySetup(project, third_party_server)


async def listed(client: Client, method: str, member: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = (await client.ask(method)).result[member]
    return entries


@pytest.mark.parametrize("era", ERAS)
async def test_lists_hold_every_servers_entries_under_unique_names(setup: ThirdPartySetup, era: str) -> None:
    """Definitions as they are but for a prompt's name; a URI once."""
    client = await setup.client(era)
    prompts = await listed(client, names.PROMPTS_LIST, "prompts")
    wanted = [{**prompt, "name": f"{source}__{prompt['name']}"} for source in SOURCES for prompt in PROMPTS]
    assert prompts == sorted(wanted, key=lambda prompt: str(prompt["name"]))
    shown = await listed(client, names.RESOURCES_LIST, "resources")
    theirs = sorted(RESOURCES, key=lambda resource: str(resource["uri"]))
    assert [one for one in shown if one["uri"].startswith("demo:")] == theirs
    assert shown[-len(theirs) :] == theirs or era == "legacy"
    templates = await listed(client, names.TEMPLATES_LIST, "resourceTemplates")
    assert [one for one in templates if one["uriTemplate"].startswith("demo:")] == TEMPLATES
    assert (await codes(setup.project.modern)).count("RESOURCE_URI_CLASH") == 4
    rows = {row["id"]: row for row in (await setup.project.inspect())["sources"]}
    assert rows["stdio:stdio_old"]["promptCount"] == len(PROMPTS)
    assert rows["stdio:stdio_old"]["resourceCount"] == len(RESOURCES)


@pytest.mark.parametrize("source", SOURCES)
async def test_every_response_equals_the_servers_direct_one(setup: ThirdPartySetup, source: str) -> None:
    reference = {"type": "ref/prompt", "name": "greet"}
    argument = {"name": "who", "value": "x"}
    async with setup.directly(source) as server:
        for era in ERAS:
            client = await setup.client(era)
            for name, arguments in (("greet", {"who": "☕"}), ("picture", {})):
                expected = await server.request(names.PROMPTS_GET, {"name": name, "arguments": arguments})
                asked = {"name": f"{source}__{name}", "arguments": arguments}
                assert plain((await client.ask(names.PROMPTS_GET, asked)).result) == plain(expected)
            expected = await server.request(names.COMPLETE, {"ref": reference, "argument": argument})
            ours = {"ref": {**reference, "name": f"{source}__greet"}, "argument": argument}
            assert plain((await client.ask(names.COMPLETE, ours)).result) == plain(expected)
            for uri in ("demo://text", "demo://blob", "demo://item/7"):
                expected = await server.request(names.RESOURCES_READ, {"uri": uri})
                assert plain((await client.ask(names.RESOURCES_READ, {"uri": uri})).result) == plain(expected)


def plain(result: dict[str, Any]) -> dict[str, Any]:
    """A result without the members that only its protocol revision adds."""
    return {key: value for key, value in result.items() if key not in OURS and key != "_meta"}


@pytest.mark.parametrize(("era", "code"), [("modern", -32602), ("legacy", -32002)])
async def test_an_unknown_uri_is_an_error_in_the_clients_revision(
    setup: ThirdPartySetup, era: str, code: int
) -> None:
    """All servers were asked."""
    error = (await (await setup.client(era)).ask(names.RESOURCES_READ, {"uri": "demo://never"})).error
    assert (error["code"], error["data"]["uri"]) == (code, "demo://never")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_prompt_can_require_input(setup: ThirdPartySetup, mode: str, source: str) -> None:
    """For servers and official clients of both protocol generations."""

    async def fill_in(context: Any, params: Any) -> mcp_types.ElicitResult:
        assert params.message == "Your name?"
        return mcp_types.ElicitResult(action="accept", content={"name": "Zoë"})

    url = setup.project.url
    async with mcp.Client(url, mode=mode, read_timeout_seconds=20, elicitation_callback=fill_in) as client:
        prompt = await client.get_prompt(f"{source}__ask")
        content = prompt.messages[0].content
        assert isinstance(content, mcp_types.TextContent)
        assert '"name": "Zo\\u00eb"' in content.text


@pytest.mark.parametrize("source", ["stdio_old", "http_new"])
async def test_subscribers_are_notified_of_a_changed_resource(setup: ThirdPartySetup, source: str) -> None:
    """By the official client; the server was asked, and is asked no more when nobody listens."""
    uri = "demo://text" if source == "stdio_old" else f"{source}://only"
    async with mcp.Client(setup.project.url, mode="2026-07-28", read_timeout_seconds=20) as client:
        await client.list_tools()
        async with client.listen(resource_subscriptions=[uri]) as heard:
            assert heard.honored.resource_subscriptions == [uri]
            await touch(client, source, uri)
            async with asyncio.timeout(within(5)):
                assert await anext(aiter(heard)) == ResourceUpdated(uri)
        if source == "stdio_old":

            async def forgotten() -> bool:
                return await touch(client, source, uri) == "not watched"

            await eventually(forgotten)


async def touch(client: mcp.Client, source: str, uri: str) -> str:
    result = await client.call_tool(f"{source}__touch", {"uri": uri})
    content = result.content[0]
    assert isinstance(content, mcp_types.TextContent)
    return content.text


@pytest.mark.parametrize("source", SOURCES)
async def test_changed_prompts_are_announced_and_no_other_list(setup: ThirdPartySetup, source: str) -> None:
    async with mcp.Client(setup.project.url, mode="2026-07-28", read_timeout_seconds=20) as client:
        await client.list_tools()
        kinds = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
        async with client.listen(**kinds) as heard:
            changes = aiter(heard)
            with contextlib.suppress(TimeoutError):
                while True:  # sources that have only just started may still announce lists
                    async with asyncio.timeout(4 * COALESCE_S):
                        await anext(changes)
            for _ in range(2):
                await client.call_tool(f"{source}__change_prompts", {})
                async with asyncio.timeout(within(5)):
                    assert await anext(changes) == PromptsListChanged()
        assert len((await client.list_prompts()).prompts) == 3 * len(PROMPTS)


async def test_subscriptions_survive_the_end_of_their_server(setup: ThirdPartySetup) -> None:
    """The new process is told what is listened to."""
    uri = "demo://blob"
    async with mcp.Client(setup.project.url, mode="2026-07-28", read_timeout_seconds=20) as client:
        await client.list_tools()
        async with client.listen(resource_subscriptions=[uri]) as heard:
            with contextlib.suppress(mcp.MCPError):
                await client.call_tool("stdio_old__die", {})

            async def watched() -> bool:
                return await touch(client, "stdio_old", uri) == "touched"

            await eventually(watched, 10)
            async with asyncio.timeout(within(5)):
                assert await anext(aiter(heard)) == ResourceUpdated(uri)
