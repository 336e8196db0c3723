"""Tools of MCP sources answer as the server does directly.

Configuration changes apply without a restart, and discovery reports sources that are down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from dataclasses import dataclass
from typing import Any

import mcp
import psutil
import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from lm_tools_bridge.recorder.call_log import Filter
from support.clients.raw_clients import Answer, Client, StatelessClient
from support.clients.stateless_requests import events
from support.projects.gateway import (
    FORMS,
    Gateway,
    Project,
    codes,
    eventually,
    listed,
    listening,
    text_of,
)
from support.servers.mcp_sources.remote_server import fake_remote
from support.servers.mcp_sources.stdio_servers import program
from support.servers.sdk_servers.third_party import Direct, Era, ThirdParty, direct, stdio_command
from support.servers.sdk_servers.third_party_content import FOREIGN_DEFINITIONS, PLAIN

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

# -- the same answers ---------------------------------------------------------------------------------------

SOURCES: dict[str, tuple[str, Era]] = {
    "stdio_old": ("--legacy", "legacy"),
    "stdio_new": ("--modern", "modern"),
    "http_old": ("legacy/mcp", "legacy"),
    "http_new": ("modern/mcp", "modern"),
}
KINDS = [name for name in PLAIN if name not in {"hidden", "appeared"}] + ["text", "is_error"]
ARGUMENTS = {"decorated": {"text": "x"}}


@dataclass
class ThirdPartySetup:
    """A project with third-party servers over four transports, and direct clients of each."""

    project: Project
    web: ThirdParty

    def directly(self, source: str) -> contextlib.AbstractAsyncContextManager[Direct]:
        """The SDK's client at the server of a source."""
        way, era = SOURCES[source]
        return direct(self.web.at(way) if source.startswith("http") else stdio_command(way), era)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(gateway: Gateway, third_party_server: ThirdParty) -> ThirdPartySetup:
    project = gateway.project("strange")
    entries: dict[str, Any] = {}
    for source, (way, _) in SOURCES.items():
        command, *arguments = stdio_command(way)
        local = {"command": command, "args": arguments}
        entries[source] = (
            {"type": "http", "url": third_party_server.at(way)} if source.startswith("http") else local
        )
    project.servers(**entries)
    await project.trust()
    await project.until_listed(*(f"{source}__text" for source in SOURCES))
    return ThirdPartySetup(project, third_party_server)


Way = tuple[Client, str]


async def ways(project: Project) -> list[Way]:
    """With and without sessions, called directly and wrapped."""
    modern, legacy = project.modern, await project.legacy()
    return [(modern, "tools/call"), (modern, "callTool"), (legacy, "tools/call"), (legacy, "execute_tool")]


async def ask(project: Project, way: Way, tool: str, arguments: Any = None, **options: Any) -> Answer:
    """Call a tool in one of the ways."""
    client, form = way
    inner = {"name": tool, "arguments": arguments or {}}
    if form == "tools/call":
        return await client.call(tool, arguments, **options)
    if form == "execute_tool":
        return await client.call("execute_tool", inner, **options)
    return await client.call(names.CALL_TOOL, {**inner, "cwd": str(project.root)}, **options)


def in_words_of(client: Client, result: dict[str, Any]) -> dict[str, Any]:
    """A result in the form of the client's revision; older ones have no result type, server name or bare list."""
    if isinstance(client, StatelessClient):
        return {"resultType": "complete", **result}
    meta = {name: value for name, value in result.get("_meta", {}).items() if name != names.META_SERVER}
    gone = {"resultType", "_meta"}
    if not isinstance(result.get("structuredContent", {}), dict):
        gone.add("structuredContent")
    kept = {name: value for name, value in result.items() if name not in gone}
    return kept | ({"_meta": meta} if meta else {})


@pytest.mark.parametrize("source", SOURCES)
async def test_every_response_equals_the_servers_direct_one(setup: ThirdPartySetup, source: str) -> None:
    """Results, definitions, errors, progress, `_meta`."""
    project = setup.project
    meta = {"traceparent": "00-1-2-03", "example.com/x": {"y": [1, None]}, "progressToken": "mine"}
    arguments = {"text": '\n\t\u2028"}\\☕😀', "big": 12345678901234567890, "list": [1.5, None, {}]}
    async with setup.directly(source) as server:
        expected = {f"{source}__{one['name']}": one for one in await server.definitions()}
        for client in (project.modern, await project.legacy()):
            shown = await listed(client)
            for name, definition in expected.items():
                assert shown[name] == {**definition, "name": name}
            assert FOREIGN_DEFINITIONS["decorated"].items() <= shown[f"{source}__decorated"].items()
        results = {kind: await server.call(kind, ARGUMENTS.get(kind)) for kind in KINDS}
        with pytest.raises(mcp.MCPError) as refused:
            await server.call("rpc_error", {"code": 4711, "message": "no ☕"})
        for way in await ways(project):
            for kind, result in results.items():
                answer = await ask(project, way, f"{source}__{kind}", ARGUMENTS.get(kind))
                assert answer.result == in_words_of(way[0], result), (way[1], kind)
            sent = {"code": 4711, "message": "no ☕"}
            error = (await ask(project, way, f"{source}__rpc_error", sent)).error
            fault = refused.value.error
            assert error == {"code": fault.code, "message": fault.message, "data": fault.data}
            seen = (await ask(project, way, f"{source}__echo", arguments, meta=meta)).payload
            assert seen["arguments"] == arguments
            assert (
                seen["_meta"].items()
                >= {"traceparent": "00-1-2-03", "example.com/x": {"y": [1, None]}}.items()
            )
            stepped = await ask(project, way, f"{source}__progress", {"steps": 3}, meta=meta)
            assert stepped.result["content"] == [{"type": "text", "text": "3 steps"}]
            told = [one["params"] for one in stepped.messages if one.get("method") == names.PROGRESS]
            assert [(one["progressToken"], one["progress"], one["message"]) for one in told] == [
                ("mine", step, f"step {step}") for step in (1, 2, 3)
            ]


@pytest.mark.parametrize("source", SOURCES)
async def test_each_call_has_a_trace_context_and_the_time_of_its_source(
    setup: ThirdPartySetup, source: str
) -> None:
    project, progress, began = setup.project, f"{source}__progress", int(time.time() * 1000)
    seen = []
    for way in await ways(project):
        seen.append((await ask(project, way, f"{source}__echo", {"text": "x"})).payload["_meta"])
        await ask(project, way, progress, {"steps": 2}, meta={"progressToken": 1})  # an event stream
    kind = "remote" if source.startswith("http") else "stdio"
    wanted = Filter(project="strange", source=f"{kind}:{source}", since_ms=began)
    calls = await project.gateway.recorded(wanted, 2 * len(seen))
    assert [call.trace for call in calls[::2]] == [meta["traceparent"] for meta in seen]
    assert len({call.trace for call in calls}) == len(calls)
    for call in calls:
        assert 0 < (call.source_took or 0) <= call.took


async def test_a_stateless_servers_input_request_reaches_the_client(setup: ThirdPartySetup) -> None:
    """The server's own state comes back to it byte by byte, inside ours."""
    client, tool = setup.project.modern, "http_new__elicit"
    first = (await client.call(tool, {"message": "Who?"}, meta=FORMS)).result
    assert first["resultType"] == "input_required"
    assert first["inputRequests"]["q"]["params"]["message"] == "Who?"
    again = {
        "name": tool,
        "arguments": {"message": "Who?"},
        "requestState": first["requestState"],
        "inputResponses": {"q": {"action": "accept", "content": {"name": "Zoë"}}},
        "_meta": FORMS,
    }
    answer = (await client.ask(names.TOOLS_CALL, again)).payload
    assert answer == {"state": "state of elicit", "action": "accept", "content": {"name": "Zoë"}}
    assert (await client.ask(names.TOOLS_CALL, again)).error["code"] == -32602


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client_uses_an_mcp_source(setup: ThirdPartySetup, mode: str) -> None:
    """Its models take what comes, its headers mirror arguments where a schema says so."""
    async with mcp.Client(setup.project.url, mode=mode, read_timeout_seconds=20) as client:
        shown = [tool.name for tool in (await client.list_tools()).tools]
        assert "http_new__routed" in shown
        routed = await client.call_tool("http_new__routed", {"region": "größe "})
        assert routed.content[0].text == "routed"
        mixed = await client.call_tool("stdio_old__mixed", {})
        assert [block.type for block in mixed.content] == ["text", "image", "resource_link", "resource"]
        steps: list[float] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await client.call_tool("stdio_new__progress", {"steps": 3}, progress_callback=heard)
        assert steps == [1, 2, 3]


# -- live configuration -------------------------------------------------------------------------------------


def small(name: str, *tools: str, first: str = "") -> dict[str, Any]:
    """The entry of a server that answers each of its tools with `name`."""
    described = [{"name": tool, "inputSchema": {"type": "object"}} for tool in tools]
    command, *arguments = program(
        f'{first}\ntools[:] = {described!r}\nserve(lambda m: answer(m["id"], text({name!r})))'
    )
    return {"command": command, "args": arguments}


async def test_configured_servers_change_without_a_restart(gateway: Gateway) -> None:
    """Each time `list_changed`, once or for both halves of a slow change, and the others are left alone.

    The second half of a change may be told during the next one, so they are counted together.
    """
    project = gateway.project("live")
    project.servers(steady=small("steady", "say"))
    await project.trust()
    client = project.modern
    await shows(client, {"steady__say"})
    before = await inspected(project)
    heard: list[str] = []

    async def listen() -> None:
        async with listening(client) as stream:
            ready.set()
            while True:
                heard.append((await events(stream, 1))[0]["method"])

    ready = asyncio.Event()
    listener = asyncio.create_task(listen())
    await ready.wait()

    count = 0

    async def changes(expected: set[str], *, trust: bool = False) -> None:
        nonlocal count
        count += 1
        if trust:
            await project.trust()
        await shows(client, expected)

        async def told() -> bool:
            return len(heard) >= count

        await eventually(told)
        assert len(heard) <= 2 * count

    steady = small("steady", "say")
    project.servers(steady=steady, more=small("more", "one", "two"))
    await changes({"steady__say", "more__one", "more__two"}, trust=True)
    assert await text_of(client, "more__one") == "more"
    running = (await inspected(project))["stdio:more"]["pid"]

    project.servers(steady=steady, more=small("changed", "one"))
    await changes({"steady__say"})
    waiting = (await client.call("more__one")).result["structuredContent"]["error"]
    assert waiting["reason"] == "workspace_pending_trust"
    await gone(running)
    await changes({"steady__say", "more__one"}, trust=True)
    assert await text_of(client, "more__one") == "changed"
    running = (await inspected(project))["stdio:more"]["pid"]

    project.servers(steady=steady, more={**small("changed", "one"), "disabled": True})
    await changes({"steady__say"})
    await gone(running)
    project.servers(steady=steady, more=small("changed", "one"))
    await changes({"steady__say", "more__one"})

    project.servers(steady=steady)
    await changes({"steady__say"})
    assert "stdio:more" not in await inspected(project)
    assert await text_of(client, "steady__say") == "steady"
    listener.cancel()
    await asyncio.wait({listener})
    assert set(heard) == {names.TOOLS_CHANGED}
    assert (await inspected(project))["stdio:steady"]["pid"] == before["stdio:steady"]["pid"]


async def shows(client: Client, expected: set[str]) -> None:
    """Wait until exactly these tools of servers are listed."""

    async def right() -> bool:
        return {name for name in await listed(client) if "__" in name} == expected

    await eventually(right)


async def inspected(project: Project) -> dict[str, dict[str, Any]]:
    """The sources by id, as the user's command line sees them."""
    return {one["id"]: one for one in (await project.inspect())["sources"]}


async def gone(pid: int) -> None:
    """Wait until a process has ended."""

    async def ended() -> bool:
        return not psutil.pid_exists(pid)

    await eventually(ended)


# -- the truth about what is down ---------------------------------------------------------------------------


async def discovered(project: Project) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    """The discovery payload, and level and message of each issue by the source it is about."""
    discovery = (await project.modern.handshake(project.root)).payload["discovery"]
    about = {str(one.get("details")): (one["code"], one["level"]) for one in discovery["issues"]}
    return discovery, about


async def test_discovery_reports_sources_that_are_down_pending_or_stale(gateway: Gateway) -> None:
    """An issue for each, `partial` where tools are missing."""
    project = gateway.project("truth")
    once = project.root / "ran once"
    dying = f"if os.path.exists({str(once)!r}): sys.exit(3)\nopen({str(once)!r}, 'w').close()"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers = {
        "good": small("good", "say"),
        "dying": small("dying", "say", first=dying),
        "missing": {"command": str(project.root / "no such program"), "args": ["--token=hidden"]},
        "away": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"},
    }
    project.servers(**servers)
    await project.trust()
    project.servers(**servers, later=small("later", "say"))
    client = project.modern
    await shows(client, {"good__say", "dying__say"})

    async def known() -> bool:
        return "SOURCE_STARTING" not in await codes(client)

    await eventually(known)
    discovery, about = await discovered(project)
    assert discovery["partial"] is True
    assert about["source stdio:missing"] == about["source remote:away"] == ("SOURCE_UNAVAILABLE", "error")
    assert about[f"lmtb trust {project.root}"] == ("TRUST_PENDING", "warning")
    assert "source stdio:good" not in about
    assert "source stdio:dying" not in about
    assert b"hidden" not in json.dumps(discovery).encode()
    bridged = {tool["name"] for tool in discovery["bridgedTools"]}
    assert {"good__say", "dying__say"} <= bridged
    assert not {name for name in bridged if name.startswith(("missing", "away", "later"))}

    psutil.Process((await inspected(project))["stdio:dying"]["pid"]).kill()

    async def stale() -> bool:
        return (await discovered(project))[1].get("source stdio:dying") == ("SOURCE_UNAVAILABLE", "warning")

    await eventually(stale)
    assert "dying__say" in await listed(client)
    refused = (await client.call("dying__say")).refusal
    assert (refused["code"], refused["reason"]) == (47109, "source_unavailable")
    assert refused["details"]["source"] == "stdio:dying"
    assert await text_of(client, "good__say") == "good"

    del servers["missing"], servers["dying"]
    project.servers(**servers)
    async with fake_remote(port=port), listening(client) as stream:
        await shows(client, {"good__say", "away__echo"})
        async with asyncio.timeout(5):
            assert (await events(stream, 1))[0]["method"] == names.TOOLS_CHANGED
        discovery, about = await discovered(project)
        assert discovery["partial"] is False
        assert [code for code, _ in about.values()] == []
