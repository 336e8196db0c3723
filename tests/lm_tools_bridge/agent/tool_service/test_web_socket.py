"""A client and an endpoint speak over WebSockets: errors end calls at once, losses are recovered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lm_tools_bridge.agent.tool_service import ToolService, ToolServiceError
from lm_tools_bridge.agent.tool_service.client import ToolClient
from lm_tools_bridge.agent.tool_service.endpoint import TOKEN_PREFIX, Serving, serving
from lm_tools_bridge.agent.tool_service.keep_alive import close_words, reconnect_delay
from lm_tools_bridge.agent.tool_service.service import ConnectionLost
from support.processes.timeouts import within

OBJECT = {"type": "object"}
PAGE = "https://page.example"


class Slow:
    """A tool that waits until it is let go, and notices that it is cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "slow"


def service_with(slow: Slow) -> ToolService:
    service = ToolService()
    service.register_tool({"name": "echo", "inputSchema": OBJECT}, lambda arguments: str(arguments["text"]))
    service.register_tool({"name": "slow", "inputSchema": OBJECT}, slow)
    return service


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def service(slow: Slow) -> ToolService:
    return service_with(slow)


@pytest.fixture
async def served(service: ToolService) -> AsyncIterator[Serving]:
    async with serving(service, origins=[PAGE]) as address:
        yield address


@pytest.fixture
async def client(served: Serving) -> AsyncIterator[ToolClient]:
    async with ToolClient(served.address, token=served.token) as connected:
        yield connected


async def test_tools_are_listed_over_all_pages(client: ToolClient, service: ToolService) -> None:
    for number in range(120):
        service.register_tool({"name": f"t{number}", "inputSchema": OBJECT}, lambda _: "x")
    assert len(await client.list_tools()) == 122
    assert len(await client.listTools()) == 122


async def test_several_calls_at_once_get_their_own_replies(client: ToolClient, slow: Slow) -> None:
    waiting = asyncio.create_task(client.call_tool("slow"))
    await slow.begun.wait()
    texts = [f'{number} \u2028\\"' for number in range(20)]
    results = await asyncio.gather(*(client.call_tool("echo", {"text": text}) for text in texts))
    assert [result["content"][0]["text"] for result in results] == texts
    slow.go.set()
    assert (await waiting)["content"][0]["text"] == "slow"


async def test_an_error_reply_ends_its_call_at_once(client: ToolClient) -> None:
    await client.list_tools()
    began = time.monotonic()
    with pytest.raises(ToolServiceError, match="Tool not found or disabled: nothing") as error:
        await client.call_tool("nothing")
    assert (error.value.code, time.monotonic() - began < within(1)) == (-32602, True)


async def test_changes_of_the_list_are_told_until_unsubscribed(
    client: ToolClient, service: ToolService
) -> None:
    changed = asyncio.Event()
    unsubscribe = client.on_tool_list_changed(changed.set)
    await client.list_tools()
    service.register_tool({"name": "new", "inputSchema": OBJECT}, lambda _: "x")
    async with asyncio.timeout(within(5)):
        await changed.wait()
    unsubscribe()
    changed.clear()
    service.unregister_tool("new")
    await client.list_tools()
    assert not changed.is_set()


async def test_a_cancelled_call_is_cancelled_at_the_server(client: ToolClient, slow: Slow) -> None:
    call = asyncio.create_task(client.call_tool("slow"))
    await slow.begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(within(5)):
        await slow.cancelled.wait()


async def test_a_client_that_leaves_ends_its_calls(served: Serving, slow: Slow) -> None:
    async with ToolClient(served.address, token=served.token) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await slow.begun.wait()
    with pytest.raises(ConnectionLost):
        await call
    async with asyncio.timeout(within(5)):
        await slow.cancelled.wait()


async def test_a_reply_that_never_comes_has_a_deadline(served: Serving, slow: Slow) -> None:
    async with ToolClient(served.address, token=served.token, call_s=0.3) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("slow")
    async with asyncio.timeout(within(5)):
        await slow.cancelled.wait()


# -- who may connect --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "protocol", "status"),
    [
        ({}, None, 401),
        ({"Authorization": "Bearer wrong"}, None, 401),
        ({"Authorization": "Bearer {token}"}, None, 101),
        ({"Origin": PAGE}, TOKEN_PREFIX + "{token}", 101),
        ({"Origin": PAGE.upper()}, TOKEN_PREFIX + "{token}", 101),
        ({"Origin": PAGE}, None, 401),
        ({"Origin": "https://evil.example"}, TOKEN_PREFIX + "{token}", 403),
        ({"Origin": "null"}, TOKEN_PREFIX + "{token}", 403),
        ({"Sec-Fetch-Site": "cross-site"}, TOKEN_PREFIX + "{token}", 403),
        ({"Host": "evil.example", "Authorization": "Bearer {token}"}, None, 403),
    ],
)
async def test_the_door_checks_host_origin_and_token(
    served: Serving, headers: dict[str, str], protocol: str | None, status: int
) -> None:
    filled = {name: value.format(token=served.token) for name, value in headers.items()}
    protocols = ["mcp"] if protocol is None else ["mcp", protocol.format(token=served.token)]
    async with aiohttp.ClientSession() as http:
        try:
            async with http.ws_connect(served.address, headers=filled, protocols=protocols) as socket:
                assert (status, socket.protocol) == (101, "mcp")
        except aiohttp.WSServerHandshakeError as refused:
            assert refused.status == status
            assert served.token not in str(refused)


async def test_what_is_no_web_socket_is_refused(served: Serving) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.get(served.address.replace("ws", "http"), headers=headers) as response,
    ):
        assert response.status == 426


async def test_odd_frames_end_nothing(served: Serving) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(served.address, headers=headers) as socket,
    ):
        await socket.send_bytes(b"\xff\x00")
        replies = []
        for text in ("{", "[]", '{"jsonrpc":"2.0","id":1,"method":"x/y"}', '{"jsonrpc":"2.0","id":2,"method":"ping"}',
                     '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":7}}'):  # fmt: skip
            await socket.send_str(text)
            replies.append(await socket.receive_json(timeout=5))
        assert [one.get("error", {}).get("code") for one in replies] == [-32700, -32600, -32601, None, -32602]
        assert [one["id"] for one in replies] == [None, None, 1, 2, 3]


async def test_a_frame_that_is_too_large_closes_the_connection(served: Serving) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(served.address, headers=headers) as socket,
    ):
        with suppress(ConnectionError):  # it is closed while we still write
            await socket.send_str("x" * (4 * 1024 * 1024 + 1))
        closed = {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
        assert (await socket.receive(timeout=5)).type in closed
    async with ToolClient(served.address, token=served.token) as another:
        assert len(await another.list_tools()) == 2


# -- scripted servers -------------------------------------------------------------------------------------

Script = Callable[[web.WebSocketResponse, int], Awaitable[None]]


@asynccontextmanager
async def scripted(script: Script, **options: Any) -> AsyncIterator[str]:
    """A server that introduces itself and then does what a test says; the script gets the connection's number."""
    count = 0

    async def connect(request: web.Request) -> web.WebSocketResponse:
        nonlocal count
        count += 1
        socket = web.WebSocketResponse(**options)
        await socket.prepare(request)
        hello = await socket.receive_json()
        await socket.send_json({"jsonrpc": "2.0", "id": hello["id"], "result": {}})
        await socket.receive_json()
        await script(socket, count)
        return socket

    app = web.Application()
    app.router.add_get("/", connect)
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("/")).replace("http", "ws")


class Pauses:
    """Waits no time, and remembers for how long it should have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


async def test_a_lost_connection_fails_all_waiting_calls_at_once() -> None:
    async def script(socket: web.WebSocketResponse, number: int) -> None:
        if number == 1:
            await socket.receive_json()
            await socket.receive_json()
            await socket.close(code=1011)
            return
        message = await socket.receive_json()
        await socket.send_json({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
        await socket.receive()

    pauses = Pauses()
    async with scripted(script) as url, ToolClient(url, pause=pauses) as client:
        lost = await asyncio.gather(client.call_tool("a"), client.call_tool("b"), return_exceptions=True)
        assert [type(one) for one in lost] == [ConnectionLost] * 2
        assert [one.delivered for one in lost if isinstance(one, ConnectionLost)] == ["unknown"] * 2
        assert str(lost[0]) == "the server failed"
        assert await client.call_tool("c") == {"content": []}
        assert pauses.seconds == [1.0]


async def test_after_five_attempts_the_client_gives_up() -> None:
    pauses, states = Pauses(), []
    async with ToolClient("ws://127.0.0.1:9/", pause=pauses, on_state=states.append) as client:
        with pytest.raises(ConnectionLost, match=r"^Max reconnection attempts reached$") as given_up:
            await client.call_tool("x")
        assert (pauses.seconds, given_up.value.delivered) == ([1, 2, 4, 8, 16], "no")
        assert states[-1] == "Max reconnection attempts reached"


async def test_a_normal_close_is_not_followed_by_a_new_connection() -> None:
    async def script(socket: web.WebSocketResponse, number: int) -> None:
        await socket.close(code=1000)

    pauses = Pauses()
    async with scripted(script) as url, ToolClient(url, pause=pauses) as client:
        with pytest.raises(ConnectionLost, match="closed normally"):
            for _ in range(2):
                await client.call_tool("x")
        assert pauses.seconds == []


async def test_odd_frames_of_a_server_are_dropped_and_counted() -> None:
    async def script(socket: web.WebSocketResponse, number: int) -> None:
        message = await socket.receive_json()
        for text in ("{", "[]", '{"id":4711,"result":{}}'):
            await socket.send_str(text)
        await socket.send_bytes(b"x")
        await socket.send_json({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
        await socket.receive()

    async with scripted(script) as url, ToolClient(url) as client:
        assert await client.call_tool("x") == {"content": []}
        assert client.dropped == 4


async def test_a_silent_server_is_left_and_connected_to_again() -> None:
    async def script(socket: web.WebSocketResponse, number: int) -> None:
        if number == 1:
            await asyncio.sleep(60)  # neither reads nor answers pings
        async for message in socket:
            reply = {"jsonrpc": "2.0", "id": message.json()["id"], "result": {"content": []}}
            await socket.send_json(reply)

    pauses = Pauses()
    async with scripted(script) as url, ToolClient(url, ping_s=0.1, pong_s=0.2, pause=pauses) as client:
        with pytest.raises(ConnectionLost, match="the connection was lost"):
            await client.call_tool("x")
        assert await client.call_tool("x") == {"content": []}


async def test_a_silent_client_is_closed(service: ToolService) -> None:
    async with serving(service, ping_s=0.05, pong_s=0.1) as served:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(served.address, headers=headers, autoping=False) as socket,
        ):
            assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.PING
            assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE


async def test_pongs_keep_a_quiet_connection_open(service: ToolService) -> None:
    async with serving(service, ping_s=0.05, pong_s=5) as served:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(served.address, headers=headers, autoping=False) as socket,
        ):
            for _ in range(3):
                ping = await socket.receive(timeout=5)
                assert ping.type is aiohttp.WSMsgType.PING
                await socket.pong(ping.data)
            await socket.send_str('{"jsonrpc":"2.0","id":1,"method":"ping"}')
            while (message := await socket.receive(timeout=5)).type is aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
            assert message.json()["result"] == {}


def test_pauses_double_and_end_after_five_attempts() -> None:
    assert [reconnect_delay(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, 16, None]
    assert close_words(1012) == "the server restarts"
    assert close_words(4711) == "closed with code 4711"
    assert close_words(None) == "the connection was lost"


@pytest.mark.parametrize("header", ["Authorization", "Sec-WebSocket-Protocol"])
async def test_a_token_that_is_no_text_is_refused_like_any_wrong_one(served: Serving, header: str) -> None:
    host, _, port = served.address.removeprefix("ws://").partition("/")[0].partition(":")
    value = {"Authorization": "Bearer \xff", "Sec-WebSocket-Protocol": f"mcp, {TOKEN_PREFIX}\xff"}[header]
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /tools HTTP/1.1\r\nHost: {host}:{port}\r\n{header}: {value}\r\n\r\n".encode("latin-1"))
    assert b" 401 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_handler_that_fails_does_not_end_the_connection(
    served: Serving, service: ToolService
) -> None:
    told: list[str] = []

    def failing() -> None:
        raise ValueError("no handler")

    async with ToolClient(served.address, token=served.token, call_s=5, on_state=told.append) as client:
        await client.list_tools()
        client.on_tool_list_changed(failing)
        service.register_tool({"name": "new", "inputSchema": OBJECT}, lambda _: "x")
        assert len(await client.list_tools()) == 3
        assert (await client.call_tool("new"))["content"][0]["text"] == "x"
    assert "a handler of list changes failed: no handler" in told
