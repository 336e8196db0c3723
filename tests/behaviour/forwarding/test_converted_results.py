"""Large results that pass to a session unparsed, because the server marks what to cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientPayloadError, web

from lm_tools_bridge.protocol import headers, names
from manager.http.request import HttpRequest
from manager.supervision import workspaces
from support.clients.raw_clients import EVENTS, JSON, Client
from support.clock import AdvancedTime
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_answers import SERVER
from support.servers.scripted.scripted_workspace_server import (
    COMPLETE,
    Received,
    result,
    stream,
    trimmed,
    trimmed_event,
)

LARGE: dict[str, Any] = {**COMPLETE, "text": "\u00e9" + "x" * 3_000_000, "_meta": SERVER}
CALL_TIMEOUT_S = 100.0
"""Passes only where a test puts the clock forward."""
LARGE_BYTES = 20_000_000
FORMS = pytest.mark.parametrize("form", [JSON, EVENTS])
ACCEPTS = pytest.mark.parametrize("accept", [JSON, EVENTS, f"{JSON}, {EVENTS}"])


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path) as running:
        yield running


@ACCEPTS
async def test_a_session_gets_the_same_result_as_from_parsing(setup: RegisteredSetup, accept: str) -> None:
    """Without type of the result, and without who answered."""
    client = await setup.legacy(accept=accept)
    setup.upstream.answers |= {
        "trimmed": trimmed(LARGE),
        "event": stream(trimmed_event(LARGE)),
        "read": result(json.dumps(LARGE).encode()),
    }
    for _ in range(2):  # the second call comes by the way of calls that are known
        read = await client.call("read")
        for passed in (await client.call("trimmed"), await client.call("event")):
            assert passed.status == read.status == 200
            assert passed.is_stream == read.is_stream == (accept == EVENTS)
            assert passed.result == read.result
            assert passed.result.keys() == {"content", "text"}


@FORMS
@pytest.mark.parametrize("size", [3_000_000, 300_000, 300])
async def test_the_kept_members_keep_their_bytes(form: str, size: int, setup: RegisteredSetup) -> None:
    client = await setup.legacy()
    said = {**LARGE, "text": "x" * size}
    setup.upstream.answers["t"] = trimmed(said) if form == JSON else stream(trimmed_event(said))
    answer = await client.call("t", identity="a")
    kept = {name: value for name, value in said.items() if name not in ("resultType", "_meta")}
    text = json.dumps(kept, separators=(",", ":")).encode()
    assert answer.body == b'{"jsonrpc":"2.0","id":"a","result":%b}' % text
    assert answer.headers.get("Content-Length", str(len(answer.body))) == str(len(answer.body))
    assert headers.RESULT_TRIM not in answer.headers


async def begun(form: str, count: int, request: web.Request, received: Received) -> web.StreamResponse:
    """So many bytes of a large response, of which a trim is said."""
    response = web.StreamResponse(headers={headers.RESULT_TRIM: "25 0"} if form == JSON else {})
    response.content_type = form
    response.content_length = 6_000_000 if form == JSON else None
    await response.prepare(request)
    text = b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete",' % received.id
    said = b"" if form == JSON else b": %b: 25 0\ndata: " % headers.RESULT_TRIM.encode()
    await response.write((said + text + b" " * count)[:count])
    return response


def broken_off_after(form: str, count: int) -> Any:
    """The beginning of such a response, and an end of the connection."""

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        response = await begun(form, count, request, received)
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


@FORMS
async def test_a_result_that_breaks_off_is_never_taken_as_complete(form: str, setup: RegisteredSetup) -> None:
    """Told where nothing is out yet, else an unclean end. Events of a session are collected."""
    client = await setup.legacy()
    for count in (20,) if form == JSON else (20, 200_000, 3_000_000):
        setup.upstream.answers["early"] = broken_off_after(form, count)
        answer = await client.call("early")
        assert (answer.refusal["code"], answer.refusal["delivered"]) == (47103, "unknown")
        assert (await client.call("echo")).result["content"]
    if form == EVENTS:
        return
    setup.upstream.answers["late"] = broken_off_after(form, 3_000_000)
    with pytest.raises(ClientPayloadError):
        await client.call("late")
    assert (await client.call("echo")).result["content"]


async def test_a_result_cancelled_in_its_body_ends_there(setup: RegisteredSetup) -> None:
    """Nothing more is said, least of all something that would be taken for the rest of the body."""
    client = await setup.legacy()
    gate = asyncio.Event()

    async def half(request: web.Request, received: Received) -> web.StreamResponse:
        response = await begun(JSON, 300_000, request, received)
        await gate.wait()
        return response

    setup.upstream.answers["t"] = half
    body = client.body(names.TOOLS_CALL, {"name": "t"}, 7)
    async with client.open(body) as answer:
        assert answer.status == 200, "the head is there, and some of the body"
        assert (await client.notify(names.CANCELLED, {"requestId": 7})).status == 202
        with pytest.raises(ClientPayloadError):
            await answer.read()
    gate.set()
    assert (await client.call("echo")).result["content"]


@contextlib.asynccontextmanager
async def unhurried(
    setup: RegisteredSetup, client: Client, body: bytes
) -> AsyncIterator[asyncio.StreamReader]:
    """The body that answers a request, on a connection that takes little ahead."""
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)
        plain.connect(("127.0.0.1", setup.manager.port))
        reader, writer = await asyncio.open_connection(sock=plain, limit=65536)
        fields = {"Host": f"127.0.0.1:{setup.manager.port}", "Content-Length": str(len(body))}
        lines = [f"{name}: {value}" for name, value in (client.header(body) | fields).items()]
        writer.write(
            "\r\n".join(
                [f"POST {client.url.removeprefix(setup.manager.base)} HTTP/1.1", *lines, "", ""]
            ).encode()
            + body
        )
        assert b" 200 " in await reader.readline()
        await reader.readuntil(b"\r\n\r\n")
        try:
            yield reader
        finally:
            writer.transport.abort()


class WaitsForClient:
    """Whether the manager waits for a client to read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._waits = asyncio.Event()
        when_writable = HttpRequest.when_writable

        def noted(http_request: HttpRequest, call: Callable[[], None]) -> None:
            def resumed() -> None:
                self._waits.clear()
                call()

            self._waits.set()
            when_writable(http_request, resumed)

        patch.setattr(HttpRequest, "when_writable", noted)

    def __bool__(self) -> bool:
        return self._waits.is_set()

    async def begun(self) -> None:
        """Wait until it does, now."""
        while not self:
            await self._waits.wait()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> AdvancedTime:
    monkeypatch.setattr(workspaces, "ROOT_CHECK_S", 1e6)  # so that nothing is looked at between the calls
    return AdvancedTime(monkeypatch)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> WaitsForClient:
    return WaitsForClient(monkeypatch)


@contextlib.asynccontextmanager
async def large_call(
    folder: Path, era: str, form: str
) -> AsyncIterator[tuple[RegisteredSetup, asyncio.StreamReader]]:
    """A call with a result of 20 MB, of which the client has not read anything."""
    async with registered_setup(folder, call_timeout_s=CALL_TIMEOUT_S) as setup:
        client = setup.modern() if era == "modern" else await setup.legacy()
        said = {**LARGE, "text": "x" * LARGE_BYTES}
        setup.upstream.answers["t"] = trimmed(said) if form == JSON else stream(trimmed_event(said))
        assert (await client.call("echo")).result["content"]
        body = client.body(names.TOOLS_CALL, {"name": "t"}, 7)
        async with unhurried(setup, client, body) as reader:
            yield setup, reader


RELAYED_LARGE = pytest.mark.parametrize(
    ("era", "form"), [("modern", JSON), ("legacy", JSON), ("modern", EVENTS)]
)


@RELAYED_LARGE
async def test_a_slow_client_gets_everything(
    tmp_path: Path, era: str, form: str, clock: AdvancedTime, waits: WaitsForClient
) -> None:
    """The time of a call is the server's, which has answered."""
    async with large_call(tmp_path, era, form) as (setup, reader):
        for _ in range(2):
            await waits.begun()
            clock.advance(1.5 * CALL_TIMEOUT_S)
            await reader.readexactly(LARGE_BYTES // 2)
        while not await play_is_idle(setup):
            await reader.read(1_000_000)
        assert await errors_of(setup) == (0, None)


@RELAYED_LARGE
async def test_a_stalled_client_is_dropped(
    tmp_path: Path, era: str, form: str, clock: AdvancedTime, waits: WaitsForClient
) -> None:
    """That is no error of the server."""
    async with large_call(tmp_path, era, form) as (setup, reader):
        while not await play_is_idle(setup):
            if waits:
                clock.advance(1.5 * CALL_TIMEOUT_S)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(LARGE_BYTES)
        assert await errors_of(setup) == (0, None)


async def errors_of(setup: RegisteredSetup) -> tuple[int, str | None]:
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as status:
        [shown] = (await status.json())["workspaceDetails"]
    return shown["errors"], shown["lastError"]


async def play_is_idle(setup: RegisteredSetup) -> bool:
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as status:
        return bool((await status.json())["figures"]["inFlight"] == 0)


async def test_a_response_with_another_id_is_refused(setup: RegisteredSetup) -> None:
    client = await setup.legacy()

    async def other(request: web.Request, received: Received) -> web.StreamResponse:
        body = b'{"jsonrpc":"2.0","id":8,"result":{"text":"%b"}}' % (b"x" * 300_000)
        return web.Response(body=body, content_type=JSON, headers={headers.RESULT_TRIM: "0 0"})

    setup.upstream.answers["t"] = other
    answer = await client.call("t", identity=7)
    assert answer.error["data"]["reason"] == "invalid_upstream_answer"
    assert (await client.call("echo")).result["content"]
