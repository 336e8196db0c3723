"""Messages between client and manager, over failures and restarts of the manager."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from manager.stdio_bridge import manager_connection, request_relay, session
from manager.stdio_bridge.bridge import Bridge
from manager.stdio_bridge.manager_connection import ManagerConnection
from manager.stdio_bridge.stdio import LineTooLong
from support.processes.timeouts import GUARD_S
from support.servers.scripted.scripted_manager import ScriptedManager, in_session
from support.servers.scripted.scripted_workspace_server import (
    Received,
    cut,
    error,
    event,
    fixed,
    held,
    never,
    result,
    stream,
)

LIST_CHANGED = {kind: {"listChanged": True} for kind in ("tools", "resources")}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}}
GREETING = {"protocolVersion": "2025-06-18", "capabilities": LIST_CHANGED, "serverInfo": {"name": "m"}}
UNKNOWN = error(-32600, "unknown session", status=404)
SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
ROUTED = {"resultType": "complete", "tools": [{"name": "routed", "inputSchema": SCHEMA}]}
META = {
    names.META_VERSION: "2026-07-28",
    names.META_CAPABILITIES: {},
}
LISTENED = {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}
ACKNOWLEDGED = event(
    {
        "jsonrpc": "2.0",
        "method": names.ACKNOWLEDGED,
        "params": {"notifications": LISTENED, "_meta": {names.META_SUBSCRIPTION: "l"}},
    }
)
DONE = event(b'{"jsonrpc":"2.0","id":%(id)s,"result":{"resultType":"complete"}}')


class FailingStarter:
    """A starter that finds nothing to start."""

    def __init__(self) -> None:
        self.asked = 0
        self.problem: str | None = None

    def start(self, now: float) -> str | None:
        self.asked += 1
        return self.problem


class Client:
    """The client's side: what it sends, and what it gets."""

    def __init__(self, manager: ScriptedManager) -> None:
        self.manager = manager
        self.starter = FailingStarter()
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._numbers = itertools.count()
        connection = ManagerConnection(manager, self.starter, "cwd=/a%20b")
        self.bridge = Bridge(connection, self._write)

    async def _write(self, line: bytes) -> None:
        assert b"\n" not in line
        self.got.put_nowait(json.loads(line))

    async def send(self, method: str, params: Any = None, identity: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method} | ({} if identity is None else {"id": identity})
        await self.bridge.take(json.dumps(message | ({} if params is None else {"params": params})).encode())

    async def next(self) -> dict[str, Any]:
        """The next message the client gets."""
        async with asyncio.timeout(GUARD_S):
            return await self.got.get()

    async def ask(self, method: str, params: Any = None, identity: Any = None) -> dict[str, Any]:
        """Send a request; the next message must be its response."""
        identity = identity or f"own-{next(self._numbers)}"
        await self.send(method, params, identity)
        answer = await self.next()
        assert answer["id"] == identity, answer
        return answer

    async def eventually(self, holds: Callable[[], object]) -> None:
        """Wait until it holds."""
        async with asyncio.timeout(GUARD_S):
            while not holds():
                await asyncio.sleep(0.01)

    async def initialize(self) -> None:
        """Open the first session."""
        opening = in_session(result(GREETING), "first")
        self.manager.answers.setdefault("initialize", [opening, in_session(result(GREETING), "second")])
        assert (await self.ask("initialize", INITIALIZE, "i"))["result"] == GREETING


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(session, "_REOPEN_S", 0.01)
    monkeypatch.setattr(request_relay, "REOPEN_S", 0.01)
    async with ScriptedManager().serving() as manager:
        one = Client(manager)
        yield one
        await one.bridge.finish()
        assert one.got.empty(), one.got


def modern(**params: Any) -> dict[str, Any]:
    """The parameters of a modern request."""
    return {**params, "_meta": META}


# -- what a request looks like over HTTP ------------------------------------------------------------------


async def test_the_clients_session_is_kept(client: Client) -> None:
    """The id and the negotiated revision come back on every later request, and the folder on all of them."""
    client.manager.answers["tools/list"] = [result({"tools": []})]
    await client.initialize()
    assert (await client.ask("tools/list"))["result"] == {"tools": []}
    (opening,) = client.manager.received["initialize"]
    assert opening.header("mcp-session-id") is None
    assert opening.header("mcp-protocol-version") is None
    (listing,) = client.manager.received["tools/list"]
    assert listing.header("mcp-session-id") == "first"
    assert listing.header("mcp-protocol-version") == "2025-06-18"
    assert opening.target == listing.target == "/mcp?cwd=/a%20b"


async def test_a_stateless_request_gets_its_headers_from_its_body(client: Client) -> None:
    """The annotated argument is repeated because the client listed the tool before."""
    client.manager.answers |= {"tools/list": [result(ROUTED)], "tools/call": [result({})]}
    await client.ask("tools/list", modern())
    await client.ask("tools/call", modern(name="routed", arguments={"region": "Süd"}))
    (call,) = client.manager.received["tools/call"]
    sent = {name: call.header(name) for name in ("mcp-protocol-version", "mcp-method", "mcp-name")}
    assert sent == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "routed",
    }
    assert call.header("mcp-param-region") == "=?base64?U8O8ZA==?="
    assert call.params["arguments"] == {"region": "Süd"}


async def test_a_call_with_mismatched_headers_is_sent_once_more(client: Client) -> None:
    """It did not run; the tools are listed anew, behind the client's back."""
    mismatch = error(-32020, "Mcp-Param-Region is missing", status=400)
    client.manager.answers |= {
        "tools/list": [result(ROUTED)],
        "tools/call": [mismatch, result({"content": []})],
    }
    answer = await client.ask("tools/call", modern(name="routed", arguments={"region": "eu"}))
    assert answer["result"] == {"content": []}
    assert [one.header("mcp-param-region") for one in client.manager.received["tools/call"]] == [None, "eu"]


async def test_a_repeated_header_mismatch_reaches_the_client(client: Client) -> None:
    client.manager.answers |= {
        "tools/list": [result(ROUTED)],
        "tools/call": [error(-32020, "no", status=400)],
    }
    answer = await client.ask("tools/call", modern(name="routed", arguments={"region": "eu"}))
    assert answer["error"]["code"] == -32020
    assert len(client.manager.received["tools/call"]) == 2


# -- answers ----------------------------------------------------------------------------------------------


async def test_messages_of_a_stream_are_forwarded_in_order(client: Client) -> None:
    """Also questions, whose answers are posted; a second response is not believed."""
    question = event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
    progress = event(
        {"jsonrpc": "2.0", "method": names.PROGRESS, "params": {"progressToken": 1, "progress": 1}}
    )
    answer = event(b'{"jsonrpc":"2.0","id":%(id)s,"result":{}}')
    answered = asyncio.Event()
    client.manager.answers["tools/call"] = [stream(progress, question, answered, answer, answer)]
    await client.initialize()
    await client.send("tools/call", {"name": "x"}, 1)
    assert [(await client.next())["method"] for _ in range(2)] == [names.PROGRESS, "roots/list"]
    await client.bridge.take(b'{"jsonrpc":"2.0","id":"q1","result":{"roots":[]}}')
    posted = await client.manager.arrival("response")
    assert posted.header("mcp-session-id") == "first"
    assert posted.message["result"] == {"roots": []}
    answered.set()
    assert await client.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_a_message_of_20_mb_is_forwarded(client: Client) -> None:
    text = "x" * 20_000_000
    client.manager.answers["tools/call"] = [result({"content": [{"type": "text", "text": text}]})]
    answer = await client.ask("tools/call", modern(name="big"))
    assert answer["result"]["content"][0]["text"] == text


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (fixed(b'{"error":"the body is too large"}', 413), -32600),
        (fixed(b"<html>", 500, "text/html"), -32603),
        (fixed(b"", 202), -32603),
        (error(-32601, "method not found", status=404), -32601),
    ],
)
async def test_a_missing_response_becomes_an_error(client: Client, answer: Any, code: int) -> None:
    client.manager.answers["tools/call"] = [answer]
    assert (await client.ask("tools/call", modern(name="x")))["error"]["code"] == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (LineTooLong(), -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"x"}', -32600),
    ],
)
async def test_an_invalid_line_is_answered_by_the_bridge(
    client: Client, line: bytes | LineTooLong, code: int
) -> None:
    await client.bridge.take(line)
    assert (await client.next())["error"]["code"] == code


async def test_a_pending_id_is_refused(client: Client) -> None:
    gate = asyncio.Event()
    client.manager.answers["tools/call"] = [held(gate, result({}))]
    await client.send("tools/call", modern(name="x"), 1)
    assert (await client.ask("ping", modern(), 1))["error"]["code"] == -32600
    gate.set()
    assert (await client.next())["result"] == {}


# -- cancelling -------------------------------------------------------------------------------------------


async def test_cancelling_a_stateless_request_closes_its_connection(client: Client) -> None:
    """A stateless request is cancelled by closing its connection; no response follows."""
    client.manager.answers["tools/call"] = [never]
    await client.send("tools/call", modern(name="x"), 1)
    call = await client.manager.arrival("tools/call")
    await client.send(names.CANCELLED, {"requestId": 1})
    async with asyncio.timeout(10):
        await call.gone.wait()
    assert not client.manager.received[names.CANCELLED]


async def test_cancelling_in_a_session_sends_a_notification(client: Client) -> None:
    """The manager then ends the request without an answer."""
    gate = asyncio.Event()
    client.manager.answers["tools/call"] = [held(gate, fixed(b"", 202))]
    await client.initialize()
    await client.send("tools/call", {"name": "x"}, 1)
    await client.manager.arrival("tools/call")
    await client.send(names.CANCELLED, {"requestId": 1})
    await client.manager.arrival(names.CANCELLED)
    gate.set()


# -- a manager that goes away -----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [cut(event({"jsonrpc": "2.0", "method": "x"})), stream()])
async def test_a_call_that_broke_off_gets_one_error_and_no_repeat(client: Client, answer: Any) -> None:
    client.manager.answers["tools/call"] = [answer]
    await client.send("tools/call", modern(name="x"), 1)
    told = [await client.next()]
    if "method" in told[-1]:
        told.append(await client.next())
    assert told[-1]["error"]["data"]["delivered"] == "unknown"
    assert len(client.manager.received["tools/call"]) == 1


async def test_a_list_that_broke_off_is_requested_again(client: Client) -> None:
    client.manager.answers["tools/list"] = [cut(b""), cut(b""), result({"tools": []})]
    assert (await client.ask("tools/list", modern()))["result"] == {"tools": []}


async def test_a_request_refused_by_a_stopping_manager_is_sent_again(client: Client) -> None:
    async def stopping(request: Any, received: Received) -> Any:
        answer = await error(47105, "the manager is stopping", status=503)(request, received)
        answer.headers["Retry-After"] = "0"
        return answer

    client.manager.answers["tools/call"] = [stopping, result({})]
    assert (await client.ask("tools/call", modern(name="x")))["result"] == {}


async def test_requests_wait_for_a_manager(client: Client) -> None:
    client.manager.runs = False
    client.manager.answers["tools/call"] = [result({})]
    await client.send("tools/call", modern(name="x"), 1)
    await client.eventually(lambda: client.starter.asked)
    client.manager.runs = True
    assert (await client.next())["result"] == {}


async def test_concurrent_requests_start_managers_one_after_the_other(client: Client) -> None:
    starting = 0

    def start(now: float) -> str | None:
        nonlocal starting
        starting += 1
        time.sleep(0.05)
        starting -= 1
        return "it is started twice at once" if starting else None

    client.starter.start = start
    client.manager.runs = False
    client.manager.answers["ping"] = [result({})]
    for identity in range(4):
        await client.send("ping", modern(), identity)
    await client.eventually(lambda: client.manager.asked > 8)
    client.manager.runs = True
    assert [(await client.next()).get("result") for _ in range(4)] == [{}] * 4


@pytest.mark.parametrize("problem", [None, "the manager does not start"])
async def test_an_unreachable_manager_is_reported_in_time(
    client: Client, monkeypatch: pytest.MonkeyPatch, problem: str | None
) -> None:
    monkeypatch.setattr(manager_connection, "TIMEOUT_S", 0)
    client.manager.runs = False
    client.starter.problem = problem
    told = (await client.ask("tools/call", modern(name="x")))["error"]
    assert (told["code"], told["data"]["delivered"]) == (47102, "no")
    assert (problem or "the manager cannot be reached") in told["message"]


# -- a session that is lost -------------------------------------------------------------------------------


async def test_a_lost_session_is_replaced_with_the_same_state(client: Client) -> None:
    """With the client's own words, its log level and its resources; it is told that lists may differ."""
    client.manager.answers |= {
        "logging/setLevel": [result({})],
        "resources/subscribe": [result({})],
        "tools/call": [UNKNOWN, result({"content": []})],
    }
    await client.initialize()
    await client.ask("logging/setLevel", {"level": "info"})
    for uri in ("a:kept", "a:dropped"):
        await client.ask("resources/subscribe", {"uri": uri})
    client.manager.answers["resources/unsubscribe"] = [result({})]
    await client.ask("resources/unsubscribe", {"uri": "a:dropped"})
    await client.send("tools/call", {"name": "x"}, 2)
    told = [await client.next() for _ in range(4)]
    assert [one.get("method") for one in told] == [
        names.TOOLS_CHANGED,
        names.RESOURCES_CHANGED,
        "notifications/resources/updated",
        None,
    ]
    assert told[2]["params"] == {"uri": "a:kept"}
    assert told[3] == {"jsonrpc": "2.0", "id": 2, "result": {"content": []}}
    received = client.manager.received
    assert [one.params for one in received["initialize"]] == [INITIALIZE, INITIALIZE]
    assert received["initialize"][1].header("mcp-session-id") is None
    for method in (names.INITIALIZED, "logging/setLevel", "resources/subscribe", "tools/call"):
        assert received[method][-1].header("mcp-session-id") == "second", method
    assert received["logging/setLevel"][1].params == {"level": "info"}
    assert [one.params["uri"] for one in received["resources/subscribe"]] == ["a:kept", "a:dropped", "a:kept"]


async def test_concurrent_requests_open_one_session(client: Client) -> None:
    client.manager.answers["tools/call"] = [UNKNOWN, UNKNOWN, UNKNOWN, result({})]
    await client.initialize()
    for identity in range(3):
        await client.send("tools/call", {"name": "x"}, identity)
    told = [await client.next() for _ in range(5)]
    assert sorted(one["id"] for one in told if "id" in one) == [0, 1, 2]
    assert len(client.manager.received["initialize"]) == 2


async def test_a_call_waits_for_a_new_session_over_two_attempts(client: Client) -> None:
    """Nobody has the call yet, so what is lost is not its answer."""
    client.manager.answers["tools/call"] = [UNKNOWN, UNKNOWN, result({})]
    await client.initialize()
    again = client.manager.answers["initialize"][-1]
    client.manager.answers["initialize"] = [cut(b": "), again]
    await client.send("tools/call", {"name": "x"}, 2)
    told = [await client.next() for _ in (*LIST_CHANGED, "answer")]
    assert told[-1]["result"] == {}
    assert len(client.manager.received["initialize"]) == 3


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (error(47111, "too many sessions", status=503), 47111),
        (fixed(b'{"error":"the body is too large"}', 413), -32600),
        (fixed(b"<html>", 500, "text/html"), -32603),
    ],
)
async def test_the_refusal_of_a_new_session_is_the_requests_error(
    client: Client, answer: Any, code: int
) -> None:
    client.manager.answers["tools/call"] = [UNKNOWN]
    await client.initialize()
    client.manager.answers["initialize"] = [answer]
    assert (await client.ask("tools/call", {"name": "x"}))["error"]["code"] == code


async def test_the_server_stream_is_resumed_where_it_ended(client: Client) -> None:
    """It goes on after the last event that was read, and what was missed is announced."""
    notification = b'id: s-1\nevent: message\ndata: {"jsonrpc":"2.0","method":"a"}\n\n'
    client.manager.answers["GET"] = [stream(b"id: s-0\ndata: \n\n", notification), stream(None)]
    await client.initialize()
    await client.send(names.INITIALIZED)
    assert (await client.next())["method"] == "a"
    assert {(await client.next())["method"] for _ in LIST_CHANGED} == {
        names.TOOLS_CHANGED,
        names.RESOURCES_CHANGED,
    }
    second = await client.manager.arrival("GET", 2)
    assert (second.header("last-event-id"), second.header("mcp-session-id")) == ("s-1", "first")
    assert second.header("content-type") is None


async def test_the_server_stream_starts_no_manager(client: Client) -> None:
    """Who stops the manager wants it stopped; the stream is there again when somebody else has started one."""
    gate = asyncio.Event()
    client.manager.answers["GET"] = [held(gate, cut(b"")), stream(None)]
    await client.initialize()
    await client.send(names.INITIALIZED)
    await client.manager.arrival("GET")
    client.manager.runs, client.manager.asked, client.starter.asked = False, 0, 0
    gate.set()
    await client.eventually(lambda: client.manager.asked > 1)
    assert client.starter.asked == 0
    client.manager.runs = True
    await client.manager.arrival("GET", 2)
    assert {(await client.next())["method"] for _ in LIST_CHANGED} <= set(names.LISTS_CHANGED)


async def test_the_session_ends_with_the_client(client: Client) -> None:
    await client.initialize()
    await client.bridge.finish()
    assert client.manager.received["DELETE"][0].header("mcp-session-id") == "first"


# -- listening without a session --------------------------------------------------------------------------


async def test_a_listen_stream_never_ends_for_the_client(client: Client) -> None:
    """Whether the manager ends it in order or not: it is opened again, and acknowledged once."""
    changed = event({"jsonrpc": "2.0", "method": names.PROMPTS_CHANGED})
    client.manager.answers[names.LISTEN] = [
        stream(ACKNOWLEDGED, changed, DONE),
        cut(ACKNOWLEDGED),
        stream(ACKNOWLEDGED, None),
    ]
    await client.send(names.LISTEN, modern(notifications=LISTENED), "l")
    told = [await client.next() for _ in range(6)]
    missed = [names.TOOLS_CHANGED, "notifications/resources/updated"]
    assert [one["method"] for one in told] == [names.ACKNOWLEDGED, names.PROMPTS_CHANGED, *missed, *missed]
    assert told[2]["params"]["_meta"] == told[3]["params"]["_meta"] == {names.META_SUBSCRIPTION: "l"}
    assert told[3]["params"]["uri"] == "a:b"
    third = await client.manager.arrival(names.LISTEN, 3)
    await client.send(names.CANCELLED, {"requestId": "l"})
    async with asyncio.timeout(10):
        await third.gone.wait()


@pytest.mark.parametrize("answer", [error(-32602, "no", status=400), stream(DONE)])
async def test_a_refused_listen_request_is_answered(client: Client, answer: Any) -> None:
    client.manager.answers[names.LISTEN] = [answer]
    await client.ask(names.LISTEN, modern(notifications={}), "l")


# -- the end ----------------------------------------------------------------------------------------------


async def test_pending_calls_can_finish_after_the_end_of_input(client: Client) -> None:
    gate = asyncio.Event()
    client.manager.answers["tools/call"] = [held(gate, result({}))]
    await client.send("tools/call", modern(name="x"), 1)
    await client.manager.arrival("tools/call")
    ending = asyncio.create_task(client.bridge.finish())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(ending), 0.05)
    gate.set()
    await ending
    assert (await client.next())["result"] == {}


async def test_what_comes_before_the_answer_to_initialize_is_held(client: Client) -> None:
    """Some clients write everything at once."""
    answers, go_on = client.manager.answers, asyncio.Event()
    answers["initialize"] = [held(go_on, in_session(result(GREETING), "first"))]
    answers["tools/list"] = [result({"tools": []})]
    await client.send("initialize", INITIALIZE, "i")
    await client.send("notifications/initialized")
    await client.send("tools/list", None, "l")
    await client.send("tools/call", {"name": "x"}, "never")
    await client.send("notifications/cancelled", {"requestId": "never"})
    await client.send("notifications/roots/list_changed")
    await client.manager.arrival("initialize")
    assert list(client.manager.received) == ["initialize"]
    go_on.set()
    assert [(await client.next())["id"] for _ in range(2)] == ["i", "l"]
    await client.manager.arrival("notifications/roots/list_changed")
    received = client.manager.received
    assert "tools/call" not in received
    for method in ("notifications/initialized", "tools/list", "notifications/roots/list_changed"):
        assert dict(received[method][0].headers)[b"Mcp-Session-Id"] == b"first"


async def test_stateless_requests_are_not_held_by_a_session_that_is_being_opened(client: Client) -> None:
    answers, go_on = client.manager.answers, asyncio.Event()
    answers["initialize"] = [held(go_on, in_session(result(GREETING), "first"))]
    answers["tools/list"] = [result({"resultType": "complete", "tools": []})]
    await client.send("initialize", INITIALIZE, "i")
    assert "result" in await client.ask("tools/list", {"_meta": META})
    go_on.set()
    assert (await client.next())["id"] == "i"


async def test_requests_behind_a_refused_initialize_are_refused_by_the_manager(client: Client) -> None:
    client.manager.answers["initialize"] = [error(-32602, "no")]
    client.manager.answers["tools/list"] = [error(-32600, "no session", status=400)]
    await client.send("initialize", INITIALIZE, "i")
    await client.send("tools/list", None, "l")
    assert [(await client.next())["error"]["message"] for _ in range(2)] == ["no", "no session"]
