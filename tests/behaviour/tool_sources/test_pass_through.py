"""A project with a single MCP server: at the project's own URL, clients meet that server itself.

The expected response is that of the same server connected directly, for session and stateless clients and
servers. `OURS` and `STATUS` name the differences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Answer, Client, SessionClient, StatelessClient
from support.projects.gateway import Gateway, Project, eventually, listed
from support.servers.sdk_servers.third_party import ThirdParty, stdio_command, third_party

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

OURS = {
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {names.META_SERVER: {"name": "third-party", "version": "1.2.3"}},
}
"""Result members that MCP 2026-07-28 requires and servers of older revisions do not send."""
STATUS = {-32602: 200}
"""HTTP status of a server's own errors where it is not the one the official SDK gives."""
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
PAGES = "--page-size=3"
SOURCES = ["http_new", "http_old", "stdio_old"]
METHODS: list[tuple[str, dict[str, Any]]] = [
    (names.TOOLS_LIST, {}),
    (names.TOOLS_LIST, {"cursor": "24"}),
    (names.RESOURCES_LIST, {}),
    (names.TEMPLATES_LIST, {}),
    (names.PROMPTS_LIST, {}),
    (names.PROMPTS_LIST, {"cursor": "1"}),
    (names.RESOURCES_READ, {"uri": "demo://blob"}),
    (names.RESOURCES_READ, {"uri": "demo://item/7"}),
    (names.RESOURCES_READ, {"uri": "lm-tools://names"}),
    (names.PROMPTS_GET, {"name": "greet", "arguments": {"who": "you"}}),
    (names.COMPLETE, {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "x"}}),
    (names.TOOLS_CALL, {"name": "text", "arguments": {}}),
    (names.TOOLS_CALL, {"name": "mixed"}),
    (names.TOOLS_CALL, {"name": "unknown_members", "arguments": {"no": ["schema", "says so"]}}),
    (names.TOOLS_CALL, {"name": "structured_list"}),
    (names.TOOLS_CALL, {"name": "is_error"}),
    (names.TOOLS_CALL, {"name": "rpc_error"}),
    (names.TOOLS_CALL, {"name": "no such tool"}),
    (names.TOOLS_CALL, {"name": "lm_findFiles", "arguments": {"query": "*"}}),
    ("vendor/method", {"x": 1}),
]  # fmt: skip


@dataclass
class ThirdPartySetup:
    """A third-party server behind three projects, and clients that connect to it directly."""

    projects: dict[str, Project]
    web: ThirdParty

    async def at(self, source: str, era: str) -> Client:
        """A client at the address of a project."""
        project = self.projects[source]
        if era == "legacy":
            return await SessionClient.connect(project.gateway.http, project.url)
        known = (await project.modern.ask(names.DISCOVER)).headers[headers.WORKSPACE_ID]
        return StatelessClient(project.gateway.http, f"{project.gateway.manager.base}/w/{known}/mcp")

    async def directly(self, era: str) -> Client:
        """The same client at the server itself."""
        http = self.projects["http_new"].gateway.http
        if era == "legacy":
            return await SessionClient.connect(http, self.web.at("legacy/mcp"))
        return StatelessClient(http, self.web.at("modern/mcp"))


def alone(gateway: Gateway, name: str, **entry: Any) -> Project:
    """A project that offers one server under its own names."""
    project = gateway.project(name)
    folder = project.root / ".lm-tools-bridge"
    folder.mkdir(exist_ok=True)
    (folder / "workspace.toml").write_text("[builtin]\nenabled = false\n")
    project.servers(theirs={"namespace": "", **entry})
    return project


@pytest.fixture(scope="module")
def web() -> Iterator[ThirdParty]:
    with third_party("http", PAGES) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(gateway: Gateway, web: ThirdParty) -> ThirdPartySetup:
    command, *arguments = stdio_command("--legacy", PAGES)
    projects = {
        "http_new": alone(gateway, "new", type="http", url=web.at("modern/mcp")),
        "http_old": alone(gateway, "old", type="http", url=web.at("legacy/mcp")),
        "stdio_old": alone(gateway, "program", command=command, args=arguments),
    }
    for project in projects.values():
        await project.trust()
        await eventually(partial(_offers, project))
    return ThirdPartySetup(projects, web)


async def _offers(project: Project) -> bool:
    """Whether the server behind a project has come up; a list waits for it only so long."""
    return "text" in {one["name"] for one in (await project.inspect())["tools"]}


def described(answer: Answer) -> dict[str, Any]:
    """Capabilities, instructions and identity from an `initialize` or `server/discover` result."""
    result = answer.result
    server = result.get("serverInfo") or result["_meta"][names.META_SERVER]
    return {**{key: result.get(key) for key in ("capabilities", "instructions")}, "serverInfo": server}


def allowed(result: dict[str, Any], era: str) -> dict[str, Any]:
    """A result without structured content that is not an object, which session clients reject."""
    is_fine = era == "modern" or isinstance(result.get("structuredContent", {}), dict)
    return {name: value for name, value in result.items() if is_fine or name != "structuredContent"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("source", SOURCES)
async def test_every_response_equals_the_servers_direct_one(
    setup: ThirdPartySetup, source: str, era: str
) -> None:
    here, there = await setup.at(source, era), await setup.directly(era)
    for method, params in METHODS:
        answer, direct = await here.ask(method, params), await there.ask(method, params)
        if "error" in direct.message:
            assert answer.error == direct.error, (method, params)
            code = direct.error["code"]
            expected = direct.status if era == "modern" else 200
            assert answer.status == STATUS.get(code, expected), (method, params)
        elif source == "http_new" and era == "modern":  # the order of members, too
            assert json.dumps(answer.result) == json.dumps(direct.result), (method, params)
        else:
            assert {**OURS, **answer.result} == {**OURS, **allowed(direct.result, era)}, (method, params)


@pytest.mark.parametrize("source", SOURCES)
async def test_initialize_and_discover_describe_the_server(setup: ThirdPartySetup, source: str) -> None:
    """Capabilities, instructions and identity equal those that the server gives directly."""
    project = setup.projects[source]
    http, modern = project.gateway.http, source == "http_new"
    new, old = (
        StatelessClient(http, setup.web.at("modern/mcp")),
        SessionClient(http, setup.web.at("legacy/mcp")),
    )
    direct = await (new.ask(names.DISCOVER) if modern else old.ask(names.INITIALIZE, INITIALIZE))
    discovered = await (await setup.at(source, "modern")).ask(names.DISCOVER)
    initialized = await SessionClient(http, project.url).ask(names.INITIALIZE, INITIALIZE)
    assert described(discovered) == described(initialized) == described(direct)
    assert discovered.result["supportedVersions"] == ["2026-07-28"]
    assert initialized.result["protocolVersion"] == INITIALIZE["protocolVersion"]


async def test_at_mcp_the_server_is_one_source_among_others(setup: ThirdPartySetup) -> None:
    """The same names, our own lists and resources."""
    project = setup.projects["stdio_old"]
    legacy = await project.legacy()
    shown = await listed(legacy)
    assert {names.HANDSHAKE, names.CALL_TOOL, "text", "decorated"} <= shown.keys()
    assert (await legacy.call("text", {"text": "hello"})).result["content"][0]["text"] == "hello"
    client = StatelessClient(project.gateway.http, project.gateway.manager.address)
    client.extra = {headers.WORKSPACE_CWD: str(project.root)}
    assert len(await listed(client)) == len(shown) - 2
    uris = {one["uri"] for one in (await client.ask(names.RESOURCES_LIST)).result["resources"]}
    assert {names.URI_NAMES, "demo://text"} <= uris


async def test_status_shows_the_server_under_its_configured_name(setup: ThirdPartySetup) -> None:
    found = await setup.projects["http_old"].inspect()
    assert [one["id"] for one in found["sources"] if one["kind"] in ("builtin", "stdio", "remote")] == [
        "remote:theirs"
    ]
    assert {one["name"] for one in found["tools"]} >= {"text", "decorated"}
