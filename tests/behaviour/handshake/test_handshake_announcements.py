"""Announcing changed lists to a session: when, and on which stream."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from lm_tools_bridge.protocol import names, sse
from support.clients.raw_clients import BOTH, EVENTS, JSON
from support.http.event_stream import is_silent, next_methods
from support.processes.timeouts import within
from support.projects.registered_setup import registered_setup

CHANGED = [names.RESOURCES_CHANGED, names.PROMPTS_CHANGED, names.TOOLS_CHANGED]
TOOLS = [{"name": "a", "inputSchema": {"properties": {"q": {}}}}]


async def test_the_server_stream_is_notified_before_the_answer(
    tmp_path: Path,
) -> None:
    """On the stream, not on the call; the answer follows the client's next tools/list."""
    async with registered_setup(tmp_path, announce_hold_s=10) as setup:
        setup.upstream.tools = TOOLS
        client = await setup.legacy(bound=False, accept=EVENTS)
        async with client.stream() as stream:
            handshake = asyncio.create_task(client.handshake(setup.upstream.root))
            assert await next_methods(stream, 3) == CHANGED
            assert not handshake.done()
            listed = await client.ask(names.TOOLS_LIST)
            assert [tool["name"] for tool in listed.result["tools"]][2:] == ["a"]
            answer = await asyncio.wait_for(handshake, 1)
            assert len(answer.messages) == 1


async def test_the_answer_waits_for_a_new_list_only_for_a_limited_time(tmp_path: Path) -> None:
    """For clients that never list again."""
    async with registered_setup(tmp_path, announce_hold_s=0.3) as setup:
        setup.upstream.tools = TOOLS
        client = await setup.legacy(bound=False)
        async with client.stream() as stream:
            began = time.monotonic()
            answer = await client.handshake(setup.upstream.root)
            assert 0.3 <= time.monotonic() - began < within(0.8)
            assert await next_methods(stream, 3) == CHANGED
    assert not answer.is_stream


async def test_without_a_server_stream_the_calls_own_is_notified(tmp_path: Path) -> None:
    """In this order, then the result."""
    async with registered_setup(tmp_path) as setup:
        setup.upstream.tools = TOOLS
        client = await setup.legacy(bound=False, accept=BOTH)
        answer = await client.handshake(setup.upstream.root)
        assert [one.get("method") for one in answer.messages] == [*CHANGED, None]
        assert answer.payload["ok"] is True
        async with client.stream() as stream:
            assert await is_silent(stream)


async def test_the_calls_own_stream_is_notified_before_the_answer(tmp_path: Path) -> None:
    """The notifications are flushed, the result follows the new list."""
    async with registered_setup(tmp_path, announce_hold_s=10) as setup:
        setup.upstream.tools = TOOLS
        client = await setup.legacy(bound=False)
        params = {"name": names.HANDSHAKE, "arguments": {"cwd": str(setup.upstream.root)}}
        async with asyncio.timeout(5), client.open(client.body(names.TOOLS_CALL, params, 1)) as response:
            assert await next_methods(response, 3) == CHANGED
            await client.ask(names.TOOLS_LIST)
            (last,) = sse.Decoder().feed(await response.content.read())
            assert json.loads(last.data)["id"] == 1


async def test_a_json_only_client_is_notified_on_its_next_server_stream(tmp_path: Path) -> None:
    """Plain JSON, no delay, nothing lost and nothing said twice."""
    async with registered_setup(tmp_path, announce_hold_s=10) as setup:
        setup.upstream.tools = TOOLS
        client = await setup.legacy(bound=False, accept=JSON)
        answer = await asyncio.wait_for(client.handshake(setup.upstream.root), within(1))
        assert not answer.is_stream
        async with client.stream() as stream:
            assert await next_methods(stream, 3) == CHANGED
        async with client.stream() as stream:
            assert await is_silent(stream)


async def test_unchanged_lists_are_not_announced(tmp_path: Path) -> None:
    """No notification, no delay; not for a workspace without tools, not the second time."""
    async with registered_setup(tmp_path, announce_hold_s=10) as setup:
        client = await setup.legacy(bound=False)
        empty = await asyncio.wait_for(client.handshake(setup.upstream.root), within(1))
        assert not empty.is_stream
        setup.upstream.tools = TOOLS
        await client.ask(names.TOOLS_LIST)
        again = await asyncio.wait_for(client.handshake(setup.upstream.root), within(1))
        assert not again.is_stream
        async with client.stream() as stream:
            assert await is_silent(stream)


async def test_only_the_session_that_rebound_is_notified(tmp_path: Path) -> None:
    """A server message goes on exactly one stream."""
    async with registered_setup(tmp_path) as setup:
        setup.upstream.tools = TOOLS
        client, other = await setup.legacy(bound=False), await setup.legacy(bound=False)
        async with client.stream() as mine, other.stream() as theirs:
            await client.handshake(setup.upstream.root)
            assert await next_methods(mine, 3) == CHANGED
            assert await is_silent(theirs)
