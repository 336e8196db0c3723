"""Remote servers that forget sessions, are busy for a moment, restart or change revision: callers do not notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lm_tools_bridge.protocol.errors import Refusal
from support.processes.timeouts import within
from support.servers.mcp_sources.remote_server import (
    Answerer,
    Received,
    ScriptedRemoteServer,
    fake_remote,
    status,
)
from support.servers.mcp_sources.remote_source import MakeSource, call

ERAS = {
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": []},
}


async def forgotten(got: Received) -> Any:
    """What servers answer that end sessions after a while."""
    return got.error(-32001, "Session not found", 404)


@pytest.mark.parametrize("busy", [503, 429])
async def test_a_forgotten_session_is_replaced_even_if_the_server_is_busy_at_first(
    fake: ScriptedRemoteServer, make_source: MakeSource, busy: int
) -> None:
    """It has no room for another session for a second, and says so."""
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [forgotten, fake.default]
    fake.answers["initialize"] = [status(busy, Retry_After="1"), fake.default]
    assert (await call(source, caller="c"))["content"]
    assert (fake.sessions, fake.count("tools/call"), source.state) == (2, 2, "ready")


async def test_many_calls_in_a_forgotten_session_open_one_new_session(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    async def in_second(got: Received) -> Any:
        is_known = got.request.headers["Mcp-Session-Id"] == "session-2"
        return await (fake.default if is_known else forgotten)(got)

    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [in_second]
    results = await asyncio.gather(*(call(source, "echo", {"n": n}, caller="c") for n in range(20)))
    assert all("content" in result for result in results)
    assert (fake.sessions, fake.count("tools/call")) == (2, 40)


async def test_a_busy_server_that_asks_for_longer_is_not_waited_for(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [forgotten, fake.default]
    fake.answers["initialize"] = [status(503, Retry_After="60")]
    refusal = await call(source, caller="c")
    assert isinstance(refusal, Refusal)
    assert refusal.delivered == "no"
    assert refusal.retry_after_ms is not None and 59_000 < refusal.retry_after_ms <= 60_000
    assert fake.count("initialize") == 2


async def test_a_throttled_call_is_sent_again_after_the_pause(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [status(429, Retry_After="1"), fake.default]
    began = asyncio.get_running_loop().time()
    assert (await call(source, caller="c"))["content"]
    assert asyncio.get_running_loop().time() - began >= 1
    assert fake.count("tools/call") == 2


async def test_a_server_that_restarts_is_reconnected_to_within_a_call(make_source: MakeSource) -> None:
    async with fake_remote() as first:
        source = make_source(first.url)
        await source.list_tools()
        port = first.port
    calling = asyncio.create_task(call(source, caller="c"))
    async with asyncio.timeout(within(3)):
        while source.state != "backoff":
            await asyncio.sleep(0)
    async with fake_remote(port=port) as second:
        assert (await calling)["content"]
        assert second.count("tools/call") == 1


@pytest.mark.parametrize("answer", [status(503), status(500), status(404)], ids=["503", "500", "404"])
async def test_one_failed_list_takes_no_server_down(
    fake: ScriptedRemoteServer, make_source: MakeSource, answer: Answerer
) -> None:
    """Lists are read again every minute; calls and the known tools go on."""
    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/list"] = [answer, fake.default]
    await source.refresh()
    async with asyncio.timeout(within(3)):
        while fake.count("tools/list") < 2 or not source.lists.tools.settled.is_set():
            await asyncio.sleep(0.01)
    assert source.state == "ready"
    assert [tool.name for tool in await source.list_tools()] == ["echo"]
    assert (await call(source, caller="c"))["content"]


@pytest.mark.parametrize("code", [307, 308])
async def test_every_request_of_a_session_may_be_redirected_within_the_origin(
    fake: ScriptedRemoteServer, make_source: MakeSource, code: int
) -> None:
    """Web frameworks redirect `/mcp` to `/mcp/`."""

    async def redirecting(got: Received) -> Any:
        is_there = got.request.path.endswith("/")
        return await (fake.default if is_there else status(code, Location="/mcp/"))(got)

    for method in (
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "DELETE",
    ):
        fake.answers[method] = [redirecting]
    source = make_source(fake.url)
    assert len(await source.list_tools()) == 1
    assert (await call(source, caller="c"))["content"]
    await source.close()
    there = [one.method for one in fake.received if one.request.path == "/mcp/"]
    assert {"initialize", "tools/list", "tools/call", "DELETE"} <= set(there)


async def test_a_server_that_returns_to_an_older_revision_is_asked_for_it_again(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """The call that noticed is repeated in a session."""

    async def stateless(got: Received) -> Any:
        return got.result({**ERAS[got.method], "resultType": "complete"})

    async def discovered(got: Received) -> Any:
        return got.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})

    async def without_session(got: Received) -> Any:
        if "Mcp-Session-Id" in got.request.headers:
            return await fake.default(got)
        return got.error(-32000, "Bad Request: Missing session ID", 400, None)

    fake.answers.update(
        {"server/discover": [discovered], "tools/list": [stateless], "tools/call": [stateless]}
    )
    source = make_source(fake.url)
    await source.list_tools()
    assert (await call(source, caller="c"))["content"] == []
    fake.answers.update(
        {method: [without_session] for method in ("server/discover", "tools/list", "tools/call")}
    )
    assert (await call(source, caller="c"))["content"] != []
    assert (fake.sessions, source.status()["era"], source.state) == (1, "legacy", "ready")
