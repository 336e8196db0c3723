"""Events that pass to a session unparsed, because the server marks what to cut: interleaving and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict

from lm_tools_bridge.protocol import names
from manager.http import open_streams
from manager.relay import direct_relay
from manager.supervision import workspaces
from support.clients.raw_clients import EVENTS, JSON, Answer, Client
from support.http.client_connection import connected
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import PROGRESS, RESPONSE, SERVER
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Received,
    cut,
    event,
    stream,
    trimmed_event,
)

BOTH = f"{JSON}, {EVENTS}"
CLIENTS = pytest.mark.parametrize(
    ("era", "accept"), [("legacy", BOTH), ("legacy", JSON), ("modern", BOTH), ("modern", JSON)]
)


@pytest.fixture
async def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RegisteredSetup]:
    monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 60)  # so that nothing is looked at between the calls
    async with registered_setup(tmp_path, call_timeout_s=20) as running:
        yield running


async def client_of(setup: RegisteredSetup, era: str, accept: str) -> Client:
    """One whose calls need no task."""
    client = setup.modern(accept=accept) if era == "modern" else await setup.legacy(accept=accept)
    await client.call("echo")
    return client


def said(size: int) -> dict[str, Any]:
    return {**COMPLETE, "text": "x" * size, "_meta": SERVER}


async def figures(setup: RegisteredSetup) -> dict[str, Any]:
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as status:
        [shown] = (await status.json())["workspaceDetails"]
    return dict(shown)


@CLIENTS
@pytest.mark.parametrize("size", [300, 300_000])
@pytest.mark.parametrize("end", ["never", "at once"])
async def test_a_result_is_complete_before_the_stream_ends(
    era: str, accept: str, size: int, end: str, setup: RegisteredSetup
) -> None:
    """An event that is whole is an answer, whatever becomes of its stream then."""
    client = await client_of(setup, era, accept)
    text = trimmed_event(said(size))
    setup.upstream.answers["t"] = stream(text, None) if end == "never" else cut(text.replace(b"%(id)s", b"7"))
    async with asyncio.timeout(10):
        answer = await client.call("t", identity=7)
    assert answer.result["text"] == "x" * size
    assert answer.is_stream == (era == "modern" and accept == BOTH)
    shown = await figures(setup)
    assert (shown["errors"], shown["inFlight"], shown["lastError"]) == (0, 0, None)
    assert (await client.call("echo")).result["content"]


@CLIENTS
@pytest.mark.parametrize("more", [b": keep-alive\n\n", event(PROGRESS), event(RESPONSE)])
@pytest.mark.parametrize("is_apart", [True, False])
async def test_bytes_after_the_response_do_no_harm(
    era: str, accept: str, more: bytes, is_apart: bool, setup: RegisteredSetup
) -> None:
    """A small answer is held, and then read as ever."""
    client = await client_of(setup, era, accept)
    first = trimmed_event(said(300))
    setup.upstream.answers["t"] = stream(first, more) if is_apart else stream(first + more)
    answer = await client.post(client.body(names.TOOLS_CALL, {"name": "t"}, 7))
    message = answer.messages[0] if answer.is_stream else answer.message
    assert message["result"]["text"] == "x" * 300
    assert (message["result"].keys() == {"content", "text"}) is (era == "legacy")
    shown = await figures(setup)
    assert (shown["errors"], shown["inFlight"]) == (0, 0)


@pytest.mark.parametrize("accept", [BOTH, JSON])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_half_a_response_is_not_complete_for_an_http_1_0_client(
    era: str, accept: str, setup: RegisteredSetup
) -> None:
    """HTTP/1.0 tells the end of what has no length by the end of the connection."""
    await client_of(setup, era, accept)
    client = await connected(setup, era, "t")
    client.lines = [f"Accept: {accept}" if one.startswith("Accept:") else one for one in client.lines]
    setup.upstream.answers["t"] = cut(trimmed_event(said(400_000)).replace(b"%(id)s", b"7")[:390_000])
    client.writer.write(client.request(client.body("t", 7)).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    got = await client.reader.read()
    head, _, body = got.partition(b"\r\n\r\n")
    if b"\r\nContent-Type: application/json" in head:
        assert Answer(200, CIMultiDict({"Content-Type": JSON}), body).refusal["delivered"] == "unknown"
    else:
        assert not body.endswith(b"}}\n\n")
    client.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_keep_alives_continue_during_a_small_event(
    era: str, setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody in between takes the connection for dead."""
    monkeypatch.setattr(open_streams, "SILENCE_S", 0.2)
    monkeypatch.setattr(direct_relay, "PATIENCE_S", 0.1)
    client = await client_of(setup, era, BOTH)
    text, gate = trimmed_event(said(200_000)), asyncio.Event()
    setup.upstream.answers["t"] = stream(text[:60_000], gate, text[60_000:])
    async with client.open(client.body(names.TOOLS_CALL, {"name": "t"}, 7)) as answer:
        assert answer.content_type == EVENTS
        first = await answer.content.readuntil(b"\n\n")
        gate.set()
        rest = await answer.content.read()
    assert b"result" not in first
    assert b'"text":"%b"' % (b"x" * 200_000) in rest


async def test_a_call_continues_when_its_session_client_leaves(setup: RegisteredSetup) -> None:
    """As long as nothing of the answer is out."""
    await client_of(setup, "legacy", BOTH)
    client = await connected(setup, "legacy", "t")
    text, gate = trimmed_event(said(200_000)), asyncio.Event()
    setup.upstream.answers["t"] = stream(text[:60_000], gate, text[60_000:])
    client.writer.write(client.request(client.body("t", 7)))
    received = await setup.upstream.arrival("t")
    client.close()
    assert (await (await client_of(setup, "legacy", BOTH)).call("echo")).result["content"]
    assert not received.gone.is_set()
    gate.set()
    while (await figures(setup))["inFlight"]:
        await asyncio.sleep(0.01)
    assert (await figures(setup))["errors"] == 0
    assert not received.gone.is_set()


@CLIENTS
@pytest.mark.parametrize("size", [90_000, 150_000])
async def test_an_event_above_the_limit_is_refused_before_any_part_is_sent(
    era: str, accept: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However its pieces fall, no answer has a hole in it."""
    monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 60)
    async with registered_setup(tmp_path, call_timeout_s=20, response_limit=64 * 1024) as setup:
        client = await client_of(setup, era, accept)
        text = trimmed_event(said(size)).replace(b"%(id)s", b"7")

        async def in_pieces(request: web.Request, received: Received) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": EVENTS})
            await response.prepare(request)
            for at in range(0, len(text), 25_000):
                await response.write(text[at : at + 25_000])
                for _ in range(20):  # the manager runs in the same loop: it reads what there is
                    await asyncio.sleep(0)
            return response

        setup.upstream.answers["t"] = in_pieces
        answer = await client.call("t", identity=7)
        assert answer.refusal["code"] == 47106
        assert (await client.call("echo")).result["content"]
