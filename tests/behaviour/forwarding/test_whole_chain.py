"""Bytes, timing, crashes and sizes through manager and workspace server.

The server behind both answers exactly what a test scripts, in each protocol generation.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import Answer, Client
from support.http.event_stream import next_event, next_message
from support.projects.gateway import Project, eventually, running_gateway
from support.servers.mcp_sources.remote_server import (
    ECHO,
    Answerer,
    Received,
    ScriptedRemoteServer,
    events,
    fake_remote,
)
from support.servers.mcp_sources.stdio_servers import program
from support.servers.scripted.scripted_workspace_server import event

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]

CLIENTS = pytest.mark.parametrize("client_era", ["legacy", "modern"])
SOURCES = pytest.mark.parametrize("source", ["old", "new"])
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
ARGUMENTS = (
    b'{ "zeta": 1, "alpha": [1.10, -0.0, 123456789012345678901234567890],\t"emoji": "\xf0\x9f\x9a\x80",'
    b' "escaped": "\\u00e9\\ud83d\\ude00\\/",  "": {"": [ ]}, "alpha2" : 1.0E+2 }'
)
CONTENT = (
    b'"content":[ {"type":"text","text":"caf\\u00e9 \xe2\x98\x95","x-new":[1.10]} ],'
    b'"structuredContent":{"n":123456789012345678901234567890,"f":1.0E+2}, "later": {"unknown": true}'
)
LONG = 123456789012345678901234567890
META = b'"example.com/later":[1.10, {"q":null}]'

LOCAL = """
def call(m, line):
    with open("received", "wb") as file: file.write(line)
    put(%r.replace(b"ID", str(m["id"]).encode()) + b"\\n")
while line := sys.stdin.buffer.readline():
    m = json.loads(line)
    {"initialize": initialize, "tools/list": list_tools}.get(m["method"], other)(m)
    if m["method"] == "tools/call": call(m, line)
"""
"""A program that answers each call with these bytes, and keeps those that came."""


@dataclass
class SourcesSetup:
    """A project with two sources, and the server behind each."""

    project: Project
    servers: dict[str, ScriptedRemoteServer]

    async def client(self, era: str) -> Client:
        return self.project.modern if era == "modern" else await self.project.legacy()

    def answers(self, source: str, *answers: Answerer) -> None:
        """What the source answers to calls from now on."""
        self.servers[source].answers[names.TOOLS_CALL] = list(answers)


def modern(server: ScriptedRemoteServer) -> None:
    """Make it a stateless server."""

    async def discover(got: Received) -> web.StreamResponse:
        value = {**COMPLETE, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        return got.result(value)

    async def tools(got: Received) -> web.StreamResponse:
        return got.result({**COMPLETE, "tools": server.tools})

    server.answers[names.DISCOVER] = [discover]
    server.answers[names.TOOLS_LIST] = [tools]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SourcesSetup]:
    async with (
        fake_remote() as old,
        fake_remote() as new,
        running_gateway(tmp_path_factory.mktemp("chain")) as gateway,
    ):
        modern(new)
        project = gateway.project("proj")
        servers = {"old": old, "new": new}
        command, *arguments = program(LOCAL % answer_of("old", b"ID"))
        project.servers(
            local={"command": command, "args": arguments},
            **{name: {"type": "http", "url": one.url} for name, one in servers.items()},
        )
        await project.trust()

        await project.until_listed("old__echo", "new__echo", "local__echo")
        assert old.tools == new.tools == [ECHO]
        yield SourcesSetup(project, servers)


def answer_of(source: str, identity: bytes = b"$ID") -> bytes:
    """A response with all kinds of members, as a server of the source's revision writes it."""
    front = b'"resultType":"complete",' if source == "new" else b""
    return (
        b'{"jsonrpc":"2.0","id":'
        + identity
        + b',"result":{'
        + front
        + CONTENT
        + b',"_meta":{'
        + META
        + b"}}}"
    )


def progress(count: int) -> dict[str, Any]:
    """A notification as clients know it."""
    return {
        "jsonrpc": "2.0",
        "method": names.PROGRESS,
        "params": {"progressToken": "mine", "progress": count},
    }


def stepwise(source: str, gates: list[asyncio.Event]) -> Answerer:
    """Progress, each step after the gate before it, and then the answer."""

    async def answer(got: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(got.request)
        token = got.message["params"]["_meta"]["progressToken"]
        for count, gate in enumerate(gates):
            step = {"progressToken": token, "progress": count}
            await response.write(event({"jsonrpc": "2.0", "method": names.PROGRESS, "params": step}))
            await gate.wait()
        await response.write(event(answer_of(source, json.dumps(got.message["id"]).encode())))
        return response

    return answer


def call_with_everything(client: Client, tool: str) -> bytes:
    """A call with members that no hop knows, and values that are spelt in odd ways."""
    params = {"name": tool, "arguments": "A", "_meta": {"M": 0}}
    body = client.body(names.TOOLS_CALL, params, LONG)
    return body.replace(b'"A"', ARGUMENTS).replace(b'"M": 0', META)


@CLIENTS
async def test_arguments_and_results_keep_their_bytes_over_both_hops(
    setup: SourcesSetup, client_era: str
) -> None:
    """What neither hop knows, and how numbers, text and white space are written."""
    client = await setup.client(client_era)
    answer = await client.post(call_with_everything(client, "local__echo"))
    received = (setup.project.root / "received").read_bytes()
    assert b'"arguments":' + ARGUMENTS in received
    assert META in received
    assert CONTENT + b',"_meta":{' + META + b"}}}" in answer.body
    assert answer.message["id"] == LONG


@CLIENTS
@SOURCES
async def test_every_value_survives_both_hops(setup: SourcesSetup, source: str, client_era: str) -> None:
    """At addresses the SDK's transport writes numbers and white space in its own way; order and values stay."""
    setup.answers(source, events(event(answer_of(source))))
    client = await setup.client(client_era)
    answer = await client.post(call_with_everything(client, f"{source}__echo"))
    # the SDK's transport opens its streams when it likes, also behind the call
    calls = [one for one in setup.servers[source].received if one.method == names.TOOLS_CALL]
    params = calls[-1].message["params"]
    assert json.dumps(params["arguments"]) == json.dumps(json.loads(ARGUMENTS))
    assert json.loads(b"{" + META + b"}").items() <= params["_meta"].items()
    assert_whole(answer)


def assert_whole(answer: Answer) -> None:
    """The result is `answer_of`."""
    expected = json.loads(b"{" + CONTENT + b',"_meta":{' + META + b"}}")
    kept = {name: value for name, value in answer.result.items() if name != "resultType"}
    assert json.dumps(kept) == json.dumps(expected)


@CLIENTS
@SOURCES
async def test_each_notification_arrives_before_the_server_continues(
    setup: SourcesSetup, source: str, client_era: str
) -> None:
    """The server waits until its step was read at the other end."""
    gates = [asyncio.Event() for _ in range(3)]
    setup.answers(source, stepwise(source, gates))
    client = await setup.client(client_era)
    params = {"name": f"{source}__echo", "arguments": {}, "_meta": {"progressToken": "mine"}}
    async with client.open(client.body(names.TOOLS_CALL, params, 1)) as response:
        for count, gate in enumerate(gates):
            assert await next_message(response) == progress(count)
            gate.set()
        assert b'"later"' in (await next_event(response)).data


async def is_cancelled(setup: SourcesSetup, source: str, call: Received) -> bool:
    """Whether a server saw the cancellation: a notification, or for a stateless one a closed connection."""
    if source == "new":
        return call.request.transport is None or call.request.transport.is_closing()
    told = [one.message["params"] for one in setup.servers[source].received if one.method == names.CANCELLED]
    return call.message["id"] in [one["requestId"] for one in told]


@CLIENTS
@SOURCES
async def test_only_a_stateless_client_cancels_its_call_by_disconnecting(
    setup: SourcesSetup, source: str, client_era: str
) -> None:
    gate = asyncio.Event()
    setup.answers(source, stepwise(source, [gate]))
    client = await setup.client(client_era)
    params = {"name": f"{source}__echo", "arguments": {}, "_meta": {"progressToken": "mine"}}
    async with client.open(client.body(names.TOOLS_CALL, params, 1)) as response:
        await next_message(response)
        call = [one for one in setup.servers[source].received if one.method == names.TOOLS_CALL][-1]
        assert response.connection is not None
        response.connection.close()
    if client_era == "modern":
        await eventually(lambda: is_cancelled(setup, source, call))
        return
    assert (await client.ask(names.PING, identity=1)).status == 400, "still in flight"
    assert not await is_cancelled(setup, source, call)
    gate.set()

    async def is_done() -> bool:
        return (await client.ask(names.PING, identity=1)).status == 200

    await eventually(is_done)
    assert source == "new" or not await is_cancelled(setup, source, call)


@pytest.mark.parametrize(("source", "client_era"), [("old", "modern"), ("new", "legacy")])
async def test_a_large_result_passes_both_hops(setup: SourcesSetup, source: str, client_era: str) -> None:
    text = b'[{"type":"text","text":"' + b"x" * 20_000_000 + b'"}]'
    front = b'"resultType":"complete",' if source == "new" else b""
    setup.answers(
        source, events(event(b'{"jsonrpc":"2.0","id":$ID,"result":{' + front + b'"content":' + text + b"}}"))
    )
    client = await setup.client(client_era)
    answer = await client.call(f"{source}__echo")
    assert text in answer.body


@CLIENTS
@SOURCES
async def test_a_servers_death_after_progress_is_reported_on_the_stream(
    setup: SourcesSetup, source: str, client_era: str
) -> None:
    """`delivered` is unknown, and only this call is concerned."""
    server = setup.servers[source]
    before = server.count(names.TOOLS_CALL)

    async def dies(got: Received) -> web.StreamResponse:
        token = got.message["params"]["_meta"]["progressToken"]
        step = {"progressToken": token, "progress": 0}
        return await events(event({"jsonrpc": "2.0", "method": names.PROGRESS, "params": step}))(got)

    setup.answers(source, dies)
    client = await setup.client(client_era)
    answer = await client.call(f"{source}__echo", meta={"progressToken": "mine"})
    assert answer.messages[0] == progress(0)
    assert (answer.refusal["reason"], answer.refusal["delivered"]) == ("source_unavailable", "unknown")
    assert server.count(names.TOOLS_CALL) == before + 1
    setup.answers(source, events(event(answer_of(source))))
    assert_whole(await client.call(f"{source}__echo"))


async def test_a_workspace_servers_death_after_progress_is_reported(
    setup: SourcesSetup,
) -> None:
    """The responses that clients wait for come from the manager; the next call is served."""
    setup.answers("new", stepwise("new", [asyncio.Event()]))
    params = {"name": "new__echo", "arguments": {}, "_meta": {"progressToken": "mine"}}
    modern, legacy = [await setup.client(era) for era in ("modern", "legacy")]
    bodies = [client.body(names.TOOLS_CALL, params, "é") for client in (modern, legacy)]
    async with modern.open(bodies[0]) as one, legacy.open(bodies[1]) as other:
        for response in (one, other):
            assert await next_message(response) == progress(0)
        os.kill(await server_pid(setup.project), signal.SIGKILL)
        for response in (one, other):
            message = await next_message(response)
            assert await response.read() == b""
            assert message["id"] == "é"
            assert message["result"]["structuredContent"]["error"]["code"] == 47103
    setup.answers("new", events(event(answer_of("new"))))

    async def served() -> Answer | None:
        answer = await legacy.call("new__echo")
        return None if answer.result.get("isError") else answer

    assert_whole(await eventually(served, 10))


async def server_pid(project: Project) -> int:
    async with project.gateway.http.get(project.gateway.manager.base + "/mcp/status") as response:
        (instance,) = (await response.json())["instanceDetails"]
    return int(instance["pid"])
