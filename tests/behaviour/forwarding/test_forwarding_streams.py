"""A workspace server's event streams on their way to clients that accept JSON, events or both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientError, web

from lm_tools_bridge.protocol import names
from manager.forwarding.answer import COLLECTED
from support.clients.raw_clients import BOTH, EVENTS, JSON
from support.http.event_stream import next_event
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import Received, cut, event, result, stream

RESPONSE = b'{"jsonrpc":"2.0","id":%(id)s,"result":{"resultType":"complete","content":[],"n":1.10}}'
MODERN_PART = b'"resultType":"complete",'
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
WRAPPED = pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "wrapped"])


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


def response_of(era: str, identity: bytes) -> bytes:
    """The response as this kind of client gets it."""
    response = RESPONSE.replace(b"%(id)s", identity)
    return response if era == "modern" else response.replace(MODERN_PART, b"")


def progress(count: int, token: str = "tok") -> dict[str, object]:
    return {
        "jsonrpc": "2.0",
        "method": names.PROGRESS,
        "params": {"progressToken": token, "progress": count},
    }


@ERAS
@WRAPPED
async def test_each_event_is_forwarded_before_the_next_one_arrives(
    setup: RegisteredSetup, era: str, wrapped: bool
) -> None:
    """Progress comes back on the request's own stream with the client's token."""
    client = await setup.legacy() if era == "legacy" else setup.modern()
    gates = [asyncio.Event() for _ in range(3)]
    setup.upstream.answers["slow"] = stream(
        event(progress(0)),
        gates[0],
        event(progress(1)),
        gates[1],
        event(progress(2)),
        gates[2],
        event(RESPONSE),
    )
    name, arguments = (names.CALL_TOOL, {"name": "slow"}) if wrapped else ("slow", {})
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "tok"}}
    async with asyncio.timeout(5), client.open(client.body(names.TOOLS_CALL, params, "r")) as response:
        for count, gate in enumerate(gates):
            assert (await next_event(response)).data == json.dumps(progress(count)).encode()
            gate.set()
        last = await next_event(response)
        assert last.data == response_of(era, b'"r"')
        assert await response.content.read() == b""
    assert response.headers["X-Accel-Buffering"] == "no"


async def test_an_event_cut_into_single_bytes_arrives_whole(setup: RegisteredSetup) -> None:
    """An incomplete event is never forwarded; stateless clients also get comments and ids."""
    client = setup.modern()
    whole = b": hello\n\nid: 7\n" + event(progress(1)) + event(RESPONSE)
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = stream(whole[:25], gate, whole[25:])
    body = client.body(names.TOOLS_CALL, {"name": "slow"}, 4)
    async with asyncio.timeout(5), client.open(body) as response:
        assert await response.content.readuntil(b"\n\n") == b": hello\n\n"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response.content.readany(), 0.05)
        gate.set()
        assert await response.content.read() == whole[9:].replace(b"%(id)s", b"4")


BIG = (
    b'event: message\ndata: {"jsonrpc":"2.0","id":%(id)s,"result":{"resultType":"complete","text":"'
    + b"x" * COLLECTED
)


async def test_a_large_response_is_forwarded_before_it_is_complete(setup: RegisteredSetup) -> None:
    """The manager's memory does not grow with it; whatever else may come is held back as ever."""
    client, gate = setup.modern(), asyncio.Event()
    setup.upstream.answers["slow"] = stream(event(progress(1)) + BIG, gate, b'"}}\n\n')
    body = client.body(names.TOOLS_CALL, {"name": "slow"}, 4)
    async with asyncio.timeout(5), client.open(body) as response:
        assert (await next_event(response)).data == json.dumps(progress(1)).encode()
        begun = BIG.replace(b"%(id)s", b"4")
        assert await response.content.readexactly(len(begun)) == begun
        gate.set()
        assert await response.content.read() == b'"}}\n\n'


async def test_a_large_response_that_breaks_off_is_no_response(setup: RegisteredSetup) -> None:
    """Part of it is sent already, so only closing the connection reports the failure."""
    client = setup.modern()
    setup.upstream.answers["slow"] = cut(BIG.replace(b"%(id)s", b"4"))
    async with (
        asyncio.timeout(5),
        client.open(client.body(names.TOOLS_CALL, {"name": "slow"}, 4)) as response,
    ):
        with pytest.raises(ClientError):
            await response.read()


@ERAS
@pytest.mark.parametrize("accept", [JSON, "*/*", None, "application/*"])
async def test_a_json_only_client_gets_json_from_a_streaming_server(
    setup: RegisteredSetup, era: str, accept: str | None
) -> None:
    """The response alone, its bytes untouched."""
    client = await setup.legacy(accept=accept) if era == "legacy" else setup.modern(accept=accept)
    setup.upstream.answers["slow"] = stream(event(progress(1)), event(RESPONSE))
    answer = await client.call("slow", identity=5)
    assert answer.headers["Content-Type"].startswith(JSON)
    assert (answer.status, answer.body) == (200, response_of(era, b"5"))


@ERAS
async def test_an_events_only_client_gets_events_from_a_json_server(setup: RegisteredSetup, era: str) -> None:
    """Line breaks between members must not split the event."""
    client = await setup.legacy(accept=EVENTS) if era == "legacy" else setup.modern(accept=EVENTS)
    setup.upstream.answers["slow"] = result(b'{ "content":[],\r\n "resultType":"complete", "n":1.10 }')
    answer = await client.call("slow", identity=5)
    assert answer.headers["Content-Type"].startswith(EVENTS)
    assert answer.messages == [{"jsonrpc": "2.0", "id": 5, "result": answer.result}]
    assert answer.result == {"content": [], "n": 1.10} | (
        {"resultType": "complete"} if era == "modern" else {}
    )
    assert b"[DONE]" not in answer.body


@ERAS
@pytest.mark.parametrize("accept", [BOTH, JSON])
async def test_a_multi_line_event_is_read_as_one_message(
    setup: RegisteredSetup, era: str, accept: str
) -> None:
    """Two data lines are one message; CR LF ends are as good as LF."""
    client = await setup.legacy(accept=accept) if era == "legacy" else setup.modern(accept=accept)
    head, tail = RESPONSE.split(b',"result"')
    setup.upstream.answers["slow"] = stream(b"data: " + head + b'\r\ndata: ,"result"' + tail + b"\r\n\r\n")
    answer = await client.call("slow")
    assert answer.result["content"] == []


async def test_notifications_before_lists_and_handshakes_do_not_hide_the_result(
    setup: RegisteredSetup,
) -> None:
    tools = json.dumps(
        {"resultType": "complete", "tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
    )
    listing = b'{"jsonrpc":"2.0","id":%(id)s,"result":' + tools.encode() + b"}"
    setup.upstream.answers[names.TOOLS_LIST] = stream(event(progress(1)), event(listing))
    schema = b'{"contents":[{"uri":"x","text":"{\\"inputSchema\\":{}}"}]}'
    setup.upstream.answers[names.RESOURCES_READ] = result(schema)
    client = await setup.legacy(bound=False)
    payload = (await client.handshake(setup.upstream.root)).payload
    assert payload["discovery"]["partial"] is False
    assert payload["discovery"]["bridgedTools"] == [{"name": "a", "description": ""}]
    listed = (await client.ask(names.TOOLS_LIST)).result["tools"]
    assert [tool["name"] for tool in listed] == [names.HANDSHAKE, names.CALL_TOOL, "a"]


@ERAS
async def test_a_client_that_does_not_read_slows_its_server_down(setup: RegisteredSetup, era: str) -> None:
    """Back-pressure, not growing buffers."""
    written = 0

    async def flood(request: web.Request, received: Received) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse(headers={"Content-Type": EVENTS})
        await response.prepare(request)
        for count in range(200):
            await response.write(event(progress(count, "t" * 200_000)))
            written += 1
        await response.write(event(RESPONSE.replace(b"%(id)s", received.id)))
        return response

    client = await setup.legacy() if era == "legacy" else setup.modern()
    setup.upstream.answers["flood"] = flood
    async with client.open(client.body(names.TOOLS_CALL, {"name": "flood"}, 1)) as response:
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.1)
        assert 0 < written < 150
        size = sum([len(chunk) async for chunk in response.content.iter_any()])
    assert written == 200
    assert size > 200 * 200_000
