"""A session over a connection that is a function: eras, ids, progress, cancellation, ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from protocol import jsonrpc
from protocol.errors import Reason
from protocol.versions import LEGACY_REVISIONS, Era
from support.processes.timeouts import within
from support.servers.scripted_transport import GREETING, Message, ScriptedTransport
from workspace_server.call_context import CallContext
from workspace_server.sources.mcp.failures import SessionFailed, TransportEnded, Unavailable
from workspace_server.sources.mcp.session import change_feed, rpc, server_requests
from workspace_server.sources.mcp.session.session import Session
from workspace_server.tool import RpcError, ToolResult

META = "io.modelcontextprotocol/"
DONE: Message = {"content": []}


class Heard:
    def __init__(self) -> None:
        self.changes: list[str] = []
        self.ends: list[str] = []


@asynccontextmanager
async def opened(
    wire: ScriptedTransport, heard: Heard | None = None, **options: Any
) -> AsyncIterator[Session]:
    heard = heard or Heard()
    made = await Session.open(
        wire,
        source="stdio:x",
        root=options.pop("root", "/project/a b"),
        timeout_s=options.pop("timeout_s", 5),
        on_change=heard.changes.append,
        on_end=heard.ends.append,
        version="9",
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
    """What is ready to run has run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


# --- the handshake


@pytest.mark.parametrize("revision", LEGACY_REVISIONS)
async def test_any_legacy_revision_is_accepted(revision: str) -> None:
    wire = ScriptedTransport(greeting={**GREETING, "protocolVersion": revision})
    async with opened(wire) as made:
        assert (made.greeting.era, made.greeting.revision) == (Era.LEGACY, revision)
        assert made.greeting.instructions == "be kind"
        assert wire.told == [(Era.LEGACY, revision)]
        first, second = wire.sent
        assert first["id"] == 1
        assert first["params"]["protocolVersion"] == "2025-11-25"
        assert first["params"]["clientInfo"] == {"name": "lm-tools-bridge", "version": "9"}
        assert second == {"jsonrpc": "2.0", "method": "notifications/initialized"}


def modern_only(code: int) -> Any:
    def serve(wire: ScriptedTransport, message: Message) -> None:
        meta = message.get("params", {}).get("_meta", {})
        if message["method"] == "initialize" or f"{META}protocolVersion" not in meta:
            wire.say({"id": message["id"], "error": {"code": code, "message": "unsupported"}})
        elif message["method"] == "server/discover":
            info = {"name": "new", "version": "2"}
            offered = {
                "resultType": "complete",
                "supportedVersions": ["2025-11-25", "2026-07-28"],
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
                "_meta": {f"{META}serverInfo": info},
            }
            wire.answer(message, offered)
        elif message["method"] == "tools/call":
            wire.answer(
                message, {"resultType": "input_required", "requestState": "s\u0000", "inputRequests": {}}
            )

    return serve


@pytest.mark.parametrize("code", [-32022, -32601, -32602, -32600])
async def test_a_modern_only_server_is_served_in_its_own_way(code: int) -> None:
    """Recognised by its refusal of `initialize`; asked to tell of changes; nothing unspliced."""
    wire = ScriptedTransport(modern_only(code), greeting={})
    async with opened(wire) as made:
        await settled()
        assert (made.greeting.era, made.greeting.revision) == (Era.MODERN, "2026-07-28")
        assert made.greeting.server_info == {"name": "new", "version": "2"}
        assert [message["method"] for message in wire.sent] == [
            "initialize",
            "server/discover",
            "subscriptions/listen",
        ]
        assert wire.sent[-1]["params"]["notifications"] == {"toolsListChanged": True}
        outcome = await made.call("t", context({"a": 1}, capabilities={"elicitation": {}}))
        assert value(outcome) == {
            "resultType": "input_required",
            "requestState": "s\u0000",
            "inputRequests": {},
        }
        meta = wire.sent[-1]["params"]["_meta"]
        assert meta[f"{META}clientCapabilities"] == {"elicitation": {}}
        assert meta["a"] == 1


@pytest.mark.parametrize(
    ("greeting", "why"),
    [({"protocolVersion": "2019-01-01"}, "2019-01-01"), ({"x": 1}, "None"), ({"protocolVersion": 7}, "7")],
)
async def test_a_revision_we_do_not_speak_is_no_session(greeting: Message, why: str) -> None:
    wire = ScriptedTransport(greeting=greeting)
    with pytest.raises(SessionFailed, match=why):
        async with opened(wire):
            pass
    assert wire.closed == 1


async def test_a_server_that_refuses_both_eras_is_no_session() -> None:
    def serve(wire: ScriptedTransport, message: Message) -> None:
        wire.say({"id": message["id"], "error": {"code": -32000, "message": "go\x1b[31m away"}})

    with pytest.raises(SessionFailed, match="go away"):
        async with opened(ScriptedTransport(serve, greeting={})):
            pass


async def test_a_connection_that_ends_during_the_handshake_is_no_session() -> None:
    heard = Heard()
    wire = ScriptedTransport(lambda wire, _: wire.end("exited with code 1"), greeting={})
    with pytest.raises(SessionFailed, match="exited with code 1"):
        async with opened(wire, heard):
            pass
    assert (wire.closed, heard.ends) == (1, [])


async def test_silence_is_no_session_and_initialize_is_not_cancelled() -> None:
    wire = ScriptedTransport(lambda *_: None, greeting={})
    with pytest.raises(SessionFailed, match=r"within 0\.05 s"):
        async with opened(wire, timeout_s=0.05):
            pass
    assert [message["method"] for message in wire.sent] == ["initialize"]
    assert wire.closed == 1


# --- calls


async def test_progress_reaches_the_call_it_belongs_to_with_the_callers_token() -> None:
    """Two callers with one token, and one that wants none."""
    waiting: list[Message] = []

    def serve(wire: ScriptedTransport, message: Message) -> None:
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
            wire.say({"method": "notifications/progress", "params": note})
            wire.say({"method": "notifications/progress", "params": {**note, "progressToken": str(token)}})
            wire.answer(one, DONE)

    heard: dict[str, list[Any]] = {"a": [], "b": [], "c": []}

    async def call(name: str, meta: Mapping[str, object]) -> object:
        async def notify(method: str, params: Mapping[str, Any]) -> None:
            assert method == "notifications/progress"
            heard[name].append(json.loads(jsonrpc.dumps(params)))

        return await made.call(name, context(meta, notify=notify))

    async with opened(ScriptedTransport(serve)) as made:
        await asyncio.gather(
            call("a", {"progressToken": "T"}), call("b", {"progressToken": "T"}), call("c", {})
        )
        assert heard == {
            name: [{"progressToken": "T", "progress": 0.5, "message": name, "x": 2**70}] for name in "ab"
        } | {"c": []}
        assert made.rpc.unmatched == 4
        assert {one["params"].get("_meta", {}).get("progressToken") for one in waiting} == {2, 3, None}


@pytest.mark.parametrize(
    ("length", "most"),
    [(1, rpc.MAX_PROGRESS), (rpc.MAX_PROGRESS_BYTES // 4, 3), (rpc.MAX_PROGRESS_BYTES, 1)],
)
async def test_a_slow_caller_holds_up_nobody_else_and_hoards_nothing(length: int, most: int) -> None:
    """Its surplus progress is dropped, its answer is not."""
    total = 2_000 if length == 1 else 2 * most + 2
    asked: list[Message] = []
    gate = asyncio.Event()
    heard = []

    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message.get("method") != "tools/call":
            return
        asked.append(message)
        if message["params"]["name"] == "slow":
            for n in range(total):
                note = {"progressToken": message["id"], "progress": n, "message": "x" * length}
                wire.say({"method": "notifications/progress", "params": note})
        wire.answer(message, DONE)

    async def notify(_: str, params: Mapping[str, Any]) -> None:
        heard.append(params)
        await gate.wait()

    async with opened(ScriptedTransport(serve)) as made:
        slow = asyncio.create_task(made.call("slow", context({"progressToken": 1}, notify=notify)))
        await settled()
        async with asyncio.timeout(1):
            await made.call("quick", context())
        assert not slow.done()
        gate.set()
        assert value(await slow)["content"] == []
        assert 1 <= len(heard) <= most + 1  # one was being told when the others had to wait


async def test_a_caller_that_has_gone_cancels_its_call() -> None:
    """Its progress cannot be told any more."""

    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message["method"] == "tools/call":
            note = {"progressToken": message["id"], "progress": 1}
            wire.say({"method": "notifications/progress", "params": note})

    async def notify(_: str, __: Mapping[str, Any]) -> None:
        raise ConnectionResetError

    wire = ScriptedTransport(serve)
    async with opened(wire) as made:
        with pytest.raises(ConnectionResetError):
            await made.call("t", context({"progressToken": 1}, notify=notify))
        await settled()
        assert wire.last("notifications/cancelled")["params"]["requestId"] == wire.last("tools/call")["id"]


async def test_a_cancelled_call_tells_the_server_and_its_late_answer_reaches_nobody() -> None:
    wire = ScriptedTransport()
    async with opened(wire) as made:
        task = asyncio.create_task(made.call("t", context()))
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settled()
        call = wire.last("tools/call")
        assert wire.last("notifications/cancelled")["params"]["requestId"] == call["id"]
        wire.answer(call, DONE)
        await settled()
        assert (made.rpc.unmatched, made.rpc.in_flight) == (1, 0)


async def test_a_deadline_of_ones_own_is_a_timed_out_call() -> None:
    wire = ScriptedTransport()
    async with opened(wire) as made:
        with pytest.raises(Unavailable) as late:
            await made.call("t", context(), timeout_s=0.02)
        assert (late.value.reason, late.value.delivered) == (Reason.CALL_TIMED_OUT, "unknown")
        await settled()
        assert wire.last("notifications/cancelled")


async def test_ids_are_integers_from_one_and_never_again_the_same() -> None:
    wire = ScriptedTransport(lambda wire, message: wire.answer(message, DONE) if "id" in message else None)
    async with opened(wire) as made:
        for _ in range(3):
            await made.call("t", context())
        assert [message["id"] for message in wire.sent if "id" in message] == [1, 2, 3, 4]
        assert all(
            "id" not in message for message in wire.sent if message["method"].startswith("notifications/")
        )


async def test_a_request_of_any_kind_can_be_sent() -> None:
    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message.get("method") == "prompts/get":
            wire.answer(message, {"messages": [message["params"]]})
        elif message.get("method") == "resources/read":
            wire.say({"id": message["id"], "error": {"code": -32002, "message": "gone"}})

    async with opened(ScriptedTransport(serve)) as made:
        assert value(await made.request("prompts/get", {"name": "p"})) == {"messages": [{"name": "p"}]}
        assert await made.request("resources/read", {"uri": "x"}) == RpcError(-32002, "gone")


# --- lists


async def test_all_pages_are_asked_for() -> None:
    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message["method"] == "tools/list":
            cursor = int(message["params"].get("cursor", 0))
            wire.answer(
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
async def test_a_list_that_cannot_be_had(answer: Message, expected: Any) -> None:
    """A server without the method has an empty list."""
    wire = ScriptedTransport(
        lambda wire, message: wire.say({"id": message["id"], **answer}) if "id" in message else None
    )
    async with opened(wire) as made:
        if isinstance(expected, list):
            assert (await made.list_all("tools/list", "tools")).entries == expected
        else:
            with pytest.raises(Unavailable, match=expected):
                await made.list_all("tools/list", "tools")


# --- what the server asks and tells


@pytest.mark.parametrize(
    ("asked", "expected"),
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
async def test_requests_of_the_server_are_answered(asked: str, expected: Message, identity: object) -> None:
    """Under the server's own id, also when it is one of ours."""
    wire = ScriptedTransport()
    async with opened(wire, root="/project/a b/é#?") as made:
        wire.say({"id": identity, "method": asked, "params": {}})
        await settled()
        assert wire.sent[-1] == {"jsonrpc": "2.0", "id": identity, **expected}
        assert made.rpc.unmatched == 0


async def test_a_server_that_asks_without_reading_answers_is_not_answered_for_ever() -> None:
    """What waits to be written is bounded."""
    wire = ScriptedTransport()
    async with opened(wire) as made:
        stuck = asyncio.Event()

        async def send(message: bytes) -> None:
            await stuck.wait()

        wire.send = send  # type: ignore[method-assign]  # a pipe that is full
        for n in range(1_000):
            wire.say({"id": n, "method": "ping"})
        async with asyncio.timeout(within(1)):
            while made.rpc.unmatched < 1_000 - server_requests.MAX_REPLIES:
                await asyncio.sleep(0.005)
        await settled()
        assert made.rpc.unmatched == 1_000 - server_requests.MAX_REPLIES


async def test_changes_are_told_once_in_a_while() -> None:
    """So few that nothing rests meanwhile."""
    heard = Heard()
    wire = ScriptedTransport()
    async with opened(wire, heard):
        for _ in range(90):
            wire.say({"method": "notifications/tools/list_changed"})
            wire.say({"method": "notifications/prompts/list_changed"})
        wire.say({"method": "notifications/resources/list_changed"})
        wire.say({"method": "notifications/cancelled", "params": {"requestId": 1}})
        await settled(200)
        assert heard.changes == []
        async with asyncio.timeout(within(1)):
            while not heard.changes:
                await asyncio.sleep(0.01)
        assert heard.changes == ["prompts", "resources", "tools"]


async def test_log_messages_are_kept_cleaned_and_few() -> None:
    wire = ScriptedTransport()
    async with opened(wire) as made:
        for n in range(50):
            wire.say({"method": "notifications/message", "params": {"level": "error", "data": f"\u200b{n}"}})
        wire.say({"method": "notifications/message", "params": {"data": {"a": 1}}})
        await settled(60)
        assert len(made.rpc.log_messages) == rpc.MAX_LOG_MESSAGES
        assert made.rpc.log_messages[-1] == ("info", '{"a": 1}')


async def test_a_modern_stream_of_changes_that_breaks_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What changed meanwhile nobody told, so the list counts as changed."""
    monkeypatch.setattr(change_feed, "LISTEN_AGAIN_S", 0.01)
    heard = Heard()
    wire = ScriptedTransport(modern_only(-32601), greeting={})
    async with opened(wire, heard):
        await settled()
        wire.lose(wire.last("subscriptions/listen"), Unavailable("the stream broke", "unknown"))
        async with asyncio.timeout(within(0.5)):
            while not heard.changes:
                await asyncio.sleep(0.01)
        assert [message["method"] for message in wire.sent].count("subscriptions/listen") == 2
        assert heard.changes == ["tools"]


# --- ends


async def test_the_end_of_the_connection_fails_every_call_and_is_told_once() -> None:
    heard = Heard()
    wire = ScriptedTransport()
    async with opened(wire, heard) as made:
        calls = [asyncio.create_task(made.call("t", context())) for _ in range(5)]
        await settled()
        wire.end("exited with code 1")
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [(type(one), str(one), one.delivered) for one in outcomes if isinstance(one, Unavailable)] == [
            (Unavailable, "exited with code 1", "unknown")
        ] * 5
        assert (heard.ends, made.ended) == (["exited with code 1"], "exited with code 1")
        with pytest.raises(Unavailable) as later:
            await made.call("t", context())
        assert later.value.delivered == "no"
    assert heard.ends == ["exited with code 1"]


async def test_a_session_that_is_closed_ends_its_calls_and_tells_nobody() -> None:
    heard = Heard()
    wire = ScriptedTransport()
    async with opened(wire, heard) as made:
        call = asyncio.create_task(made.call("t", context()))
        await settled()
        await made.close()
        with pytest.raises(Unavailable, match="closed"):
            await call
    assert (heard.ends, wire.closed) == ([], 2)


async def test_a_message_that_cannot_be_written_ends_the_session() -> None:
    """The sender's was not delivered, the others' may have been."""
    heard = Heard()
    wire = ScriptedTransport()
    async with opened(wire, heard) as made:
        before = asyncio.create_task(made.call("t", context()))
        await settled()
        wire.refuse = TransportEnded("it does not read")
        with pytest.raises(Unavailable) as failed:
            await made.call("t", context())
        assert failed.value.delivered == "no"
        with pytest.raises(Unavailable) as other:
            await before
        assert other.value.delivered == "unknown"
        assert heard.ends == ["it does not read"]


async def test_a_single_request_can_fail_without_the_session() -> None:
    """One HTTP exchange failed, before or after it was sent."""

    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message.get("method") == "tools/call":
            wire.lose(message, Unavailable("502", "unknown", retry_after_ms=5))

    wire = ScriptedTransport(serve)
    async with opened(wire) as made:
        with pytest.raises(Unavailable) as lost:
            await made.call("t", context())
        assert lost.value.retry_after_ms == 5
        wire.refuse = Unavailable("no network")
        with pytest.raises(Unavailable, match="no network"):
            await made.call("t", context())
        wire.refuse = None
        assert made.ended is None
        await settled()
        assert all(message["method"] != "notifications/cancelled" for message in wire.sent)


async def test_a_transport_that_breaks_its_promise_lets_nobody_wait() -> None:
    wire = ScriptedTransport()
    async with opened(wire) as made:
        call = asyncio.create_task(made.call("t", context()))
        await settled()
        wire.put(KeyError("oops"))
        with pytest.raises(Unavailable, match="failed"):
            await call


async def test_an_unreadable_answer_to_another_request_is_no_answer() -> None:
    def serve(wire: ScriptedTransport, message: Message) -> None:
        if "id" in message:
            wire.put(b'{"jsonrpc":"2.0","id":%d,"result":{"a":NaN}}' % message["id"])

    async with opened(ScriptedTransport(serve)) as made:
        with pytest.raises(Unavailable, match="no valid JSON"):
            await made.request("prompts/list")
        assert isinstance(await made.call("t", context()), ToolResult)
