"""A workspace server requires input from a session client, on the stream of the client's request.

The workspace server is scripted; `test_input_of_real_servers.py` has real servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientResponse, web

from lm_tools_bridge.protocol import jsonrpc, names, sse
from lm_tools_bridge.protocol.internal import request_state
from manager.sessions.round_trips import MAX_INPUT_REQUESTS, MAX_ROUND_TRIPS
from support.clients.askable_client import AskableClient
from support.clients.raw_clients import EVENTS, JSON, Answer, SessionClient
from support.http.event_stream import next_message, priming
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import (
    Answerer,
    Received,
    error,
    event,
    result,
    stream,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}, "x": 1}
ELICIT = {"method": names.ELICIT, "params": FORM}
SAMPLE = {"method": names.SAMPLE, "params": {"messages": [], "maxTokens": 5}}
ROOTS = {"method": names.ROOTS_LIST}
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
ACCEPTED = b'{"action":"accept","content":{"n":1.10}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":%d}}'


@dataclass
class Calling:
    """A request whose stream is being read."""

    client: SessionClient
    response: ClientResponse

    async def next(self) -> dict[str, Any]:
        """The next message."""
        while True:
            frame = await self.response.content.readuntil(b"\n\n")
            for one in sse.Decoder().feed(frame):
                if one.data:  # the first event of a stream only tells its id
                    return dict(json.loads(one.data))

    async def say(self, body: bytes) -> None:
        """POST a response; it is taken whatever it is."""
        answer = await self.client.post(body)
        assert (answer.status, answer.body) == (202, b"")

    async def answer(self, question: dict[str, Any], value: bytes = ACCEPTED) -> None:
        """Answer a question with a result."""
        identity = json.dumps(question["id"]).encode()
        await self.say(b'{"jsonrpc":"2.0","id":' + identity + b',"result":' + value + b"}")

    async def fail(self, question: dict[str, Any], code: int, message: str) -> None:
        """Answer a question with an error."""
        await self.say(jsonrpc.error(json.dumps(question["id"]).encode(), code, message))

    async def rest(self) -> list[dict[str, Any]]:
        """All messages up to the end of the stream."""
        return Answer(200, {"Content-Type": EVENTS}, await self.response.read()).messages


def asking(requests: dict[str, Any] | None, state: str | None = "st-é") -> dict[str, Any]:
    """A result that asks for input."""
    value = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
    return {key: member for key, member in value.items() if member is not None}


def in_turn(*answers: Answerer) -> Answerer:
    """One after the other, the last one for ever."""
    left = list(answers)

    async def answer(request: web.Request, received: Received) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request, received)

    return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path_factory.mktemp("rounds")) as running:
        yield running


@pytest.fixture
def setup(whole: RegisteredSetup) -> RegisteredSetup:
    """The registered_setup with nothing scripted yet."""
    whole.upstream.answers.clear()
    whole.upstream.received.clear()
    return whole


async def askable(
    setup: RegisteredSetup, kind: type[SessionClient] = AskableClient, *, pure: bool = True
) -> SessionClient:
    """A client at the workspace's URL, or at `/mcp` with a bound session."""
    client = await kind.connect(setup.http, setup.pure_url if pure else setup.manager.address)
    if not pure:
        assert (await client.handshake(setup.upstream.root)).payload["ok"]
    return client


@contextlib.asynccontextmanager
async def calling(
    client: SessionClient, method: str, params: dict[str, Any], identity: Any = "call-1"
) -> AsyncIterator[Calling]:
    """A request whose answer is a stream."""
    async with asyncio.timeout(10), client.open(client.body(method, params, identity)) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, EVENTS)
        yield Calling(client, response)


def calling_tool(client: SessionClient, **members: Any) -> contextlib.AbstractAsyncContextManager[Calling]:
    """A call of the tool `ask`."""
    return calling(client, names.TOOLS_CALL, {"name": "ask", "arguments": {"a": [1]}, **members})


def repeated(setup: RegisteredSetup) -> tuple[Received, Received]:
    """The request and its repetition, as they arrived."""
    sent = [one for one in setup.upstream.received if one.message["method"] in names.INPUT_METHODS]
    assert len(sent) == 2
    return sent[0], sent[1]


# The way of a question ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pure", [True, False], ids=["workspace endpoint", "bound session"])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        (names.TOOLS_CALL, {"name": "ask", "arguments": {"b": 1, "a": "é"}, "x": [1]}),
        (names.TOOLS_CALL, {"name": names.CALL_TOOL, "arguments": {"name": "ask", "arguments": {"a": 1}}}),
        (names.PROMPTS_GET, {"name": "ask", "arguments": {"a": "1"}}),
        (names.RESOURCES_READ, {"uri": "ask"}),
    ],
    ids=["tool", "wrapped tool", "prompt", "resource"],
)
async def test_an_input_request_is_sent_on_the_stream_and_answered_upstream(
    setup: RegisteredSetup, method: str, params: dict[str, Any], pure: bool
) -> None:
    """Answer and state as they came, everything else of the request once more."""
    setup.upstream.answers["ask"] = in_turn(result(asking({"who": ELICIT})), result(DONE))
    client = await askable(setup, pure=pure)
    async with calling(client, method, {**params, "_meta": {"progressToken": "t"}}, identity="é") as call:
        question = await call.next()
        assert {key: question[key] for key in ("jsonrpc", "method", "params")} == {"jsonrpc": "2.0", **ELICIT}
        await call.answer(question)
        (response,) = await call.rest()
    content = {key: value for key, value in DONE.items() if key != "resultType"}
    assert response == {"jsonrpc": "2.0", "id": "é", "result": content}
    first, second = repeated(setup)
    assert b'"inputResponses":{"who":' + ACCEPTED + b"}" in second.body
    added = {"inputResponses": {"who": json.loads(ACCEPTED)}, "requestState": "st-é"}
    assert second.message == {**first.message, "params": {**first.params, **added}}
    assert second.header("Mcp-Name") == first.header("Mcp-Name") == "ask"


async def test_input_requests_are_sent_together_and_answered_in_any_order(setup: RegisteredSetup) -> None:
    asked = asking({"a": ELICIT, "b": SAMPLE, "c": ROOTS}, state=None)
    setup.upstream.answers["ask"] = in_turn(result(asked), result(DONE))
    async with calling_tool(await askable(setup)) as call:
        questions = [await call.next() for _ in range(3)]
        assert [one["method"] for one in questions] == [names.ELICIT, names.SAMPLE, names.ROOTS_LIST]
        assert len({one["id"] for one in questions}) == 3
        for number, one in reversed(list(enumerate(questions))):
            await call.answer(one, b'{"n":%d}' % number)
        (response,) = await call.rest()
    assert response["result"]["content"] == DONE["content"]
    params = repeated(setup)[1].params
    assert list(params["inputResponses"].items()) == [("a", {"n": 0}), ("b", {"n": 1}), ("c", {"n": 2})]
    assert "requestState" not in params, "a server that keeps no state gets none"


async def test_several_round_trips_keep_their_notifications_and_answers(
    setup: RegisteredSetup,
) -> None:
    """2026-07-28: answers are those of the last round only, and so is the state."""
    response = b'{"jsonrpc":"2.0","id":%%(id)s,"result":%s}'
    legs = [asking({"a": ELICIT}, "one"), asking({"b": ELICIT}, None), DONE]
    setup.upstream.answers["ask"] = in_turn(
        *(
            stream(event(PROGRESS % number), event(response % json.dumps(leg).encode()))
            for number, leg in enumerate(legs)
        )
    )
    async with calling_tool(await askable(setup), _meta={"progressToken": "t"}) as call:
        for number in range(2):
            assert (await call.next())["params"]["progress"] == number
            await call.answer(await call.next())
        last = await call.rest()
    assert [one.get("params", {}).get("progress") for one in last] == [2, None]
    assert last[-1]["id"] == "call-1"
    sent = [one.params for one in setup.upstream.called("ask")]
    assert [list(one.get("inputResponses", {})) for one in sent] == [[], ["a"], ["b"]]
    assert [one.get("requestState") for one in sent] == [None, "one", None]


async def test_a_request_is_repeated_if_the_server_requires_only_that(setup: RegisteredSetup) -> None:
    """The client hears nothing of it; `requestState` alone is no question."""
    setup.upstream.answers["ask"] = in_turn(result(asking(None, "later")), result(DONE))
    client = await askable(setup)
    answer = await client.call("ask")
    assert not answer.is_stream
    assert answer.result["content"] == DONE["content"]
    assert repeated(setup)[1].params["requestState"] == "later"


async def test_url_elicitation_gets_an_elicitation_id(setup: RegisteredSetup) -> None:
    """2025-11-25 requires `elicitationId`, 2026-07-28 has none; one that is there stays."""
    page = {"mode": "url", "message": "Sign in", "url": "https://x.test/"}
    named = {**page, "elicitationId": "of the server"}
    requests = {"a": {"method": names.ELICIT, "params": page}, "b": {"method": names.ELICIT, "params": named}}
    setup.upstream.answers["ask"] = in_turn(result(asking(requests)), result(DONE))
    async with calling_tool(await askable(setup)) as call:
        first, second = await call.next(), await call.next()
        identity = first["params"].pop("elicitationId")
        assert (first["params"], len(identity)) == (page, 36)
        assert second["params"] == named
        for one in (first, second):
            await call.answer(one, b'{"action":"accept"}')
        await call.rest()


async def test_unknown_responses_and_those_of_other_sessions_are_ignored(setup: RegisteredSetup) -> None:
    """An answer counts in its own session and once."""
    setup.upstream.answers["ask"] = in_turn(result(asking({"a": ELICIT})), result(DONE))
    client, other_client = await askable(setup), await askable(setup)
    async with calling_tool(client) as call:
        question = await call.next()
        await Calling(other_client, call.response).answer(
            question, b'{"action":"accept","of":"other_client"}'
        )
        await Calling(SessionClient(setup.http, setup.pure_url), call.response).answer(question)
        await call.answer({"id": "lmtb-unknown"})
        await call.answer({"id": 1})
        await call.answer(question)
        await call.answer(question, b'{"action":"decline"}')
        await call.rest()
    assert repeated(setup)[1].params["inputResponses"] == {"a": json.loads(ACCEPTED)}


# Clients that do not answer -------------------------------------------------------------------------------


async def test_a_client_that_answers_with_an_error_ends_its_call(setup: RegisteredSetup) -> None:
    """As the official TypeScript server does it: a tool result with the client's words, the siblings taken back."""
    setup.upstream.answers["ask"] = result(asking({"a": ELICIT, "b": SAMPLE}))
    async with calling_tool(await askable(setup)) as call:
        first, second = await call.next(), await call.next()
        await call.fail(second, -1, "User rejected sampling")
        taken_back, response = await call.rest()
    assert (taken_back["method"], taken_back["params"]) == (names.CANCELLED, {"requestId": first["id"]})
    refused = response["result"]["structuredContent"]["error"]
    assert (refused["code"], refused["reason"], refused["delivered"]) == (
        47122,
        "question_unanswered",
        "unknown",
    )
    assert "User rejected sampling" in response["result"]["content"][0]["text"]
    assert len(setup.upstream.called("ask")) == 1, "nothing is sent again"


async def test_a_call_that_waits_for_approval_is_not_delivered(setup: RegisteredSetup) -> None:
    """Nobody has to check what became of it."""
    state = f"{request_state.prefix('ws')}{request_state.APPROVAL}.sealed"
    setup.upstream.answers["ask"] = result(asking({"a": ELICIT}, state))
    async with calling_tool(await askable(setup)) as call:
        await call.fail(await call.next(), -1, "no")
        (response,) = await call.rest()
    refused = response["result"]["structuredContent"]["error"]
    assert (refused["code"], refused["delivered"]) == (47122, "no")
    assert refused["nextStep"] == "call again when its question can be answered"


async def test_a_prompt_whose_input_request_fails_is_an_error(setup: RegisteredSetup) -> None:
    setup.upstream.answers["ask"] = result(asking({"a": ELICIT}))
    async with calling(await askable(setup), names.PROMPTS_GET, {"name": "ask"}) as call:
        await call.fail(await call.next(), -32601, "no handler")
        (response,) = await call.rest()
    assert response["error"]["code"] == 47122
    assert response["error"]["data"]["details"]["error"] == {"code": -32601, "message": "no handler"}


async def test_a_suspended_call_receives_its_clients_error(setup: RegisteredSetup) -> None:
    """A server with sessions decides what the error means, as if connected to the client directly."""
    state = f"{request_state.prefix('ws')}{request_state.SUSPENDED}.sealed"
    setup.upstream.answers["ask"] = in_turn(result(asking({"a": ELICIT, "b": ROOTS}, state)), result(DONE))
    async with calling_tool(await askable(setup)) as call:
        first, second = await call.next(), await call.next()
        await call.fail(first, -1, "not now")
        await call.answer(second, b'{"roots":[]}')
        (response,) = await call.rest()
    assert response["result"]["content"] == DONE["content"]
    failed = {"_meta": {names.META_ERROR: {"code": -1, "message": "not now"}}}
    assert repeated(setup)[1].params["inputResponses"] == {"a": failed, "b": {"roots": []}}


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        (SAMPLE, "sampling"),
        (ROOTS, "roots"),
        ({"method": names.ELICIT, "params": {"mode": "url"}}, "elicitation.url"),
    ],
)
async def test_a_client_is_asked_only_for_what_it_declared(
    setup: RegisteredSetup, question: dict[str, Any], missing: str
) -> None:
    """And the refusal says what is missing."""

    class FormsOnly(SessionClient):
        capabilities: Mapping[str, Any] = {"elicitation": {}}

    setup.upstream.answers["ask"] = result(asking({"a": ELICIT, "b": question}))
    answer = await (await askable(setup, FormsOnly)).call("ask")
    assert (answer.is_stream, answer.refusal["code"]) == (False, 47122)
    assert missing in answer.refusal["message"]


async def test_a_json_only_client_is_asked_nothing(
    setup: RegisteredSetup,
) -> None:
    """Questions go out on the request's stream, so there is no way to ask it."""
    client = await askable(setup)
    client.accept = JSON
    setup.upstream.answers["ask"] = result(asking({"a": ELICIT}))
    answer = await client.call("ask")
    assert (answer.headers["Content-Type"], answer.refusal["reason"]) == (JSON, "question_unanswered")
    (received,) = setup.upstream.called("ask")
    assert received.params["_meta"][names.META_CAPABILITIES] == {}


@pytest.mark.parametrize(
    "asked",
    [
        asking(None, None),
        asking({}, None),
        asking({"a": {"method": "ping"}}),
        asking({"a": {}}),
        asking({str(number): ROOTS for number in range(MAX_INPUT_REQUESTS + 1)}),
    ],
    ids=["nothing", "no questions", "a strange method", "no method", "too many"],
)
async def test_an_invalid_input_request_is_refused(setup: RegisteredSetup, asked: dict[str, Any]) -> None:
    setup.upstream.answers["ask"] = result(asked)
    answer = await (await askable(setup)).call("ask")
    assert (answer.error["code"], answer.error["data"]["reason"]) == (-32603, "invalid_upstream_answer")


async def test_the_number_of_round_trips_is_limited(setup: RegisteredSetup) -> None:
    setup.upstream.answers["ask"] = result(asking({"a": ROOTS}))
    async with calling_tool(await askable(setup)) as call:
        for _ in range(MAX_ROUND_TRIPS):
            await call.answer(await call.next(), b'{"roots":[]}')
        (response,) = await call.rest()
    assert response["result"]["structuredContent"]["error"]["reason"] == "question_unanswered"
    assert len(setup.upstream.called("ask")) == MAX_ROUND_TRIPS + 1


# Cancelling and leaving -----------------------------------------------------------------------------------


async def test_cancelling_cancels_the_input_request_and_ends_the_call(setup: RegisteredSetup) -> None:
    """Nothing more is said but that; the late answer is dropped, the id is free."""
    setup.upstream.answers["ask"] = in_turn(result(asking({"a": ELICIT})), result(DONE))
    client = await askable(setup)
    async with calling_tool(client) as call:
        question = await call.next()
        await client.notify(names.CANCELLED, {"requestId": "call-1"})
        (taken_back,) = await call.rest()
        await call.answer(question)
    assert (taken_back["method"], taken_back["params"]) == (names.CANCELLED, {"requestId": question["id"]})
    assert len(setup.upstream.called("ask")) == 1
    assert (await client.call("ask", identity="call-1")).result["content"] == DONE["content"]


async def test_cancelling_after_an_answer_cancels_the_repeated_request(setup: RegisteredSetup) -> None:
    setup.upstream.answers["ask"] = in_turn(result(asking({"a": ELICIT})), stream(event(PROGRESS % 1), None))
    client = await askable(setup)
    async with calling_tool(client) as call:
        await call.answer(await call.next())
        await call.next()
        await client.notify(names.CANCELLED, {"requestId": "call-1"})
        assert await call.response.read() == b""
    await asyncio.wait_for(setup.upstream.called("ask")[1].gone.wait(), 5)


async def test_a_client_that_disconnects_can_still_answer(setup: RegisteredSetup) -> None:
    """Leaving is no cancellation."""
    setup.upstream.answers["ask"] = in_turn(result(asking({"a": ELICIT})), result(DONE))
    client = await askable(setup)
    async with calling_tool(client) as call:
        question = await call.next()
    assert (await client.ask(names.PING)).result == {}
    await call.answer(question)
    async with asyncio.timeout(5):
        while len(setup.upstream.called("ask")) < 2:
            await asyncio.sleep(0.01)


async def test_an_input_request_is_replayed_after_a_reconnect(setup: RegisteredSetup) -> None:
    """The same question, once, and then the answer of the call."""
    setup.upstream.answers["ask"] = in_turn(result(asking({"a": ELICIT})), result(DONE))
    client = await askable(setup)
    async with calling_tool(client) as call:
        first = await priming(call.response)
        question = await call.next()
        transport = call.response.connection and call.response.connection.transport
        assert transport is not None
        transport.abort()
    async with client.stream(first) as again:
        assert await next_message(again) == question
        await call.answer(question)
        assert (await next_message(again))["result"]["content"] == DONE["content"]
        assert await again.content.read() == b""
    repeated(setup)


# Other differences between the protocol revisions --------------------------------------------------------


@pytest.mark.parametrize("as_stream", [False, True], ids=["json", "stream"])
async def test_results_have_no_members_of_later_revisions(setup: RegisteredSetup, as_stream: bool) -> None:
    """All else byte for byte."""
    text = b'{"ttlMs":0,"content":[],"resultType":"complete","n":1.10,"_meta":{"%s":{},"z":1}}'
    text %= names.META_SERVER.encode()
    response = b'{"jsonrpc":"2.0","id":%(id)s,"result":' + text + b"}"
    setup.upstream.answers["plain"] = (
        stream(event(PROGRESS % 0), event(response)) if as_stream else result(text)
    )
    answer = await (await askable(setup)).call("plain")
    assert answer.is_stream is as_stream
    assert b'"result":{"content":[],"n":1.10,"_meta":{"z":1}}}' in answer.body


async def test_lists_of_bound_sessions_have_no_members_of_later_revisions(setup: RegisteredSetup) -> None:
    setup.upstream.answers[names.PROMPTS_LIST] = result(
        {"resultType": "complete", "ttlMs": 5, "cacheScope": "public", "prompts": [], "x": 1}
    )
    answer = await (await askable(setup, pure=False)).ask(names.PROMPTS_LIST)
    assert answer.result == {"prompts": [], "x": 1}


@pytest.mark.parametrize(
    ("status", "sent", "expected"),
    [(200, -32602, -32002), (400, -32021, -32602), (404, -32601, -32601), (400, -32042, -32042)],
)
async def test_errors_have_the_codes_of_the_clients_revision(
    setup: RegisteredSetup, status: int, sent: int, expected: int
) -> None:
    """400 and 404 would end the session."""
    data = {"uri": "a://b", "requiredCapabilities": {"sampling": {}}}
    setup.upstream.answers["a://b"] = error(sent, "no", data, status)
    answer = await (await askable(setup)).ask(names.RESOURCES_READ, {"uri": "a://b"})
    assert (answer.status, answer.error["code"], answer.error["data"]) == (200, expected, data)


@pytest.mark.parametrize("method", sorted(names.MODERN_ONLY))
async def test_methods_of_later_revisions_are_unknown_in_a_session(
    setup: RegisteredSetup, method: str
) -> None:
    answer = await (await askable(setup)).ask(method)
    assert (answer.status, answer.error["code"]) == (200, jsonrpc.METHOD_NOT_FOUND)
