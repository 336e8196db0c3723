"""Large results that pass to a session without being read, because the server says what is to be cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientPayloadError, web

from protocol import headers, names
from support.front_door import EVENTS, JSON
from support.plays import SERVER
from support.scene import Scene, scene
from support.scripted_upstream import COMPLETE, Received, result, trimmed

LARGE: dict[str, Any] = {**COMPLETE, "text": "\u00e9" + "x" * 3_000_000, "_meta": SERVER}
FORMS = pytest.mark.parametrize("accept", [JSON, EVENTS, f"{JSON}, {EVENTS}"])


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as running:
        yield running


@FORMS
async def test_a_session_gets_what_it_would_get_of_a_reader(play: Scene, accept: str) -> None:
    """M-89: without type of the result, and without who answered."""
    client = await play.legacy(accept=accept)
    play.upstream.plays |= {"trimmed": trimmed(LARGE), "read": result(json.dumps(LARGE).encode())}
    for _ in range(2):  # the second call comes by the way of calls that are known
        passed, read = await client.call("trimmed"), await client.call("read")
        assert passed.status == read.status == 200
        assert passed.is_stream == read.is_stream == (accept == EVENTS)
        assert passed.result == read.result
        assert passed.result.keys() == {"content", "text"}


async def test_it_keeps_its_bytes(play: Scene) -> None:
    client = await play.legacy()
    play.upstream.plays["t"] = trimmed(LARGE)
    answer = await client.call("t", identity="a")
    kept = {name: value for name, value in LARGE.items() if name not in ("resultType", "_meta")}
    text = json.dumps(kept, separators=(",", ":")).encode()
    assert answer.body == b'{"jsonrpc":"2.0","id":"a","result":%b}' % text
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert headers.TRIM not in answer.headers


def broken_off_after(count: int) -> Any:
    """So many bytes of a large response, of which a trim is said."""

    async def play(request: web.Request, received: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={headers.TRIM: "25 0"})
        response.content_type, response.content_length = JSON, 6_000_000
        await response.prepare(request)
        text = b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete",' % received.id
        await response.write((text + b" " * count)[:count])
        assert request.transport is not None
        request.transport.close()
        return response

    return play


async def test_one_that_breaks_off_is_never_taken_for_a_whole_one(play: Scene) -> None:
    """M-97: told where nothing is out yet, else an unclean end."""
    client = await play.legacy()
    play.upstream.plays["early"] = broken_off_after(20)
    answer = await client.call("early")
    assert (answer.refusal["code"], answer.refusal["delivered"]) == (47103, "unknown")
    play.upstream.plays["late"] = broken_off_after(3_000_000)
    with pytest.raises(ClientPayloadError):
        await client.call("late")
    assert (await client.call("echo")).result["content"]


@pytest.mark.parametrize("tool", ["t", names.CALL_TOOL])
async def test_one_that_is_cancelled_amid_its_body_ends_there(play: Scene, tool: str) -> None:
    """M-99: nothing more is said, least of all something that would be taken for the rest of the body."""
    client = await play.legacy()
    gate = asyncio.Event()

    async def half(request: web.Request, received: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={headers.TRIM: "25 0"})
        response.content_type, response.content_length = JSON, 3_000_000
        await response.prepare(request)
        text = b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete",' % received.id
        await response.write(text + b" " * 300_000)
        await gate.wait()
        return response

    play.upstream.plays["t"] = half
    body = client.body(names.TOOLS_CALL, {"name": tool, "arguments": {"name": "t"}}, 7)
    async with client.open(body) as answer:
        assert answer.status == 200, "the head is there, and some of the body"
        assert (await client.notify(names.CANCELLED, {"requestId": 7})).status == 202
        with pytest.raises(ClientPayloadError):
            await answer.read()
    gate.set()
    assert (await client.call("echo")).result["content"]


async def test_a_response_to_something_else_is_no_answer(play: Scene) -> None:
    """M-100."""
    client = await play.legacy()

    async def other(request: web.Request, received: Received) -> web.StreamResponse:
        body = b'{"jsonrpc":"2.0","id":8,"result":{"text":"%b"}}' % (b"x" * 300_000)
        return web.Response(body=body, content_type=JSON, headers={headers.TRIM: "0 0"})

    play.upstream.plays["t"] = other
    answer = await client.call("t", identity=7)
    assert answer.error["data"]["reason"] == "invalid_upstream_answer"
    assert (await client.call("echo")).result["content"]
