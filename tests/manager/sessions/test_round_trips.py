"""The round trips of one request: missing answers, failed repetitions, shutdown, cancellation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal import request_state
from lm_tools_bridge.protocol.sse import encode
from manager.answers.replies import Relayed
from manager.forwarding.answer import Answer
from manager.sessions.pending_requests import PendingRequests
from manager.sessions.round_trips import RoundTrips
from support.clients.exchanges import call, legacy, session_of
from support.http.scripted_body import ScriptedBody

QUESTION = {"method": names.ELICIT, "params": {"message": "?"}}
HELD = f"{request_state.prefix('ws')}{request_state.SUSPENDED}.sealed"
PROGRESS = jsonrpc.notification(names.PROGRESS, {"progressToken": 1, "progress": 1})
DIED = Refusal(Reason.WORKSPACE_SERVER_DIED, "it died", delivered="unknown")


def response(value: Mapping[str, Any]) -> bytes:
    return jsonrpc.result(b"1", value)


def asking(state: str = "s", **pending_requests: Any) -> bytes:
    value = {"resultType": "input_required", "requestState": state, "inputRequests": pending_requests}
    return response(value)


DONE = response({"resultType": "complete", "content": []})


@dataclass
class Setup:
    """A request whose workspace server gives these answers in turn.

    Attributes:
        received: what the client got.
        repeated: the further parameters of each repetition.
        given_up: the states of calls that were given up.
    """

    answers: list[ScriptedBody | Refusal]
    patience_s: float = 60.0
    gives_up: bool = True
    received: list[Any] = field(default_factory=list)
    repeated: list[Mapping[str, msgspec.Raw]] = field(default_factory=list)
    given_up: list[str | None] = field(default_factory=list)
    pending_requests: PendingRequests = field(default_factory=PendingRequests)

    async def run(self) -> list[Any]:
        """The whole of it."""
        exchange = legacy(
            call("x", {}), session=session_of(capabilities=b'{"elicitation":{}}'), accepts_events=True
        )
        trips = RoundTrips(exchange, self.pending_requests, 10_000, self.patience_s)
        async for message in trips.messages(Relayed(self._next(), self._again, self._give_up)):
            self.received.append(json.loads(message))
        return self.received

    def _next(self) -> Answer:
        return cast("Answer", self.answers.pop(0))

    async def _again(self, more: Mapping[str, msgspec.Raw]) -> Answer | Refusal:
        self.repeated.append(more)
        return self._next()

    async def _give_up(self, state: msgspec.Raw) -> None:
        self.given_up.append(jsonrpc.text_of(state))
        if not self.gives_up:
            await asyncio.Event().wait()


def plain(body: bytes) -> ScriptedBody:
    return ScriptedBody([body], is_events=False)


def reason_of(message: Any) -> Any:
    return message["result"]["structuredContent"]["error"]["reason"]


async def test_a_final_response_is_rewritten_for_the_session() -> None:
    setup = Setup([ScriptedBody([encode(PROGRESS) + encode(DONE)])])
    progress, last = await setup.run()
    assert progress == json.loads(PROGRESS)
    assert last == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    assert setup.repeated == []


async def test_a_text_that_looks_like_an_input_request_is_not_one() -> None:
    """Only the type of the result itself counts."""
    told: dict[str, Any] = {
        "resultType": "complete",
        "content": [{"type": "text", "text": '"input_required"'}],
    }
    told["structuredContent"] = {"resultType": "input_required"}
    (last,) = await Setup([plain(response(told))]).run()
    assert last["result"]["structuredContent"] == {"resultType": "input_required"}


@pytest.mark.parametrize(("state", "given_up"), [("s", []), (HELD, [HELD])], ids=["a server's own", "held"])
async def test_an_unanswered_input_request_ends_the_request(state: str, given_up: list[str]) -> None:
    """A workspace server with a suspended call is notified; others keep no state."""
    setup = Setup([plain(asking(state, a=QUESTION))], patience_s=0.05)
    question, taken_back, last = await setup.run()
    assert taken_back == {
        "jsonrpc": "2.0",
        "method": names.CANCELLED,
        "params": {"requestId": question["id"]},
    }
    assert reason_of(last) == "question_unanswered"
    assert "within 0.05 s" in last["result"]["content"][0]["text"]
    assert (setup.given_up, setup.repeated, len(setup.pending_requests)) == (given_up, [], 0)


async def test_giving_up_a_suspended_call_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.sessions.round_trips.GIVE_UP_S", 0.01)
    setup = Setup([plain(asking(HELD, a=QUESTION))], patience_s=0.01, gives_up=False)
    async with asyncio.timeout(10):
        assert reason_of((await setup.run())[-1]) == "question_unanswered"


async def answered(setup: Setup) -> list[Any]:
    """All messages until after the response to the first input request."""
    running = asyncio.create_task(setup.run())
    async with asyncio.timeout(10):
        while not setup.received:
            await asyncio.sleep(0)
        said = jsonrpc.parse(
            jsonrpc.result(json.dumps(setup.received[0]["id"]).encode(), {"action": "accept"})
        )
        assert isinstance(said, jsonrpc.Response)
        assert setup.pending_requests.resolve(said)
        return await running


@pytest.mark.parametrize("second", [DIED, ScriptedBody([DIED])], ids=["not sent", "broken off"])
async def test_the_refusal_of_a_repeated_request_reaches_the_client(second: ScriptedBody | Refusal) -> None:
    setup = Setup([plain(asking(HELD, a=QUESTION)), second])
    assert reason_of((await answered(setup))[-1]) == "workspace_server_died"
    (more,) = setup.repeated
    assert json.loads(jsonrpc.dumps(more)) == {
        "requestState": HELD,
        "inputResponses": {"a": {"action": "accept"}},
    }


async def test_a_lost_suspended_call_is_reported_without_its_state() -> None:
    """Session clients know no request states; the call may have been executed."""
    lost = jsonrpc.error(
        b"1", jsonrpc.INVALID_PARAMS, "requestState …", {"reason": request_state.INVALID_STATE}
    )
    refused = (await answered(Setup([plain(asking(HELD, a=QUESTION)), plain(lost)])))[-1]
    assert reason_of(refused) == "question_unanswered"
    assert refused["result"]["structuredContent"]["error"]["delivered"] == "unknown"


async def test_a_state_sent_without_a_round_trip_gets_the_servers_error() -> None:
    lost = jsonrpc.error(
        b"1", jsonrpc.INVALID_PARAMS, "requestState …", {"reason": request_state.INVALID_STATE}
    )
    assert (await Setup([plain(lost)]).run())[-1]["error"]["code"] == jsonrpc.INVALID_PARAMS


async def test_shutdown_ends_the_wait_for_input() -> None:
    """Shutdown does not wait for a person."""
    setup = Setup([plain(asking(HELD, a=QUESTION))])
    running = asyncio.create_task(setup.run())
    async with asyncio.timeout(10):
        while not setup.received:
            await asyncio.sleep(0)
        setup.pending_requests.abandon()
        await running
    assert reason_of(setup.received[-1]) == "question_unanswered"
    assert "manager is stopping" in setup.received[-1]["result"]["content"][0]["text"]
    assert setup.given_up == [HELD]


async def test_a_cancelled_request_cancels_its_input_requests() -> None:
    setup = Setup([plain(asking(HELD, a=QUESTION, b=QUESTION))])
    running = asyncio.create_task(setup.run())
    async with asyncio.timeout(10):
        while len(setup.received) < 2:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    requests, cancellations = setup.received[:2], setup.received[2:]
    assert [one["params"]["requestId"] for one in cancellations] == [one["id"] for one in requests]
    assert (setup.given_up, len(setup.pending_requests)) == ([HELD], 0)
