"""Calls between members over a real NATS server: answers, streams, cancellation, several hosts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientTimeout

from lm_tools_bridge.protocol import names
from lm_tools_bridge.team.calls.exposure import META_TEAM
from lm_tools_bridge.team.calls.gate import CALLS_OF_ONE
from lm_tools_bridge.team.registry.reader import FRESH_S
from support.clients.stateless_requests import body_of, headers_of
from support.projects.team_members import TeamCaller, TeamHost, team_caller, team_host, until_seen
from support.servers.network.nats_servers import NatsServer, running_nats

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nats(nats_program: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with running_nats(nats_program, tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(nats: NatsServer) -> AsyncIterator[TeamHost]:
    async with team_host((nats.url,), "alice") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(nats: NatsServer, host: TeamHost) -> AsyncIterator[TeamCaller]:
    async with team_caller((nats.url,), hosts=("alice",)) as running:
        await until_seen(running.member, "alice")
        yield running


async def test_tools_are_listed_and_say_where_they_come_from(caller: TeamCaller) -> None:
    tools = (await caller.answer(names.TOOLS_LIST))["result"]["tools"]
    assert [one["name"] for one in tools] == ["read", "write", "slow", "big", "stream"]
    assert all(one["_meta"][META_TEAM] == {"host": "alice", "offer": "docs"} for one in tools)


async def test_a_call_is_answered_under_its_own_id(caller: TeamCaller, host: TeamHost) -> None:
    answer = await caller.call("write", id="first")
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "x")
    assert host.workspace.executed["first"] == 1


async def test_the_host_sees_who_calls(caller: TeamCaller, host: TeamHost) -> None:
    await caller.call("read")
    meta = host.workspace.seen["params"]["_meta"]
    assert (meta[names.META_CLIENT]["name"], meta[names.META_CAPABILITIES]) == ("team:caller", {})
    assert host.member.host_calls.answered["caller"] >= 1


async def test_an_answer_larger_than_a_message_arrives_whole(caller: TeamCaller) -> None:
    answer = await caller.call("big", size=10_000_000)
    assert len(answer["result"]["content"][0]["text"]) == 10_000_000


async def test_events_arrive_in_order_and_none_is_lost(caller: TeamCaller) -> None:
    body = body_of(names.TOOLS_CALL, {"name": "stream", "arguments": {"count": 5000}})
    async with caller.http.post(
        caller.url, data=json.dumps(body), headers=headers_of(body, None)
    ) as response:
        assert response.content_type == "text/event-stream"
        lines = [line async for line in response.content if line.startswith(b"data:")]
    progress = [json.loads(line[5:])["params"]["progress"] for line in lines[:-1]]
    assert progress == list(range(5000))
    assert json.loads(lines[-1][5:])["id"] == 1


async def test_a_caller_that_reads_slowly_loses_nothing(caller: TeamCaller) -> None:
    body = body_of(names.TOOLS_CALL, {"name": "big", "arguments": {"size": 30_000_000}})
    size = 0
    async with caller.http.post(
        caller.url, data=json.dumps(body), headers=headers_of(body, None)
    ) as response:
        await asyncio.sleep(0.5)
        async for chunk in response.content.iter_chunked(1_000_000):
            size += len(chunk)
    assert size > 30_000_000


async def test_a_caller_that_leaves_cancels_its_call(caller: TeamCaller, host: TeamHost) -> None:
    host.workspace.running.clear()
    before = host.workspace.cancelled
    task = asyncio.create_task(caller.call("slow"))
    async with asyncio.timeout(10):
        await host.workspace.running.wait()
        task.cancel()
        while host.workspace.cancelled == before or host.member.host_calls.gate.in_flight:
            await asyncio.sleep(0.02)
    assert caller.member.calls.in_flight == Counter()


async def test_tools_that_are_not_offered_cannot_be_called(caller: TeamCaller, host: TeamHost) -> None:
    answer = await caller.call("execute_tool", name="write", arguments={"id": "hidden"})
    assert answer["error"]["code"] == -32602
    assert host.workspace.executed["hidden"] == 0


@pytest.mark.parametrize("method", ["subscriptions/listen", "initialize", "logging/setLevel", "nonsense"])
async def test_what_is_not_carried_is_refused_clearly(caller: TeamCaller, method: str) -> None:
    answer = await caller.answer(method)
    assert answer["error"]["code"] == -32601
    assert "not carried" in answer["error"]["message"]


async def test_a_request_larger_than_a_message_is_refused(caller: TeamCaller) -> None:
    answer = await caller.call("write", id="x" * 1_045_000)
    assert "has at most" in answer["error"]["message"]


async def test_a_doubled_message_runs_nothing_twice(caller: TeamCaller, host: TeamHost) -> None:
    """As a faulty network or a hostile member would send it."""
    client = caller.member.connection.client
    body = body_of(names.TOOLS_CALL, {"name": "write", "arguments": {"id": "doubled"}})
    headers = {"Lmtb-Call": "ab" * 16, "Lmtb-At-Once": "1"}
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    for _ in range(3):
        await client.publish(
            "lmtb.call.alice.docs.caller", json.dumps(body).encode(), reply=inbox, headers=headers
        )
    said = [(await subscription.next_msg(5)).headers for _ in range(4)]
    parts = Counter(one["Lmtb-Part"] for one in said)
    assert parts == {"accepted": 1, "refused": 2, "whole": 1}
    assert host.workspace.executed["doubled"] == 1
    await subscription.unsubscribe()


async def test_a_flood_of_one_member_leaves_room_for_others(caller: TeamCaller, host: TeamHost) -> None:
    client = caller.member.connection.client
    body = json.dumps(body_of(names.TOOLS_CALL, {"name": "slow", "arguments": {}})).encode()
    for number in range(200):
        headers = {"Lmtb-Call": f"{number:032x}"}
        await client.publish("lmtb.call.alice.docs.mallory", body, reply="_INBOX_mallory.x", headers=headers)
    assert "result" in await caller.call("read")
    assert host.member.host_calls.gate.in_flight <= CALLS_OF_ONE


async def test_messages_that_are_none_are_ignored(caller: TeamCaller) -> None:
    client = caller.member.connection.client
    for headers in (None, {"Lmtb-Call": "x"}, {"Lmtb-Call": "0" * 32, "Lmtb-Deadline": "nan"}):
        await client.publish("lmtb.call.alice.docs.m", b"\xff{", headers=headers)
        await client.publish("lmtb.control.alice.m", b"", headers=headers)
    assert "result" in await caller.call("read")


async def test_an_offer_that_is_withdrawn_is_gone(nats: NatsServer, host: TeamHost) -> None:
    async with team_host((nats.url,), "short") as short, team_caller((nats.url,), "c2", ("short",)) as caller:
        await until_seen(caller.member, "alice", "short")
        assert "result" in await caller.call("read")
        await short.member.close()
        await until_seen(caller.member, "alice")
        answer = await caller.call("read")
    assert (answer["error"]["code"], answer["error"]["data"]["delivered"]) == (47109, "no")


async def test_calls_go_to_the_host_with_the_least_in_flight(nats: NatsServer, host: TeamHost) -> None:
    async with (
        team_host((nats.url,), "b1") as one,
        team_host((nats.url,), "b2") as two,
        team_caller((nats.url,), "c3", ("b1", "b2")) as caller,
    ):
        await until_seen(caller.member, "alice", "b1", "b2")
        calls = [caller.call("write", id=f"spread{number}", takes=0.3) for number in range(16)]
        assert all("result" in one for one in await asyncio.gather(*calls))
        counts = [len(one.workspace.executed), len(two.workspace.executed)]
    assert sum(counts) == 16
    assert min(counts) >= 6


async def test_a_host_that_drains_ends_its_calls_and_gets_no_new_ones(
    nats: NatsServer, host: TeamHost
) -> None:
    async with (
        team_host((nats.url,), "d1") as one,
        team_host((nats.url,), "d2") as two,
        team_caller((nats.url,), "c4", ("d1", "d2")) as caller,
    ):
        await until_seen(caller.member, "alice", "d1", "d2")
        calls = [asyncio.create_task(caller.call("slow")) for _ in range(2)]
        async with asyncio.timeout(10):
            await one.workspace.running.wait()
            await two.workspace.running.wait()
        draining = asyncio.create_task(one.member.drain(10))
        await asyncio.sleep(FRESH_S + 0.1)
        for number in range(4):
            assert "result" in await caller.call("write", id=f"after{number}")
        assert not draining.done()
        one.workspace.may_end.set()
        two.workspace.may_end.set()
        assert all("result" in answer for answer in await asyncio.gather(*calls))
        await draining
    assert (len(one.workspace.executed), len(two.workspace.executed)) == (0, 4)


async def test_hosts_that_were_not_accepted_get_nothing(nats: NatsServer, host: TeamHost) -> None:
    """Another member offers something under the same name."""
    async with (
        team_host((nats.url,), "squatter") as other,
        team_caller((nats.url,), "c5", ("alice",)) as caller,
    ):
        await until_seen(caller.member, "alice", "squatter")
        for _ in range(5):
            assert "result" in await caller.call("read")
        await host.member.publisher.leave(host.member.connection.client)
        await until_seen(caller.member, "squatter")
        assert (await caller.call("read"))["error"]["code"] == 47109
    assert other.workspace.seen == {}
    host.member.publisher.renew()


async def test_a_member_is_found_by_the_tools_of_nats(caller: TeamCaller, host: TeamHost) -> None:
    client = caller.member.connection.client
    found = json.loads((await client.request("$SRV.PING.lmtb", b"", timeout=5)).data)
    assert (found["name"], found["type"]) == ("lmtb", "io.nats.micro.v1.ping_response")
    assert found["metadata"]["host"]


async def test_an_unanswered_call_is_not_waited_for_for_ever(caller: TeamCaller) -> None:
    with pytest.raises(TimeoutError):
        body = body_of(names.TOOLS_CALL, {"name": "slow", "arguments": {}})
        limits = ClientTimeout(total=0.5)
        async with caller.http.post(
            caller.url, data=json.dumps(body), headers=headers_of(body, None), timeout=limits
        ) as response:
            await response.read()
