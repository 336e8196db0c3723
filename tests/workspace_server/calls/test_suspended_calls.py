"""Suspended calls: input requests over several client requests, their states, and who may resume them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import InputRequiredResult

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.examples import examples
from support.processes.timeouts import within
from workspace_server.call_context import CallContext
from workspace_server.calls.request_state import APPROVAL, SUSPENDED, RequestStates, StateBinding
from workspace_server.calls.suspended_calls import MAX_QUEUED_BYTES, SuspendedCalls
from workspace_server.tool import CallOutcome, RpcError, ToolResult

BOUND = StateBinding("tools/call", "t", {"a": 1})
ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORM = jsonrpc.raw({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}})
SAMPLE = jsonrpc.raw({"messages": [], "maxTokens": 1})
LOST = -32602
Work = Callable[[CallContext], Awaitable[CallOutcome]]


@dataclass
class Client:
    """One client of one call: each `send` is a request, with the state of the one before."""

    suspended_calls: SuspendedCalls
    work: Work
    bound: StateBinding = BOUND
    capabilities: dict[str, Any] = field(default_factory=lambda: ALL)
    caller: str = ""
    state: str | None = None
    input_requests: dict[str, Any] = field(default_factory=dict)
    notifications: list[tuple[str, Any]] = field(default_factory=list)

    async def send(self, answers: Any = None, /, **meta: Any) -> CallOutcome:
        async def notify(method: str, params: Any) -> None:
            self.notifications.append((method, json.loads(jsonrpc.dumps(params))))

        params: dict[str, msgspec.Raw] = {"_meta": jsonrpc.raw(meta)}
        if self.state is not None:
            params["requestState"] = jsonrpc.raw(self.state)
        if answers is not None:
            params["inputResponses"] = jsonrpc.raw(answers)
        context = CallContext(
            notify=notify, params=params, caller=self.caller, capabilities=self.capabilities
        )
        outcome = await self.suspended_calls.run(self.bound, context, self.work)
        members = jsonrpc.members_of(outcome) if isinstance(outcome, msgspec.Raw) else {}
        if "requestState" in members and isinstance(outcome, msgspec.Raw):
            value = json.loads(jsonrpc.bytes_of(outcome))
            InputRequiredResult.model_validate(value)
            self.state, self.input_requests = value["requestState"], value["inputRequests"]
        return outcome


async def asks_once(context: CallContext) -> CallOutcome:
    """A call that gives back the bytes it was answered."""
    answer = await context.ask(names.ELICIT, FORM)
    if isinstance(answer, RpcError):
        return answer
    return ToolResult(jsonrpc.bytes_of(answer).decode())


@pytest.fixture
def suspended_calls() -> SuspendedCalls:
    return SuspendedCalls(RequestStates("w"), wall=lambda: 1e9)


async def test_a_question_goes_out_and_its_answer_comes_back_byte_for_byte(
    suspended_calls: SuspendedCalls,
) -> None:
    client = Client(suspended_calls, asks_once)
    await client.send()
    assert client.input_requests == {
        "q1": {"method": "elicitation/create", "params": json.loads(bytes(FORM))}
    }
    answer = b'{ "action":"accept", "content":{"n":1.10,"x":"\\u00e9"} }'
    outcome = await client.send({"q1": msgspec.Raw(answer)})
    assert outcome == ToolResult(answer.decode())


async def test_simultaneous_input_requests_go_together_and_stay_until_answered(
    suspended_calls: SuspendedCalls,
) -> None:
    """Facts 2.6."""

    async def work(context: CallContext) -> CallOutcome:
        asked = [(names.ELICIT, FORM), (names.SAMPLE, SAMPLE), (names.ROOTS_LIST, msgspec.Raw())]
        answers = await asyncio.gather(*(context.ask(*one) for one in asked))
        return ToolResult(
            " ".join(bytes(answer).decode() for answer in answers if isinstance(answer, msgspec.Raw))
        )

    client = Client(suspended_calls, work)
    await client.send()
    assert [one["method"] for one in client.input_requests.values()] == [
        names.ELICIT,
        names.SAMPLE,
        names.ROOTS_LIST,
    ]
    assert "params" not in client.input_requests["q3"], "there were none"
    first = client.state
    await client.send({"q1": {"n": 1}, "q2": "no object", "other": {}})
    assert client.input_requests.keys() == {"q2", "q3"}
    assert client.state != first
    await client.send()
    assert client.input_requests.keys() == {"q2", "q3"}, "a client request without any answer"
    assert await client.send({"q2": {"n": 2}, "q3": {"n": 3}}) == ToolResult('{"n":1} {"n":2} {"n":3}')


async def test_sequential_input_requests_take_one_client_request_each(
    suspended_calls: SuspendedCalls,
) -> None:
    async def work(context: CallContext) -> CallOutcome:
        for _ in range(3):
            await context.ask(names.ELICIT, FORM)
        return ToolResult("done")

    client = Client(suspended_calls, work)
    await client.send()
    for number in (1, 2):
        await client.send({f"q{number}": {}})
        assert client.input_requests.keys() == {f"q{number + 1}"}
    assert await client.send({"q3": {}}) == ToolResult("done")


async def test_a_call_is_suspended_from_its_input_request_to_the_repeated_call(
    suspended_calls: SuspendedCalls,
) -> None:
    """Half an answer brings the client back, too; it goes away again with the rest."""
    seen: list[bool] = []
    inner = CallContext()

    async def work(context: CallContext) -> CallOutcome:
        nonlocal inner
        inner = context
        seen.append(context.is_suspended())

        async def put() -> None:
            await context.ask(names.ELICIT, FORM)
            seen.append(context.is_suspended())

        await asyncio.gather(put(), put())
        return ToolResult("done")

    client = Client(suspended_calls, work)
    await client.send()
    assert (seen, inner.is_suspended()) == ([False], True)
    await client.send({"q1": {}})
    assert (seen, inner.is_suspended()) == ([False, False], True)
    await client.send({"q2": {}})
    assert (seen, inner.is_suspended()) == ([False] * 3, False)


# -- misuse of states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"bound": replace(BOUND, name="other")},
        {"bound": replace(BOUND, arguments={"a": 2})},
        {"bound": replace(BOUND, method="prompts/get")},
        {"bound": replace(BOUND, caller="thief")},
    ],
)
async def test_a_state_of_another_call_runs_nothing(suspended_calls: SuspendedCalls, other: Any) -> None:
    """And the call it belongs to goes on."""
    client = Client(suspended_calls, asks_once)
    await client.send()
    ran: list[str] = []

    async def never(context: CallContext) -> CallOutcome:
        ran.append("it did")
        return ToolResult("")

    thief = Client(suspended_calls, never, state=client.state, **other)
    outcome = await thief.send({"q1": {"stolen": True}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST
    assert ran == []
    assert await client.send({"q1": {"n": 1}}) == ToolResult('{"n":1}')


async def test_a_state_is_good_once(suspended_calls: SuspendedCalls) -> None:
    """Replayed before the end, at the same time, and after it."""

    async def twice(context: CallContext) -> CallOutcome:
        await context.ask(names.ELICIT, FORM)
        return await asks_once(context)

    client = Client(suspended_calls, twice)
    await client.send()
    copy = replace(client)
    both = await asyncio.gather(client.send({"q1": {}}), copy.send({"q1": {}}))
    assert sorted(isinstance(one, RpcError) for one in both) == [False, True]
    winner = client if isinstance(both[0], msgspec.Raw) else copy
    last = replace(winner)
    assert await winner.send({"q2": {"n": 2}}) == ToolResult('{"n":2}')
    outcome = await last.send({"q2": {"n": 3}})
    assert isinstance(outcome, RpcError)


@pytest.mark.parametrize(
    "made_up",
    [
        "lmtb2.w.held.AAAA",
        "lmtb2.w.run.",
        "lmtb2.w.open.x",
        "lmtb2.w.ask.x",
        "lmtb2.other.held.AAAA",
        "",
        "x",
        "\u00fc",
    ],
)
async def test_a_made_up_state_runs_nothing(suspended_calls: SuspendedCalls, made_up: str) -> None:
    outcome = await Client(suspended_calls, asks_once, state=made_up).send({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST


@pytest.mark.parametrize("kind", [APPROVAL, SUSPENDED])
async def test_a_state_that_is_not_for_going_on_runs_nothing(kind: str) -> None:
    """A question about an approval, and a call that is not there any more."""
    states = RequestStates("w")
    client = Client(SuspendedCalls(states), asks_once)
    client.state = states.seal(kind, BOUND, time.time(), "nobody")
    outcome = await client.send({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST


async def test_a_client_that_leaves_while_its_question_is_sealed_ends_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the place of the call is free."""
    states = RequestStates("w")
    suspended_calls = SuspendedCalls(states, most=1)
    sealing, gate, ended = threading.Event(), threading.Event(), asyncio.Event()
    seal = states.seal

    def slowly(*args: Any) -> str:
        sealing.set()
        gate.wait(10)
        return seal(*args)

    async def work(context: CallContext) -> CallOutcome:
        try:
            return await asks_once(context)
        finally:
            ended.set()

    monkeypatch.setattr(states, "seal", slowly)
    leaving = asyncio.ensure_future(Client(suspended_calls, work).send())
    async with asyncio.timeout(within(1)):
        while not sealing.is_set():
            await asyncio.sleep(0.001)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    gate.set()
    assert leaving.cancelled()
    assert ended.is_set()
    assert isinstance(await Client(suspended_calls, asks_once).send(), msgspec.Raw)
    await suspended_calls.close()


async def test_another_run_of_the_server_says_to_call_again() -> None:
    """A call is lost with the process it ran in, never half of it."""
    states = RequestStates("w")
    client = Client(SuspendedCalls(states), asks_once)
    await client.send()
    before, client.suspended_calls = client.suspended_calls, SuspendedCalls(states)
    outcome = await client.send({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert "call again" in outcome.message
    await before.close()


async def test_a_client_that_never_returns_ends_its_call() -> None:
    suspended_calls = SuspendedCalls(RequestStates("w", ttl_s=0.05))
    heard: list[Any] = []

    async def work(context: CallContext) -> CallOutcome:
        try:
            heard.append(await context.ask(names.ELICIT, FORM))
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise
        raise AssertionError

    client = Client(suspended_calls, work)
    await client.send()
    async with asyncio.timeout(within(1)):
        while not heard:
            await asyncio.sleep(0.01)
    assert heard == ["cancelled"]
    assert isinstance(await client.send({"q1": {}}), RpcError)


async def test_so_many_calls_wait_and_no_more() -> None:
    suspended_calls = SuspendedCalls(RequestStates("w"), most=2)
    clients = [Client(suspended_calls, asks_once) for _ in range(3)]
    outcomes = [await client.send() for client in clients]
    assert isinstance(outcomes[2], Refusal)
    assert outcomes[2].reason is Reason.OVERLOADED
    assert await clients[0].send({"q1": {}}) == ToolResult("{}")
    assert isinstance(await clients[2].send(), msgspec.Raw), "there is room again"
    await suspended_calls.close()


async def test_calls_that_come_to_wait_at_the_same_time_are_counted_too() -> None:
    suspended_calls = SuspendedCalls(RequestStates("w"), most=2)
    clients = [Client(suspended_calls, asks_once) for _ in range(6)]
    outcomes = await asyncio.gather(*(client.send() for client in clients))
    assert sum(isinstance(one, Refusal) for one in outcomes) == 4
    await suspended_calls.close()


async def test_only_the_state_itself_lets_a_call_go(suspended_calls: SuspendedCalls) -> None:
    client = Client(suspended_calls, asks_once)
    await client.send()
    for stranger in ("", "lmtb2.w.held.AAAA", f"{client.state}A"):
        await suspended_calls.cancel(stranger)
    assert await client.send({"q1": {}}) == ToolResult("{}")
    again = Client(suspended_calls, asks_once)
    await again.send()
    await suspended_calls.cancel(again.state or "")
    outcome = await again.send({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST


@given(st.permutations(range(6)), st.lists(st.sampled_from(["", "a", "b"]), min_size=6, max_size=6))
@examples(25)
def test_answers_reach_their_own_call_in_any_order(order: list[int], callers: list[str]) -> None:
    """Two callers at once never get each other's answer."""

    async def run() -> None:
        suspended_calls = SuspendedCalls(RequestStates("w"))
        clients = [
            Client(suspended_calls, asks_once, replace(BOUND, caller=caller), caller=caller)
            for caller in callers
        ]
        await asyncio.gather(*(client.send() for client in clients))
        outcomes = await asyncio.gather(*(clients[n].send({"q1": {"n": n}}) for n in order))
        assert outcomes == [ToolResult(f'{{"n":{n}}}') for n in order]

    asyncio.run(run())


# -- while it waits ----------------------------------------------------------------------------------------


async def test_a_disconnect_cancels_only_a_call_whose_request_is_open(
    suspended_calls: SuspendedCalls,
) -> None:
    cancelled = asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        await context.ask(names.ELICIT, FORM)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    client = Client(suspended_calls, work)
    await client.send()
    await asyncio.sleep(0)
    assert not cancelled.is_set()
    attached = asyncio.ensure_future(client.send({"q1": {}}))
    await asyncio.sleep(0.05)
    assert not cancelled.is_set()
    attached.cancel()
    await asyncio.gather(attached, return_exceptions=True)
    assert cancelled.is_set()


async def test_notifications_between_requests_come_with_the_next_and_its_token(
    suspended_calls: SuspendedCalls,
) -> None:
    """The last 64; log messages only to a request that wants them."""
    go_on, said = asyncio.Event(), asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        await context.progress(0)
        answering = asyncio.ensure_future(asks_once(context))
        await go_on.wait()
        for number in range(1, 101):
            await context.notify(names.PROGRESS, {"progressToken": "first", "progress": number})
        await context.notify(names.MESSAGE, {"level": "info", "data": "x"})
        said.set()
        return await answering

    client = Client(suspended_calls, work)
    await client.send(progressToken="first")
    assert client.notifications == [(names.PROGRESS, {"progressToken": "first", "progress": 0})]
    go_on.set()
    await said.wait()
    assert len(client.notifications) == 1
    assert await client.send({"q1": {}}, progressToken="second") == ToolResult("{}")
    later = client.notifications[1:]
    assert len(later) == 63, "the log message was the 64th, and nobody wanted it"
    assert later[-1] == (names.PROGRESS, {"progressToken": "second", "progress": 100})


async def test_large_notifications_between_requests_are_dropped(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        answering = asyncio.ensure_future(asks_once(context))
        while not context.is_suspended():
            await asyncio.sleep(0)
        for size in (10, MAX_QUEUED_BYTES):
            await context.notify(names.MESSAGE, {"level": "info", "data": "x" * size})
        return await answering

    client = Client(suspended_calls, work)
    await client.send()
    await client.send({"q1": {}}, **{names.META_LOG_LEVEL: "info"})
    assert [len(params["data"]) for _, params in client.notifications] == [10]


async def test_an_outcome_between_requests_waits_for_the_client(
    suspended_calls: SuspendedCalls,
) -> None:
    """A source that dies, or takes its question back."""
    over = asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        asking = asyncio.ensure_future(asks_once(context))
        await over.wait()
        asking.cancel()
        return Refusal(Reason.SOURCE_UNAVAILABLE, "it died", delivered="unknown")

    client = Client(suspended_calls, work)
    await client.send()
    over.set()
    outcome = await client.send({"q1": {}})
    assert isinstance(outcome, Refusal)


async def test_the_end_of_the_server_ends_calls_that_wait(suspended_calls: SuspendedCalls) -> None:
    ended = asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        try:
            return await asks_once(context)
        finally:
            ended.set()

    client = Client(suspended_calls, work)
    await client.send()
    await suspended_calls.close()
    assert ended.is_set()
    outcome = await client.send({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST
    await suspended_calls.close()


async def test_a_call_that_is_ended_while_its_client_waits_says_so(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        raise asyncio.CancelledError

    outcome = await Client(suspended_calls, work).send()
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.delivered) == (Reason.WORKSPACE_SERVER_DIED, "unknown")


async def test_an_input_request_after_the_end_gets_an_error(suspended_calls: SuspendedCalls) -> None:
    """A source that goes on talking about a call whose result is out."""
    kept: list[CallContext] = []

    async def work(context: CallContext) -> CallOutcome:
        kept.append(context)
        return ToolResult("done")

    client = Client(suspended_calls, work)
    assert await client.send() == ToolResult("done")
    assert isinstance(await kept[0].ask(names.ELICIT, FORM), RpcError)
    await kept[0].notify(names.PROGRESS, {"progressToken": 1, "progress": 1})
    assert client.notifications == []


# -- what a client cannot do -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "required"),
    [
        (names.ELICIT, FORM, {"elicitation": {"form": {}}}),
        (names.ELICIT, jsonrpc.raw({"mode": "url", "url": "https://x"}), {"elicitation": {"url": {}}}),
        (names.SAMPLE, SAMPLE, {"sampling": {}}),
        (names.ROOTS_LIST, msgspec.Raw(), {"roots": {}}),
    ],
)
async def test_a_missing_capability_of_a_stateless_client_fails_the_call(
    suspended_calls: SuspendedCalls, method: str, params: msgspec.Raw, required: Any
) -> None:
    """The source is cancelled first, and then gets an error as well."""
    happened: list[Any] = []

    async def ask(context: CallContext) -> None:
        happened.append(await context.ask(method, params))

    async def work(context: CallContext) -> CallOutcome:
        asking = asyncio.ensure_future(ask(context))
        try:
            await asyncio.Event().wait()
        finally:
            happened.append("cancelled")
        raise AssertionError(asking)

    outcome = await Client(suspended_calls, work, capabilities={"elicitation": {"x": {}}}).send()
    assert isinstance(outcome, RpcError)
    assert outcome.code == -32021
    assert outcome.data is not None
    assert json.loads(bytes(outcome.data)) == {"requiredCapabilities": required}
    async with asyncio.timeout(within(1)):
        while len(happened) < 2:
            await asyncio.sleep(0.001)
    assert happened[0] == "cancelled"
    assert isinstance(happened[1], RpcError)


async def test_in_a_session_the_source_decides_what_to_do_without(suspended_calls: SuspendedCalls) -> None:
    outcome = await Client(suspended_calls, asks_once, capabilities={}, caller="a session").send()
    assert isinstance(outcome, RpcError)
    assert outcome.code == -32601


async def test_nothing_but_the_three_questions_can_be_asked(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        answer = await context.ask("tasks/get", msgspec.Raw(b"{}"))
        assert isinstance(answer, RpcError)
        return answer

    outcome = await Client(suspended_calls, work).send()
    assert isinstance(outcome, RpcError)
    assert outcome.code == -32601


# -- sources of the newer era, and pages to open -----------------------------------------------------------


async def test_a_servers_own_state_travels_inside_ours(suspended_calls: SuspendedCalls) -> None:
    theirs = 'st\u00e4te "." \\ lmtb2.'
    result = jsonrpc.raw(
        {"resultType": "input_required", "inputRequests": {"q": {"a": 1.50}}, "requestState": theirs}
    )
    seen: list[CallContext] = []

    async def work(context: CallContext) -> CallOutcome:
        seen.append(context)
        return result if len(seen) == 1 else ToolResult("done")

    client = Client(suspended_calls, work)
    client.suspended_calls = suspended_calls
    outcome = await suspended_calls.run(BOUND, CallContext(capabilities=ALL), work)
    members = jsonrpc.members_of(outcome if isinstance(outcome, msgspec.Raw) else b"")
    assert jsonrpc.bytes_of(members["inputRequests"]) == b'{"q":{"a":1.5}}'
    client.state = jsonrpc.text_of(members["requestState"])
    assert await client.send({"q": {"a": 1}}) == ToolResult("done")
    assert jsonrpc.text_of(seen[1].params["requestState"]) == theirs
    assert jsonrpc.bytes_of(seen[1].params["inputResponses"]) == b'{"q":{"a":1}}', "these are for it"
    assert isinstance(await client.send({"q": {"a": 1}}), RpcError), "once"


PAGES = RpcError(
    -32042,
    "Open it first",
    jsonrpc.raw(
        {"elicitations": [{"mode": "url", "elicitationId": "e", "url": "https://x", "message": "m"}]}
    ),
)


async def test_a_required_page_is_an_input_request_and_the_call_is_repeated(
    suspended_calls: SuspendedCalls,
) -> None:
    """The code is not of this era."""
    seen: list[CallContext] = []

    async def work(context: CallContext) -> CallOutcome:
        seen.append(context)
        return PAGES if len(seen) == 1 else ToolResult("done")

    client = Client(suspended_calls, work)
    await client.send()
    assert client.input_requests["q1"]["method"] == names.ELICIT
    assert client.input_requests["q1"]["params"]["url"] == "https://x"
    assert await client.send({"q1": {"action": "accept"}}) == ToolResult("done")
    assert set(seen[1].params) == {"_meta"}, "answers to us are not for the source"


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}, {}, 1])
async def test_a_page_that_was_not_opened_makes_no_call(suspended_calls: SuspendedCalls, answer: Any) -> None:
    calls: list[None] = []

    async def work(context: CallContext) -> CallOutcome:
        calls.append(None)
        return PAGES

    client = Client(suspended_calls, work)
    await client.send()
    outcome = await client.send({"q1": answer})
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.APPROVAL_DENIED
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("error", "client", "code"),
    [
        (PAGES, {"caller": "a session"}, -32042),
        (PAGES, {"capabilities": {"elicitation": {}}}, -32021),
        (RpcError(-32042, "mine", jsonrpc.raw({"deep": [1]})), {}, -32042),
    ],
)
async def test_a_page_is_no_question_for_others(
    suspended_calls: SuspendedCalls, error: RpcError, client: Any, code: int
) -> None:
    """Clients with sessions know the code; those who cannot show pages learn that; others use the number."""

    async def work(context: CallContext) -> CallOutcome:
        return error

    outcome = await Client(suspended_calls, work, **client).send()
    assert isinstance(outcome, RpcError)
    assert outcome.code == code
    assert (outcome == error) is (code == -32042)


async def test_what_the_work_raises_is_raised(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        await Client(suspended_calls, work).send()
