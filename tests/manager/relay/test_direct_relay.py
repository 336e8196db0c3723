"""Calls relayed without a task get the same answers as in a task, whatever the workspace server does."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from lm_tools_bridge.protocol import names
from manager.answers.upstream_request import PreparedCall
from manager.relay import direct_relay
from manager.supervision import workspaces
from support.clients.raw_clients import BOTH, EVENTS, JSON, Answer, Client
from support.http.client_connection import connected
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import ANSWERS
from support.servers.scripted.scripted_workspace_server import COMPLETE, held, never, result

pytestmark = pytest.mark.asyncio(loop_scope="module")
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspaces, "ROOT_CHECK_S", 60)  # no checks of roots during a test
        async with registered_setup(tmp_path_factory.mktemp("express")) as running:
            running.upstream.answers |= ANSWERS
            yield running


async def client_of(setup: RegisteredSetup, era: str, accept: str | None = BOTH) -> Client:
    return setup.modern(accept=accept) if era == "modern" else await setup.legacy(accept=accept)


def same(answer: Answer) -> tuple[int, dict[str, str], Any]:
    """The parts that must be equal: not date, session id and framing of the body."""
    fields = {name.lower(): value for name, value in answer.headers.items()}
    others = ("date", "mcp-session-id", "content-length", "transfer-encoding")
    kept = {name: value for name, value in fields.items() if name not in others}
    if answer.is_stream:
        return answer.status, kept, answer.messages
    return answer.status, kept, answer.body


def sent_directly(monkeypatch: pytest.MonkeyPatch, *, is_enabled: bool = True) -> list[str]:
    """Collect the methods that are sent without a task from now on; not `is_enabled`: prevent that."""
    sent: list[str] = []
    original = PreparedCall.send_now

    def send_now(self: PreparedCall) -> bool:
        is_sent = is_enabled and original(self)
        if is_sent:
            sent.append(self.exchange.message.method)
        return is_sent

    monkeypatch.setattr(PreparedCall, "send_now", send_now)
    return sent


@ERAS
@pytest.mark.parametrize("accept", [BOTH, JSON, EVENTS])
async def test_answers_are_the_same_with_and_without_a_task(
    era: str, accept: str, setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status, header fields and bytes."""
    client = await client_of(setup, era, accept)
    slow: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        sent_directly(patch, is_enabled=False)
        for name in ANSWERS:
            slow[name] = same(await client.call(name, identity=7))
    sent = sent_directly(monkeypatch)
    for name in ANSWERS:
        assert same(await client.call(name, identity=7)) == slow[name], name
    assert bool(sent) is (accept != EVENTS)


@ERAS
async def test_the_server_gets_the_same_request_with_and_without_a_task(
    era: str, setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await client_of(setup, era)
    client.extra = {"Traceparent": "00-1-2-03", "X-MCP-Tool-Mode": "all", "Cookie": "secret"}
    for is_enabled in (False, True):
        with monkeypatch.context() as patch:
            sent_directly(patch, is_enabled=is_enabled)
            await client.call("small", {"a": 1}, identity=7)
    slow, fast = setup.upstream.called("small")[-2:]
    assert (fast.body, fast.target, fast.headers) == (slow.body, slow.target, slow.headers)


@pytest.mark.parametrize(
    "body",
    [
        {"method": names.TOOLS_CALL, "params": {"name": names.CALL_TOOL, "arguments": {"name": "small"}}},
        {"method": names.TOOLS_CALL, "params": {"name": names.HANDSHAKE, "arguments": {"cwd": "/"}}},
        {"method": names.TOOLS_LIST, "params": {}},
        {"method": names.RESOURCES_READ, "params": {"uri": names.URI_HANDSHAKE}},
        {"method": names.PING, "params": {}},
        {"method": "tasks/get", "params": {"taskId": "t"}},
    ],
    ids=str,
)
async def test_requests_that_the_manager_answers_run_in_a_task(
    body: dict[str, Any], setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await client_of(setup, "legacy")
    sent = sent_directly(monkeypatch)
    await client.post(json.dumps({"jsonrpc": "2.0", "id": 1, **body}).encode())
    assert sent == []


@ERAS
async def test_a_late_answer_is_relayed_by_a_task(
    era: str, setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_relay, "PATIENCE_S", 0.05)
    gate = asyncio.Event()
    setup.upstream.answers["late"] = held(gate, result(COMPLETE))
    client = await client_of(setup, era)
    await client.call("small")  # nothing has to be looked at now
    sent = sent_directly(monkeypatch)
    call = asyncio.create_task(client.call("late"))
    await asyncio.sleep(0.2)  # longer than PATIENCE_S
    gate.set()
    assert (await call).result["content"] == COMPLETE["content"]
    assert sent == [names.TOOLS_CALL]


@ERAS
@pytest.mark.parametrize("patience_s", [0.05, 5.0])
async def test_a_disconnect_cancels_only_a_stateless_clients_call(
    era: str, patience_s: float, setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the direct relay and in a task."""
    monkeypatch.setattr(direct_relay, "PATIENCE_S", patience_s)
    setup.upstream.answers[f"left-{era}-{patience_s}"] = never
    client = await client_of(setup, era)
    call = asyncio.create_task(client.call(f"left-{era}-{patience_s}"))
    received = await setup.upstream.arrival(f"left-{era}-{patience_s}")
    await asyncio.sleep(0.1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    if era == "modern":
        await asyncio.wait_for(received.gone.wait(), 5)
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(received.gone.wait(), 0.3)


@pytest.mark.parametrize("patience_s", [0.05, 5.0])
async def test_a_cancelled_call_of_a_session_gets_202_without_a_body(
    patience_s: float, setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_relay, "PATIENCE_S", patience_s)
    name = f"cancelled-{patience_s}"
    setup.upstream.answers[name] = never
    client = await client_of(setup, "legacy")
    call = asyncio.create_task(client.call(name, identity=77))
    received = await setup.upstream.arrival(name)
    await asyncio.sleep(0.1)
    body = {"jsonrpc": "2.0", "method": names.CANCELLED, "params": {"requestId": 77}}
    assert (await client.post(json.dumps(body).encode())).status == 202
    assert ((answer := await call).status, answer.body) == (202, b"")
    await asyncio.wait_for(received.gone.wait(), 5)
    assert (await client.call("small", identity=77)).status == 200  # the id is free again


async def test_a_session_that_ends_during_a_disconnect_cancels_its_call(
    setup: RegisteredSetup,
) -> None:
    """The task that continues the call is cancelled before its first step."""
    before = await in_flight(setup)
    setup.upstream.answers["left at the end"] = never
    client = await connected(setup, "legacy", "left at the end")
    async with client.other() as other:
        client.writer.write(client.request(client.body("left at the end")))
        received = await setup.upstream.arrival("left at the end")
        client.writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        ending = other.head(0).replace(b"POST", b"DELETE", 1)
        assert (await other.send(ending)).status == 200
    await asyncio.wait_for(received.gone.wait(), 5)
    client.close()
    assert await in_flight(setup) == before


async def in_flight(setup: RegisteredSetup) -> int:
    """The number of calls in flight. Workspaces are in the status only once they were used."""
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
        return sum(one["inFlight"] for one in (await response.json())["workspaceDetails"])


async def test_an_id_that_is_in_flight_is_refused(setup: RegisteredSetup) -> None:
    gate = asyncio.Event()
    setup.upstream.answers["twice"] = held(gate, result(COMPLETE))
    client = await client_of(setup, "legacy")
    first = asyncio.create_task(client.call("twice", identity="x"))
    await setup.upstream.arrival("twice")
    assert (await client.call("twice", identity="x")).status == 400
    gate.set()
    assert (await first).status == 200


@ERAS
async def test_direct_calls_are_counted_in_the_status(era: str, setup: RegisteredSetup) -> None:
    """Nothing stays in flight."""
    client = await client_of(setup, era)
    before = await figures(setup)
    for name in ("small", "breaks off", "stream", "asks"):
        await client.call(name)
    after = await figures(setup)
    assert (after["calls"] - before["calls"], after["inFlight"]) == (4, before["inFlight"])


async def figures(setup: RegisteredSetup) -> dict[str, Any]:
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
        [shown] = (await response.json())["workspaceDetails"]
    return {key: shown[key] for key in ("calls", "inFlight")}
