"""What a client gets when its workspace server fails; no call is sent twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientPayloadError

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import EVENTS, JSON, Client
from support.processes.timeouts import within
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import (
    Answerer,
    broken_off,
    cut,
    event,
    fixed,
    held,
    never,
    result,
    stream,
)

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
PROGRESS = {"jsonrpc": "2.0", "method": names.PROGRESS, "params": {"progressToken": 1, "progress": 1}}
HALF = b'{"jsonrpc":"2.0","id":%(id)s,"result":{"content":['


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


async def client_of(setup: RegisteredSetup, era: str, accept: str | None = f"{JSON}, {EVENTS}") -> Client:
    return await setup.legacy(accept=accept) if era == "legacy" else setup.modern(accept=accept)


@ERAS
@pytest.mark.parametrize(
    ("unusable", "status"),
    [
        (fixed(b"<html>Bad Gateway</html>", 502, "text/html"), 502),
        (fixed(b"<html>hello</html>", 200, "text/html"), 200),
        (fixed(b"Internal Server Error", 500, "text/plain"), 500),
        (fixed(b"{broken", 500), 500),
        (fixed(b"not json", 200), 200),
        (fixed(b'{"hello":"world"}', 200), 200),
        (fixed(b"[]", 200), 200),
        (fixed(b"", 200), 200),
        (fixed(b"", 202), 202),
        (fixed(b'{"jsonrpc":"2.0","method":"notifications/x"}', 200), 200),
    ],
    ids=[
        "html 502",
        "html",
        "plain 500",
        "broken",
        "no JSON",
        "no JSON-RPC",
        "array",
        "empty",
        "202",
        "notification",
    ],
)
async def test_a_response_that_is_not_mcp_becomes_an_internal_error(
    setup: RegisteredSetup, era: str, unusable: Answerer, status: int
) -> None:
    client = await client_of(setup, era)
    setup.upstream.answers["odd"] = unusable
    answer = await client.call("odd")
    assert answer.status == 200
    assert answer.error["code"] == -32603
    assert answer.error["data"]["reason"] == "invalid_upstream_answer"
    assert answer.error["data"]["delivered"] == "unknown"
    assert answer.error["data"]["details"]["httpStatus"] == status


@ERAS
@pytest.mark.parametrize("accept", [JSON, EVENTS, f"{JSON}, {EVENTS}"])
async def test_a_stream_without_a_response_ends_with_an_error(
    setup: RegisteredSetup, era: str, accept: str
) -> None:
    """Nobody is left waiting for an id that never comes."""
    client = await client_of(setup, era, accept)
    setup.upstream.answers["odd"] = stream(event(PROGRESS))
    answer = await client.call("odd")
    assert answer.error["code"] == -32603
    assert answer.error["data"]["reason"] == "invalid_upstream_answer"


@ERAS
@pytest.mark.parametrize("accept", [JSON, EVENTS, f"{JSON}, {EVENTS}"])
@pytest.mark.parametrize(
    "death",
    [broken_off(HALF, 1000), broken_off(b"", 1000), cut(event(PROGRESS)), cut(event(PROGRESS)[:20])],
    ids=["half a body", "no body", "after an event", "inside an event"],
)
async def test_a_servers_death_fails_the_call_at_once_without_a_repeat(
    setup: RegisteredSetup, era: str, accept: str, death: Answerer
) -> None:
    client = await client_of(setup, era, accept)
    setup.upstream.answers["dies"] = death
    began = time.monotonic()
    answer = await client.call("dies")
    assert time.monotonic() - began < within(0.5)
    assert answer.refusal["code"] == 47103
    assert answer.refusal["reason"] == "workspace_server_died"
    assert answer.refusal["message"] == "workspace server died during the call"
    assert answer.refusal["delivered"] == "unknown"
    assert len(setup.upstream.called("dies")) == 1


@ERAS
async def test_a_stream_cut_after_its_response_is_not_answered_twice(
    setup: RegisteredSetup, era: str
) -> None:
    """One response a request, whatever the connection does afterwards."""
    client = await client_of(setup, era)
    response = b'{"jsonrpc":"2.0","id":77,"result":{"content":[]}}'
    setup.upstream.answers["dies"] = cut(event(PROGRESS) + event(response) + b": bye\n\n")
    answer = await client.call("dies", identity=77)
    assert answer.messages == [PROGRESS, json.loads(response)]


@ERAS
@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_a_servers_death_is_a_json_rpc_error_for_other_methods(
    setup: RegisteredSetup, era: str, method: str
) -> None:
    """Refusal shape: the same words as data of an error."""
    client = await client_of(setup, era)
    setup.upstream.answers[method] = broken_off(HALF, 1000)
    answer = await client.ask(method, {names.NAMED_PARAM[method]: "x"})
    assert answer.status == 200
    assert answer.error["code"] == 47103
    assert answer.error["data"]["delivered"] == "unknown"
    assert answer.error["message"].endswith(f"Next step: {answer.error['data']['nextStep']}.")


@ERAS
async def test_a_large_body_that_breaks_off_is_never_taken_as_complete(
    setup: RegisteredSetup, era: str
) -> None:
    """An answer, or an unclean end, but nothing that can be parsed as the result."""
    client = await client_of(setup, era)
    setup.upstream.answers["dies"] = broken_off(HALF + b" " * 3_000_000, 6_000_000)
    try:
        answer = await client.call("dies")
    except ClientPayloadError:
        assert era == "modern"
    else:
        assert answer.refusal["code"] == 47103
    assert len(setup.upstream.called("dies")) == 1
    assert (await client.call("echo")).result["content"]


@ERAS
@pytest.mark.parametrize("accept", [JSON, EVENTS, f"{JSON}, {EVENTS}"])
@pytest.mark.parametrize("announced", [True, False], ids=["json", "stream"])
async def test_a_response_above_the_limit_is_refused(
    tmp_path: Path, era: str, accept: str, announced: bool
) -> None:
    """47106; other calls are unaffected."""
    big = json.dumps({"content": [{"type": "text", "text": "x" * 2_000_000}]}).encode()
    async with registered_setup(tmp_path, response_limit=65_536) as setup:
        client = await client_of(setup, era, accept)
        streamed = event(b'{"jsonrpc":"2.0","id":%(id)s,"result":' + big + b"}")
        setup.upstream.answers["big"] = result(big) if announced else stream(streamed)
        refusal = (await client.call("big")).refusal
        assert refusal["code"] == 47106
        assert refusal["reason"] == "response_too_large"
        assert refusal["message"].startswith("response too large")
        assert (await client.call("echo")).result["content"]


@ERAS
@pytest.mark.parametrize(
    "silence",
    [never, stream(None), stream(event(PROGRESS), None)],
    ids=["no head", "no event", "no response"],
)
async def test_the_deadline_ends_a_call_and_cancels_it_upstream(
    tmp_path: Path, era: str, silence: Answerer
) -> None:
    """Other calls go on."""
    async with registered_setup(tmp_path, call_timeout_s=0.25) as setup:
        client = await client_of(setup, era)
        setup.upstream.answers["hangs"] = silence
        began = time.monotonic()
        hung = asyncio.create_task(client.call("hangs"))
        received = await setup.upstream.arrival("hangs")
        assert (await client.call("echo")).result["content"]
        refusal = (await hung).refusal
        assert 0.2 < time.monotonic() - began < within(1.0)
        assert refusal["code"] == 47104
        assert refusal["message"] == "call timed out after 0.25 s"
        assert refusal["delivered"] == "unknown"
        await asyncio.wait_for(received.gone.wait(), within(1))
        assert len(setup.upstream.called("hangs")) == 1


async def test_a_second_request_with_a_pending_id_is_refused(setup: RegisteredSetup) -> None:
    """At once, and the first is unharmed; afterwards the id is free."""
    client = await setup.legacy()
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": [], "n": 1}))
    first = asyncio.create_task(client.call("slow", identity=5))
    await setup.upstream.arrival("slow")
    for body in (client.body("ping", {}, 5), client.body("tools/call", {"name": "echo"}, 5)):
        second = await client.post(body)
        assert (second.status, second.error["code"], second.message["id"]) == (400, -32600, 5)
    assert (await client.call("echo", identity="5")).result["content"], "a string is another id"
    gate.set()
    assert (await first).result["n"] == 1
    assert (await client.call("echo", identity=5)).result["content"]


async def test_two_sessions_can_use_the_same_id(setup: RegisteredSetup) -> None:
    """Ids belong to their session."""
    gate = asyncio.Event()
    setup.upstream.answers["slow"] = held(gate, result({"content": []}))
    one, other = await setup.legacy(), await setup.legacy()
    first = asyncio.create_task(one.call("slow", identity=5))
    await setup.upstream.arrival("slow")
    assert (await other.call("echo", identity=5)).result["content"]
    assert (await setup.modern().call("echo", identity=5)).result["content"]
    gate.set()
    assert (await first).status == 200
