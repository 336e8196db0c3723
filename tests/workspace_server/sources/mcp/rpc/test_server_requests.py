"""Which client receives a server's requests and notifications: that of the stream, of the only call, or none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc, names
from support.servers.mcp_sources.scripted_transport import INITIALIZE_RESULT, Message, ScriptedTransport
from workspace_server.call_context import CALL_ENDED, CallContext
from workspace_server.sources.mcp.rpc import server_requests
from workspace_server.sources.mcp.rpc.transport import ResponseStreamMessage
from workspace_server.sources.mcp.session import Session
from workspace_server.tool import RpcError

ANSWER = b'{ "action":"accept","n":1.10 }'
LOGGING: Message = {**INITIALIZE_RESULT, "capabilities": {"tools": {}, "logging": {}}}


@dataclass
class Caller:
    """A client with a call under way; records the requests and notifications it received."""

    name: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    notifications: list[tuple[str, Any]] = field(default_factory=list)
    answer: asyncio.Event = field(default_factory=asyncio.Event)
    suspended: bool = False
    has_ended: bool = False

    def __post_init__(self) -> None:
        self.answer.set()

    @property
    def context(self) -> CallContext:
        params = {"_meta": jsonrpc.raw(self.meta)}
        return CallContext(
            self._notify,
            self._request,
            lambda: self.suspended,
            params=params,
            caller=self.name,
            capabilities=self.capabilities,
        )

    async def _request(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        self.requests.append((method, json.loads(bytes(params) or b"null")))
        await self.answer.wait()
        return CALL_ENDED if self.has_ended else msgspec.Raw(ANSWER)

    async def _notify(self, method: str, params: Any) -> None:
        self.notifications.append((method, json.loads(jsonrpc.dumps(params))))


class FakeServer:
    """A server that keeps calls open until `finish`."""

    def __init__(self, handshake_result: Message = INITIALIZE_RESULT) -> None:
        self.transport = ScriptedTransport(self._serve, handshake_result)
        self.calls: list[Message] = []
        self.answers: dict[str, bytes] = {}
        self._send_raw = self.transport.send
        self.transport.send = self._send  # the bytes of answers count

    async def _send(self, message: bytes) -> None:
        decoded = json.loads(message)
        if "method" not in decoded:
            self.answers[str(decoded["id"])] = message
        await self._send_raw(message)

    def _serve(self, transport: ScriptedTransport, message: Message) -> None:
        if message.get("method") == names.TOOLS_CALL:
            self.calls.append(message)
        elif "id" in message and "method" in message:
            transport.answer(message, {})

    def request(self, identity: str, method: str = names.ELICIT, response_to: int | None = None) -> None:
        message: Message = {
            "jsonrpc": "2.0",
            "id": identity,
            "method": method,
            "params": {"message": identity},
        }
        text = json.dumps(message).encode()
        self.transport.put(text if response_to is None else ResponseStreamMessage(response_to, text))

    def finish(self) -> None:
        for call in self.calls:
            self.transport.answer(call, {"content": []})


@asynccontextmanager
async def calling(server: FakeServer, *callers: Caller) -> AsyncIterator[Session]:
    """Starts one call for each caller, in this order; they are answered at the end of the block."""
    session = await Session.open(
        server.transport,
        source="s",
        root="/w",
        timeout_s=5,
        on_change=lambda _: None,
        on_end=lambda _: None,
        version="1",
    )
    tasks = []
    for caller in callers:
        tasks.append(asyncio.ensure_future(session.call("t", caller.context)))
        await until(lambda: len(server.calls) == len(tasks))
    try:
        yield session
        server.finish()
        await asyncio.gather(*tasks)
    finally:
        await session.close()


async def until(done: Any) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0)


async def answered(server: FakeServer, *ids: str) -> list[Any]:
    """Waits for the answers to these requests; each is `result` or the code of an error."""
    await until(lambda: all(one in server.answers for one in ids))
    found = [json.loads(server.answers[one]) for one in ids]
    return [one["error"]["code"] if "error" in one else "result" for one in found]


async def test_the_only_client_is_asked_and_its_bytes_are_the_answer() -> None:
    server, caller = FakeServer(), Caller()
    async with calling(server, caller):
        server.request("a")
        assert await answered(server, "a") == ["result"]
        assert ANSWER in server.answers["a"]
        assert caller.requests == [(names.ELICIT, {"message": "a"})]


async def test_the_handshake_declares_all_capabilities() -> None:
    server = FakeServer()
    async with calling(server):
        declared = server.transport.last(names.INITIALIZE)["params"]["capabilities"]
        assert declared == {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}


@pytest.mark.parametrize("method", [names.ELICIT, names.SAMPLE, "something/else"])
async def test_a_request_without_a_call_is_refused(method: str) -> None:
    server = FakeServer()
    async with calling(server):
        server.request("a", method)
        assert await answered(server, "a") == [-32601]


async def test_with_two_clients_the_request_is_refused_with_a_hint() -> None:
    server, callers = FakeServer(), [Caller("one"), Caller("two")]
    async with calling(server, *callers):
        server.request("a", names.SAMPLE)
        assert await answered(server, "a") == [-32603]
        assert b"sharing" in server.answers["a"]
        assert [caller.requests for caller in callers] == [[], []]


async def test_the_latest_of_two_calls_of_a_session_is_asked() -> None:
    server, callers = FakeServer(), [Caller("one"), Caller("one")]
    async with calling(server, *callers):
        server.request("a")
        await answered(server, "a")
        assert [len(caller.requests) for caller in callers] == [0, 1]


async def test_if_the_asked_call_ends_the_one_before_it_is_asked() -> None:
    server, callers = FakeServer(), [Caller("one"), Caller("one"), Caller("one")]
    callers[1].has_ended = callers[2].has_ended = True
    async with calling(server, *callers):
        server.request("a")
        assert await answered(server, "a") == ["result"]
        assert [len(caller.requests) for caller in callers] == [1, 1, 1]
        callers[0].has_ended = True
        server.request("b")
        assert await answered(server, "b") == [-32603]


async def test_two_stateless_calls_count_as_two_clients() -> None:
    server, callers = FakeServer(), [Caller(), Caller()]
    async with calling(server, *callers):
        server.request("a")
        assert await answered(server, "a") == [-32603]


@pytest.mark.parametrize(
    ("suspended", "expected"),
    [
        ((True, False), [0, 1]),
        ((False, True), [1, 0]),
        ((True, True), [0, 0]),
        ((True,), [1]),
        ((True, True, False), [0, 0, 1]),
        ((True, False, False), [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("client_names", [("", "", ""), ("one", "two", "three")])
async def test_suspended_calls_do_not_count_as_clients(
    suspended: tuple[bool, ...], expected: list[int], client_names: tuple[str, ...]
) -> None:
    """Otherwise a client that never returns would block the requests to all others."""
    server = FakeServer(LOGGING)
    callers = [
        Caller(name, suspended=is_suspended, meta={names.META_LOG_LEVEL: "debug"})
        for name, is_suspended in zip(client_names, suspended, strict=False)
    ]
    async with calling(server, *callers):
        server.request("a")
        assert await answered(server, "a") == ["result" if any(expected) else -32603]
        assert [len(caller.requests) for caller in callers] == expected
        server.transport.deliver(log("info"))
    assert [len(levels(caller)) for caller in callers] == expected


async def test_a_resumed_call_counts_as_a_client_again() -> None:
    server, callers = FakeServer(), [Caller("one", suspended=True), Caller("two")]
    async with calling(server, *callers):
        server.request("a")
        assert await answered(server, "a") == ["result"]
        callers[0].suspended = False
        server.request("b")
        assert await answered(server, "b") == [-32603]
        assert [len(caller.requests) for caller in callers] == [0, 1]


async def test_the_response_stream_determines_the_client() -> None:
    """Over HTTP, a request on the response stream of a call belongs to that call only."""
    server, callers = FakeServer(), [Caller("one"), Caller("two")]
    async with calling(server, *callers):
        first, second = (call["id"] for call in server.calls)
        server.request("a", response_to=first)
        server.request("b", response_to=second)
        server.request("c", response_to=second + 1)
        assert await answered(server, "a", "b", "c") == ["result", "result", -32601]
        assert [caller.requests for caller in callers] == [
            [(names.ELICIT, {"message": "a"})],
            [(names.ELICIT, {"message": "b"})],
        ]


@given(
    st.lists(st.sampled_from(["", "x", "y"]), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6),
)
def test_no_client_is_asked_for_another(
    client_names: list[str], requests: Sequence[tuple[int, bool]]
) -> None:
    """Without a response stream a request is delivered only if all calls belong to one client."""

    async def run() -> None:
        server, callers = FakeServer(), [Caller(name) for name in client_names]
        async with calling(server, *callers):
            expected: list[list[str]] = [[] for _ in callers]
            for number, (about, with_stream) in enumerate(requests):
                at = about % len(callers)
                alone = len(callers) == 1 or (len(set(client_names)) == 1 and "" not in client_names)
                server.request(f"{number}", response_to=server.calls[at]["id"] if with_stream else None)
                if with_stream:
                    expected[at].append(f"{number}")
                elif alone:
                    expected[-1].append(f"{number}")
            await answered(server, *(f"{number}" for number in range(len(requests))))
            assert [[request[1]["message"] for request in caller.requests] for caller in callers] == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("callers", "from_client"),
    [
        ([], False),
        ([Caller(capabilities={"roots": {}})], True),
        ([Caller()], False),
        ([Caller("a", {"roots": {}}), Caller("b", {"roots": {}})], False),
    ],
)
async def test_roots_are_the_clients_or_else_the_workspace(callers: list[Caller], from_client: bool) -> None:
    server = FakeServer()
    async with calling(server, *callers) as session:
        server.request("a", names.ROOTS_LIST)
        await answered(server, "a")
        assert (b"file:///w" in server.answers["a"]) is not from_client
        assert session.rpc.roots_sent is not from_client


async def test_a_request_that_the_server_cancels_is_not_answered() -> None:
    server, caller = FakeServer(), Caller()
    caller.answer.clear()
    async with calling(server, caller) as session:
        server.request("a")
        await until(lambda: caller.requests)
        server.transport.deliver({"method": names.CANCELLED, "params": {"requestId": "a"}})
        server.request("b")
        await until(lambda: len(caller.requests) == 2)
        caller.answer.set()
        assert await answered(server, "b") == ["result"]
        assert "a" not in server.answers
        assert session.rpc.unmatched == 0


async def test_too_many_open_requests_are_refused_and_pings_still_answered() -> None:
    """The limit counts only requests that wait for a client."""
    server, caller = FakeServer(), Caller()
    caller.answer.clear()
    async with calling(server, caller):
        for number in range(server_requests.MAX_ASKED):
            server.request(f"{number}")
            await until(lambda number=number: len(caller.requests) == number + 1)
        server.request("more")
        server.request("ping", names.PING)
        assert await answered(server, "more", "ping") == [-32603, "result"]
        assert len(caller.requests) == server_requests.MAX_ASKED
        caller.answer.set()
        await answered(server, *(f"{number}" for number in range(server_requests.MAX_ASKED)))
        server.request("later")
        assert await answered(server, "later") == ["result"]


async def test_a_thousand_requests_at_once_are_limited() -> None:
    server, caller = FakeServer(), Caller()
    caller.answer.clear()
    async with calling(server, caller) as session:
        for number in range(1_000):
            server.request(f"{number}")
        await until(lambda: len(caller.requests) + len(server.answers) + session.rpc.unmatched == 1_000)
        assert 0 < len(caller.requests) <= server_requests.MAX_ASKED
        caller.answer.set()


async def test_a_request_that_is_too_large_is_refused() -> None:
    server, caller = FakeServer(), Caller()
    async with calling(server, caller):
        params = {"message": "x" * server_requests.MAX_QUESTION}
        server.transport.deliver({"id": "a", "method": names.SAMPLE, "params": params})
        assert await answered(server, "a") == [-32602]
        assert caller.requests == []


async def test_roots_requested_during_the_handshake_are_the_workspace() -> None:
    """No client is connected at that time."""
    answers: list[Message] = []

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message.get("method") == names.INITIALIZE:
            for identity, method in enumerate((names.ELICIT, names.SAMPLE, names.ROOTS_LIST, names.PING)):
                transport.deliver({"id": identity, "method": method, "params": {}})
        elif "method" not in message:
            answers.append(message)
            if len(answers) == 4:
                transport.answer(transport.last(names.INITIALIZE), INITIALIZE_RESULT)

    server = FakeServer()
    server.transport = ScriptedTransport(serve, handshake_result={})
    async with calling(server):
        pass
    replies = {one["id"]: one["error"]["code"] if "error" in one else one["result"] for one in answers}
    assert replies == {0: -32601, 1: -32601, 2: {"roots": [{"uri": "file:///w", "name": "w"}]}, 3: {}}


# -- logs ----------------------------------------------------------------------------------------------------


def log(level: str) -> Message:
    return {"method": names.MESSAGE, "params": {"level": level, "logger": "l", "data": {"at": level}}}


def levels(caller: Caller) -> list[str]:
    return [params["level"] for method, params in caller.notifications if method == names.MESSAGE]


@pytest.mark.parametrize(
    ("log_level", "received"),
    [
        (None, []),
        ("debug", ["debug", "warning", "emergency"]),
        ("warning", ["warning", "emergency"]),
        ("emergency", ["emergency"]),
        ("loud", []),
    ],
)
async def test_log_messages_reach_the_client_from_its_level_on(
    log_level: str | None, received: list[str]
) -> None:
    """All of them are kept for the status."""
    server, caller = (
        FakeServer(LOGGING),
        Caller(meta={} if log_level is None else {names.META_LOG_LEVEL: log_level}),
    )
    async with calling(server, caller) as made:
        for level in ("debug", "warning", "emergency", "ignore_notification of"):
            server.transport.deliver(log(level))
        server.request("a")  # afterwards all of them were heard
        await answered(server, "a")
        server.finish()
        await until(lambda: not made.rpc.in_flight)
        assert levels(caller) == received
        assert len(made.rpc.log_messages) == 4


async def test_log_messages_are_never_broadcast() -> None:
    """If several clients have calls, only the response stream of a call identifies the client."""
    callers = [Caller("one", meta={names.META_LOG_LEVEL: "debug"}), Caller("two")]
    server = FakeServer(LOGGING)
    async with calling(server, *callers) as session:
        server.transport.deliver(log("error"))
        server.transport.put(
            ResponseStreamMessage(
                server.calls[0]["id"], json.dumps({"jsonrpc": "2.0", **log("info")}).encode()
            )
        )
        await until(lambda: len(session.rpc.log_messages) == 2)
    assert [levels(caller) for caller in callers] == [["info"], []]


async def test_a_session_server_gets_the_most_verbose_requested_level() -> None:
    """A legacy session has a single log level."""
    server = FakeServer(LOGGING)
    log_levels = ["warning", None, "debug", "error"]
    callers = [
        Caller("one", meta={} if log_level is None else {names.META_LOG_LEVEL: log_level})
        for log_level in log_levels
    ]
    async with calling(server, *callers) as session:
        requested = [
            one["params"]["level"] for one in server.transport.sent if one.get("method") == names.SET_LEVEL
        ]
        assert requested == ["warning", "debug"]
        server.finish()
        await until(lambda: not session.rpc.in_flight)
        server.calls.clear()
        last = asyncio.ensure_future(session.call("t", callers[3].context))
        await until(lambda: server.calls)
        assert server.transport.last(names.SET_LEVEL)["params"]["level"] == "error"
        server.finish()
        await last


async def test_a_server_without_logging_gets_no_log_level() -> None:
    server = FakeServer()
    async with calling(server, Caller(meta={names.META_LOG_LEVEL: "debug"})):
        assert all(one.get("method") != names.SET_LEVEL for one in server.transport.sent)
        meta = server.calls[0]["params"].get("_meta", {})
        assert names.META_LOG_LEVEL not in meta


@pytest.mark.parametrize(("session", "received"), [("one", 1), ("", 0)])
async def test_elicitation_complete_reaches_clients_with_sessions_only(session: str, received: int) -> None:
    server, caller = FakeServer(), Caller(session)
    async with calling(server, caller) as made:
        server.transport.deliver({"method": names.ELICITED, "params": {"elicitationId": "e"}})
        server.request("a")
        await answered(server, "a")
        server.finish()
        await until(lambda: not made.rpc.in_flight)
        assert caller.notifications == [(names.ELICITED, {"elicitationId": "e"})] * received
