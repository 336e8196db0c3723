"""Cancelling a call: by leaving, by notification, by deleting the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names, sse
from support.clients.raw_clients import EVENTS, JSON, SessionClient
from support.processes.timeouts import within
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import event, held, never, result, stream

PROGRESS = {"jsonrpc": "2.0", "method": names.PROGRESS, "params": {"progressToken": 1, "progress": 1}}
STARTED = stream(event(PROGRESS), None)
WITHIN_S = within(1.0)


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


async def cancel(client: SessionClient, identity: Any) -> None:
    answer = await client.notify(names.CANCELLED, {"requestId": identity, "reason": "test"})
    assert (answer.status, answer.body) == (202, b"")


async def read(client: SessionClient, identity: Any, begun: asyncio.Event) -> list[Any]:
    """Call `slow` and read all messages that come; `begun` is set with the first."""
    seen = b""
    async with client.open(client.body(names.TOOLS_CALL, {"name": "slow"}, identity)) as response:
        async for chunk in response.content.iter_any():
            seen += chunk
            if b"{" in seen:
                begun.set()
    return [json.loads(one.data) for one in sse.Decoder().feed(seen) if one.data]


@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "wrapped"])
@pytest.mark.parametrize("has_begun", [False, True], ids=["before the head", "in the stream"])
async def test_a_stateless_client_that_disconnects_cancels_its_call(
    setup: RegisteredSetup, wrapped: bool, has_begun: bool
) -> None:
    """Within a second; nobody else is touched."""
    client = setup.modern(pure=not wrapped)
    setup.upstream.answers["slow"] = STARTED if has_begun else never
    inner = {"name": "slow", "arguments": {}, "cwd": str(setup.upstream.root)}
    call = client.call(names.CALL_TOOL, inner) if wrapped else client.call("slow")
    leaving = asyncio.create_task(call)
    gate = asyncio.Event()
    setup.upstream.answers["other"] = held(gate, result({"content": []}))
    staying = asyncio.create_task(setup.modern().call("other"))
    received = await setup.upstream.arrival("slow")
    other = await setup.upstream.arrival("other")
    leaving.cancel()
    await asyncio.wait_for(received.gone.wait(), WITHIN_S)
    assert not other.gone.is_set()
    gate.set()
    assert (await staying).status == 200


@pytest.mark.parametrize("accept", [JSON, EVENTS])
@pytest.mark.parametrize("has_begun", [False, True], ids=["before the head", "in the stream"])
async def test_a_session_client_that_disconnects_does_not_cancel_its_call(
    setup: RegisteredSetup, accept: str, has_begun: bool
) -> None:
    """In a session, a disconnect is no cancellation; the id stays pending until the call is done."""
    client = await setup.legacy(accept=accept)
    gate = asyncio.Event()
    response = event(b'{"jsonrpc":"2.0","id":%(id)s,"result":{"content":[]}}')
    done = stream(event(PROGRESS), gate, response) if has_begun else held(gate, result({"content": []}))
    setup.upstream.answers["slow"] = done
    begun = asyncio.Event()
    leaving = asyncio.create_task(read(client, 5, begun))
    received = await setup.upstream.arrival("slow")
    if has_begun and accept == EVENTS:
        await asyncio.wait_for(begun.wait(), WITHIN_S)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert (await client.ask("ping", identity=5)).status == 400, "still in flight"
    assert not received.gone.is_set()
    gate.set()
    async with asyncio.timeout(WITHIN_S):
        while (await client.ask("ping", identity=5)).status == 400:
            await asyncio.sleep(0.01)
    assert not received.gone.is_set()
    assert len(setup.upstream.called("slow")) == 1


@pytest.mark.parametrize("accept", [JSON, EVENTS])
@pytest.mark.parametrize("identity", [5, "five é"])
@pytest.mark.parametrize("has_begun", [False, True], ids=["before the head", "in the stream"])
async def test_a_cancel_notification_ends_the_call_without_a_response(
    setup: RegisteredSetup, accept: str, identity: Any, has_begun: bool
) -> None:
    """The server sees it within a second; no response follows; the id is free again."""
    client = await setup.legacy(accept=accept)
    setup.upstream.answers["slow"] = STARTED if has_begun else never
    begun = asyncio.Event()
    call = asyncio.create_task(read(client, identity, begun))
    received = await setup.upstream.arrival("slow")
    if has_begun and accept == EVENTS:
        await asyncio.wait_for(begun.wait(), WITHIN_S)
    await cancel(client, identity)
    await asyncio.wait_for(received.gone.wait(), WITHIN_S)
    seen = [PROGRESS] if has_begun and accept == EVENTS else []
    assert await asyncio.wait_for(call, WITHIN_S) == seen
    assert (await client.call("echo", identity=identity)).result["content"]


async def test_a_cancel_notification_affects_only_its_session_and_id(setup: RegisteredSetup) -> None:
    """The same id elsewhere, the number spelt as text, and rubbish end nothing."""
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": []}))
    client, other = await setup.legacy(), await setup.legacy()
    call = asyncio.create_task(client.call("slow", identity=5))
    received = await setup.upstream.arrival("slow")
    await cancel(other, 5)
    for identity in ("5", 6, None, [5], {"id": 5}, 5.0, True):
        await cancel(client, identity)
    assert (await client.notify(names.CANCELLED)).status == 202
    assert (await client.notify(names.CANCELLED, {})).status == 202
    gate.set()
    assert (await call).result == {"content": []}
    assert not received.gone.is_set()


async def test_deleting_a_session_cancels_its_calls(setup: RegisteredSetup) -> None:
    client = await setup.legacy()
    setup.upstream.answers["slow"] = never
    call = asyncio.create_task(client.call("slow"))
    received = await setup.upstream.arrival("slow")
    sent = {headers.SESSION: client.session or ""}
    async with setup.http.delete(client.url, headers=sent) as response:
        assert json.loads(await response.read())["deleted"] is True
    await asyncio.wait_for(received.gone.wait(), WITHIN_S)
    assert (await asyncio.wait_for(call, WITHIN_S)).body == b""


async def test_cancelled_calls_free_their_places(tmp_path: Path) -> None:
    """The slot is free; admission counts only what runs."""
    async with registered_setup(tmp_path, workspace_in_flight_limit=5) as setup:
        setup.upstream.answers["slow"] = never
        for _ in range(3):
            calls = [asyncio.create_task(setup.modern().call("slow")) for _ in range(5)]
            before = len(setup.upstream.called("slow"))
            async with asyncio.timeout(5):
                while len(setup.upstream.called("slow")) < before + 5:
                    await asyncio.sleep(0.005)
            refused = (await setup.modern().call("echo")).refusal
            assert (refused["code"], refused["delivered"]) == (47105, "no")
            assert refused["retryAfterMs"] > 0
            for call in calls:
                call.cancel()
            async with asyncio.timeout(WITHIN_S):
                for received in setup.upstream.called("slow"):
                    await received.gone.wait()
        assert (await setup.modern().call("echo")).result["content"]
