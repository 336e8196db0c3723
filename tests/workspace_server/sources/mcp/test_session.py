"""A session over a scripted transport: eras, ids, progress, cancellation, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import apps_extension, jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason
from lm_tools_bridge.protocol.names import LEGACY_REVISIONS, Era
from support.clock import VirtualTime
from support.processes.timeouts import within
from support.servers.mcp_sources.scripted_transport import INITIALIZE_RESULT, Message, ScriptedTransport
from workspace_server.call_context import CallContext
from workspace_server.sources.mcp import change_feed
from workspace_server.sources.mcp.failures import SessionFailed, TransportEnded, Unavailable
from workspace_server.sources.mcp.rpc import connection as rpc
from workspace_server.sources.mcp.rpc import server_requests
from workspace_server.sources.mcp.session import Session
from workspace_server.tool import RpcError, ToolResult

META = "io.modelcontextprotocol/"
DONE: Message = {"content": []}


class Received:
    def __init__(self) -> None:
        self.changes: list[str] = []
        self.ends: list[str] = []


@asynccontextmanager
async def opened(
    transport: ScriptedTransport, received: Received | None = None, **options: Any
) -> AsyncIterator[Session]:
    received = received or Received()
    made = await Session.open(
        transport,
        source="stdio:x",
        root=options.pop("root", "/project/a b"),
        timeout_s=options.pop("timeout_s", 5),
        on_change=received.changes.append,
        on_end=received.ends.append,
        version="9",
        **options,
    )
    try:
        yield made
    finally:
        await made.close()


def context(meta: Mapping[str, object] | None = None, **options: Any) -> CallContext:
    params = {} if meta is None else {"_meta": jsonrpc.raw(meta)}
    return CallContext(params=params, **options)


def value(outcome: object) -> Any:
    assert isinstance(outcome, msgspec.Raw), outcome
    return json.loads(jsonrpc.bytes_of(outcome))


async def settled(rounds: int = 5) -> None:
    """Lets the tasks that are ready run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


# --- the handshake


@pytest.mark.parametrize("revision", LEGACY_REVISIONS)
async def test_any_legacy_revision_is_accepted(revision: str) -> None:
    transport = ScriptedTransport(handshake_result={**INITIALIZE_RESULT, "protocolVersion": revision})
    async with opened(transport) as made:
        assert (made.handshake_result.era, made.handshake_result.revision) == (Era.LEGACY, revision)
        assert made.handshake_result.instructions == "be kind"
        assert transport.negotiations == [(Era.LEGACY, revision)]
        first, second = transport.sent
        assert first["id"] == 1
        assert first["params"]["protocolVersion"] == "2025-11-25"
        assert first["params"]["clientInfo"] == {"name": "lm-tools-bridge", "version": "9"}
        assert second == {"jsonrpc": "2.0", "method": "notifications/initialized"}


def modern_only(code: int) -> Any:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        meta = message.get("params", {}).get("_meta", {})
        if message["method"] == "initialize" or f"{META}protocolVersion" not in meta:
            transport.deliver({"id": message["id"], "error": {"code": code, "message": "unsupported"}})
        elif message["method"] == "server/discover":
            info = {"name": "new", "version": "2"}
            offered = {
                "resultType": "complete",
                "supportedVersions": ["2025-11-25", "2026-07-28"],
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
                "_meta": {f"{META}serverInfo": info},
            }
            transport.answer(message, offered)
        elif message["method"] == "tools/call":
            transport.answer(
                message, {"resultType": "input_required", "requestState": "s\u0000", "inputRequests": {}}
            )

    return serve


@pytest.mark.parametrize("code", [-32022, -32601, -32602, -32600])
async def test_a_modern_only_server_is_used_in_the_modern_era(code: int) -> None:
    """Recognised by its error to `initialize`; changes are subscribed, and results arrive unchanged."""
    transport = ScriptedTransport(modern_only(code), handshake_result={})
    async with opened(transport) as made:
        await settled()
        assert (made.handshake_result.era, made.handshake_result.revision) == (Era.MODERN, "2026-07-28")
        assert made.handshake_result.server_info == {"name": "new", "version": "2"}
        assert [message["method"] for message in transport.sent] == [
            "initialize",
            "server/discover",
            "subscriptions/listen",
        ]
        assert transport.sent[-1]["params"]["notifications"] == {"toolsListChanged": True}
        outcome = await made.call("t", context({"a": 1}, capabilities={"elicitation": {}}))
        assert value(outcome) == {
            "resultType": "input_required",
            "requestState": "s\u0000",
            "inputRequests": {},
        }
        meta = transport.sent[-1]["params"]["_meta"]
        assert meta[f"{META}clientCapabilities"] == {"elicitation": {}}
        assert meta["a"] == 1


APPS = {"extensions": apps_extension.CLIENT_EXTENSIONS}


@pytest.mark.parametrize(("offers", "declared"), [(True, APPS["extensions"]), (False, None)])
async def test_a_server_with_a_session_is_told_from_the_start_that_clients_may_show_apps(
    offers: bool, declared: Any
) -> None:
    transport = ScriptedTransport()
    async with opened(transport, offers_apps=offers):
        assert transport.sent[0]["params"]["capabilities"].get("extensions") == declared


@pytest.mark.parametrize("offers", [True, False])
async def test_a_stateless_server_is_told_with_each_request_whether_its_client_shows_apps(
    offers: bool,
) -> None:
    """Its lists serve all clients, so that they are asked for as by one that shows apps."""
    transport = ScriptedTransport(modern_only(-32601), handshake_result={})

    def declared(method: str = names.TOOLS_CALL) -> Any:
        messages = [message for message in transport.sent if message["method"] == method]
        return messages[-1]["params"]["_meta"][f"{META}clientCapabilities"]

    async with opened(transport, offers_apps=offers) as made:
        await settled()
        assert declared(names.DISCOVER) == declared(names.LISTEN) == (APPS if offers else {})
        await made.call("t", context({"a": 1}, capabilities={"roots": {}, **APPS}))
        assert declared() == {"roots": {}, **(APPS if offers else {"extensions": {}})}
        await made.call("t", context({"a": 1}, capabilities={"roots": {}}))
        assert declared() == {"roots": {}}


@pytest.mark.parametrize(
    ("handshake_result", "why"),
    [({"protocolVersion": "2019-01-01"}, "2019-01-01"), ({"x": 1}, "None"), ({"protocolVersion": 7}, "7")],
)
async def test_an_unknown_revision_fails_the_session(handshake_result: Message, why: str) -> None:
    transport = ScriptedTransport(handshake_result=handshake_result)
    with pytest.raises(SessionFailed, match=why):
        async with opened(transport):
            pass
    assert transport.closed == 1


async def test_a_refusal_of_both_eras_fails_the_session() -> None:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        transport.deliver({"id": message["id"], "error": {"code": -32000, "message": "go\x1b[31m away"}})

    with pytest.raises(SessionFailed, match="go away"):
        async with opened(ScriptedTransport(serve, handshake_result={})):
            pass


async def test_an_end_during_the_handshake_fails_the_session() -> None:
    received = Received()
    transport = ScriptedTransport(
        lambda transport, _: transport.end("exited with code 1"), handshake_result={}
    )
    with pytest.raises(SessionFailed, match="exited with code 1"):
        async with opened(transport, received):
            pass
    assert (transport.closed, received.ends) == (1, [])


async def test_a_handshake_without_answer_fails_and_is_not_cancelled() -> None:
    transport = ScriptedTransport(lambda *_: None, handshake_result={})
    with pytest.raises(SessionFailed, match=r"within 0\.05 s"):
        async with opened(transport, timeout_s=0.05):
            pass
    assert [message["method"] for message in transport.sent] == ["initialize"]
    assert transport.closed == 1


# --- calls


async def test_progress_reaches_its_call_with_the_callers_token() -> None:
    """Two callers use the same token, a third requests no progress."""
    waiting: list[Message] = []

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message["method"] != "tools/call":
            return
        waiting.append(message)
        if len(waiting) < 3:
            return
        for one in reversed(waiting):
            name, token = (
                one["params"]["name"],
                one["params"].get("_meta", {}).get("progressToken", one["id"]),
            )
            note = {"progressToken": token, "progress": 0.5, "message": name, "x": 2**70}
            transport.deliver({"method": "notifications/progress", "params": note})
            transport.deliver(
                {"method": "notifications/progress", "params": {**note, "progressToken": f"x{token}"}}
            )
            transport.answer(one, DONE)

    received: dict[str, list[Any]] = {"a": [], "b": [], "c": []}

    async def call(name: str, meta: Mapping[str, object]) -> object:
        async def notify(method: str, params: Mapping[str, Any]) -> None:
            assert method == "notifications/progress"
            received[name].append(json.loads(jsonrpc.dumps(params)))

        return await made.call(name, context(meta, notify=notify))

    async with opened(ScriptedTransport(serve)) as made:
        await asyncio.gather(
            call("a", {"progressToken": "T"}), call("b", {"progressToken": "T"}), call("c", {})
        )
        assert received == {
            name: [{"progressToken": "T", "progress": 0.5, "message": name, "x": 2**70}] for name in "ab"
        } | {"c": []}
        assert made.rpc.unmatched == 4
        assert {one["params"].get("_meta", {}).get("progressToken") for one in waiting} == {2, 3, None}


@pytest.mark.parametrize(
    ("length", "most"),
    [
        (1, rpc.MAX_PROGRESS),
        (rpc.MAX_PROGRESS_BYTES // 4, 3),
        (rpc.MAX_PROGRESS_BYTES, 1),
    ],
)
async def test_a_slow_caller_delays_no_other_and_buffers_little(length: int, most: int) -> None:
    """Excess progress notifications are dropped; the answer is not."""
    total = 2_000 if length == 1 else 2 * most + 2
    requests: list[Message] = []
    gate = asyncio.Event()
    received = []

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message.get("method") != "tools/call":
            return
        requests.append(message)
        if message["params"]["name"] == "slow":
            for n in range(total):
                note = {"progressToken": message["id"], "progress": n, "message": "x" * length}
                transport.deliver({"method": "notifications/progress", "params": note})
        transport.answer(message, DONE)

    async def notify(_: str, params: Mapping[str, Any]) -> None:
        received.append(params)
        await gate.wait()

    async with opened(ScriptedTransport(serve)) as made:
        slow = asyncio.create_task(made.call("slow", context({"progressToken": 1}, notify=notify)))
        await settled()
        async with asyncio.timeout(1):
            await made.call("quick", context())
        assert not slow.done()
        gate.set()
        assert value(await slow)["content"] == []
        assert 1 <= len(received) <= most + 1  # one was being told when the others had to wait


async def test_a_caller_that_has_gone_cancels_its_call() -> None:
    """A progress notification that cannot be delivered cancels the call."""

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message["method"] == "tools/call":
            note = {"progressToken": message["id"], "progress": 1}
            transport.deliver({"method": "notifications/progress", "params": note})

    async def notify(_: str, __: Mapping[str, Any]) -> None:
        raise ConnectionResetError

    transport = ScriptedTransport(serve)
    async with opened(transport) as made:
        with pytest.raises(ConnectionResetError):
            await made.call("t", context({"progressToken": 1}, notify=notify))
        await settled()
        assert (
            transport.last("notifications/cancelled")["params"]["requestId"]
            == transport.last("tools/call")["id"]
        )


async def test_a_cancelled_call_notifies_the_server_and_drops_its_answer() -> None:
    transport = ScriptedTransport()
    async with opened(transport) as made:
        task = asyncio.create_task(made.call("t", context()))
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settled()
        call = transport.last("tools/call")
        assert transport.last("notifications/cancelled")["params"]["requestId"] == call["id"]
        transport.answer(call, DONE)
        await settled()
        assert (made.rpc.unmatched, made.rpc.in_flight) == (1, 0)


async def test_a_time_limit_of_the_caller_is_a_timed_out_call() -> None:
    transport = ScriptedTransport()
    async with opened(transport) as made:
        with pytest.raises(Unavailable) as late:
            await made.call("t", context(), timeout_s=0.02)
        assert (late.value.reason, late.value.delivered) == (Reason.CALL_TIMED_OUT, "unknown")
        await settled()
        assert transport.last("notifications/cancelled")


async def test_request_ids_are_integers_from_one_and_not_reused() -> None:
    transport = ScriptedTransport(
        lambda transport, message: transport.answer(message, DONE) if "id" in message else None
    )
    async with opened(transport) as made:
        for _ in range(3):
            await made.call("t", context())
        assert [message["id"] for message in transport.sent if "id" in message] == [1, 2, 3, 4]
        assert all(
            "id" not in message
            for message in transport.sent
            if message["method"].startswith("notifications/")
        )


async def test_a_request_of_any_kind_can_be_sent() -> None:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message.get("method") == "prompts/get":
            transport.answer(message, {"messages": [message["params"]]})
        elif message.get("method") == "resources/read":
            transport.deliver({"id": message["id"], "error": {"code": -32002, "message": "gone"}})

    async with opened(ScriptedTransport(serve)) as made:
        assert value(await made.request("prompts/get", {"name": "p"})) == {"messages": [{"name": "p"}]}
        assert await made.request("resources/read", {"uri": "x"}) == RpcError(-32002, "gone")


# --- lists


async def test_all_pages_are_requested() -> None:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message["method"] == "tools/list":
            cursor = int(message["params"].get("cursor", 0))
            transport.answer(
                message,
                {"tools": [{"name": str(cursor)}]} | ({"nextCursor": str(cursor + 1)} if cursor < 3 else {}),
            )

    async with opened(ScriptedTransport(serve)) as made:
        pages = await made.list_all("tools/list", "tools")
        assert [json.loads(bytes(one))["name"] for one in pages.entries] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": {"code": -32601, "message": "no such method"}}, []),
        ({"error": {"code": -32603, "message": "broken"}}, "tools/list: broken \\(-32603\\)"),
        ({"result": {"x": []}}, "no list of tools"),
    ],
)
async def test_a_list_that_fails(answer: Message, expected: Any) -> None:
    """A server without the method has an empty list; other errors are raised."""
    transport = ScriptedTransport(
        lambda transport, message: (
            transport.deliver({"id": message["id"], **answer}) if "id" in message else None
        )
    )
    async with opened(transport) as made:
        if isinstance(expected, list):
            assert (await made.list_all("tools/list", "tools")).entries == expected
        else:
            with pytest.raises(Unavailable, match=expected):
                await made.list_all("tools/list", "tools")


# --- what the server asks and tells


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ("ping", {"result": {}}),
        ("roots/list", {"result": {"roots": [{"uri": "file:///project/a%20b/%C3%A9%23%3F", "name": "é#?"}]}}),
        (
            "sampling/createMessage",
            {"error": {"code": -32601, "message": "sampling/createMessage is not offered"}},
        ),
        ("elicitation/create", {"error": {"code": -32601, "message": "elicitation/create is not offered"}}),
        ("x\x1b[31m/y", {"error": {"code": -32601, "message": "x/y is not offered"}}),
    ],
)
@pytest.mark.parametrize("identity", [7, "seven"])
async def test_requests_of_the_server_are_answered(
    requests: str, expected: Message, identity: object
) -> None:
    """The response has the server's id, even if a request to the server has the same one."""
    transport = ScriptedTransport()
    async with opened(transport, root="/project/a b/é#?") as made:
        transport.deliver({"id": identity, "method": requests, "params": {}})
        await settled()
        assert transport.sent[-1] == {"jsonrpc": "2.0", "id": identity, **expected}
        assert made.rpc.unmatched == 0


async def test_responses_to_a_server_that_does_not_read_are_limited() -> None:
    """The queue of messages to write is bounded."""
    transport = ScriptedTransport()
    async with opened(transport) as made:
        stuck = asyncio.Event()

        async def send(message: bytes) -> None:
            await stuck.wait()

        transport.send = send  # a pipe that is full
        for n in range(1_000):
            transport.deliver({"id": n, "method": "ping"})
        async with asyncio.timeout(within(1)):
            while made.rpc.unmatched < 1_000 - server_requests.MAX_REPLIES:
                await asyncio.sleep(0.005)
        await settled()
        assert made.rpc.unmatched == 1_000 - server_requests.MAX_REPLIES


async def test_change_notifications_are_merged(virtual_time: VirtualTime) -> None:
    """They are few enough that reading is not throttled."""
    received = Received()
    transport = ScriptedTransport()
    async with opened(transport, received):
        for _ in range(90):
            transport.deliver({"method": "notifications/tools/list_changed"})
            transport.deliver({"method": "notifications/prompts/list_changed"})
        transport.deliver({"method": "notifications/resources/list_changed"})
        transport.deliver({"method": "notifications/cancelled", "params": {"requestId": 1}})
        await settled(200)
        assert received.changes == []
        await asyncio.sleep(change_feed.COALESCE_S)
        assert received.changes == ["prompts", "resources", "tools"]


async def test_the_last_log_messages_are_kept_without_control_characters() -> None:
    transport = ScriptedTransport()
    async with opened(transport) as made:
        for n in range(50):
            transport.deliver(
                {"method": "notifications/message", "params": {"level": "error", "data": f"\u200b{n}"}}
            )
        transport.deliver({"method": "notifications/message", "params": {"data": {"a": 1}}})
        await settled(60)
        assert len(made.rpc.log_messages) == rpc.MAX_LOG_MESSAGES
        assert made.rpc.log_messages[-1] == ("info", '{"a": 1}')


async def test_a_broken_modern_change_stream_is_reopened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list counts as changed, because changes during the interruption were not reported."""
    monkeypatch.setattr(change_feed, "LISTEN_AGAIN_S", 0.01)
    received = Received()
    transport = ScriptedTransport(modern_only(-32601), handshake_result={})
    async with opened(transport, received):
        await settled()
        transport.fail_request(
            transport.last("subscriptions/listen"), Unavailable("the stream broke", "unknown")
        )
        async with asyncio.timeout(within(0.5)):
            while not received.changes:
                await asyncio.sleep(0.01)
        assert [message["method"] for message in transport.sent].count("subscriptions/listen") == 2
        assert received.changes == ["tools"]


# --- ends


async def test_the_end_of_the_connection_fails_all_calls_and_is_reported_once() -> None:
    received = Received()
    transport = ScriptedTransport()
    async with opened(transport, received) as made:
        calls = [asyncio.create_task(made.call("t", context())) for _ in range(5)]
        await settled()
        transport.end("exited with code 1")
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [(type(one), str(one), one.delivered) for one in outcomes if isinstance(one, Unavailable)] == [
            (Unavailable, "exited with code 1", "unknown")
        ] * 5
        assert (received.ends, made.ended) == (["exited with code 1"], "exited with code 1")
        with pytest.raises(Unavailable) as later:
            await made.call("t", context())
        assert later.value.delivered == "no"
    assert received.ends == ["exited with code 1"]


async def test_closing_a_session_ends_its_calls_and_reports_nothing() -> None:
    received = Received()
    transport = ScriptedTransport()
    async with opened(transport, received) as made:
        call = asyncio.create_task(made.call("t", context()))
        await settled()
        await made.close()
        with pytest.raises(Unavailable, match="closed"):
            await call
    assert (received.ends, transport.closed) == ([], 2)


async def test_a_message_that_cannot_be_written_ends_the_session() -> None:
    """The call that was being sent was not delivered; that of the others is unknown."""
    received = Received()
    transport = ScriptedTransport()
    async with opened(transport, received) as made:
        before = asyncio.create_task(made.call("t", context()))
        await settled()
        transport.send_error = TransportEnded("it does not read")
        with pytest.raises(Unavailable) as failed:
            await made.call("t", context())
        assert failed.value.delivered == "no"
        with pytest.raises(Unavailable) as other:
            await before
        assert other.value.delivered == "unknown"
        assert received.ends == ["it does not read"]


async def test_a_single_request_can_fail_without_the_session() -> None:
    """One HTTP exchange failed, before or after it was sent."""

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message.get("method") == "tools/call":
            transport.fail_request(message, Unavailable("502", "unknown", retry_after_ms=5))

    transport = ScriptedTransport(serve)
    async with opened(transport) as made:
        with pytest.raises(Unavailable) as lost:
            await made.call("t", context())
        assert lost.value.retry_after_ms == 5
        transport.send_error = Unavailable("no network")
        with pytest.raises(Unavailable, match="no network"):
            await made.call("t", context())
        transport.send_error = None
        assert made.ended is None
        await settled()
        assert all(message["method"] != "notifications/cancelled" for message in transport.sent)


async def test_an_unexpected_transport_error_fails_the_waiting_calls() -> None:
    transport = ScriptedTransport()
    async with opened(transport) as made:
        call = asyncio.create_task(made.call("t", context()))
        await settled()
        transport.put(KeyError("oops"))
        with pytest.raises(Unavailable, match="failed"):
            await call


async def test_an_invalid_response_to_another_request_is_an_error() -> None:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        if "id" in message:
            transport.put(b'{"jsonrpc":"2.0","id":%d,"result":{"a":NaN}}' % message["id"])

    async with opened(ScriptedTransport(serve)) as made:
        with pytest.raises(Unavailable, match="no valid JSON"):
            await made.request("prompts/list")
        assert isinstance(await made.call("t", context()), ToolResult)
