"""Calls that wait for their clients: rounds, whose answer is whose, and what nobody can do to them."""

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
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import InputRequiredResult

from protocol import jsonrpc, names
from protocol.errors import Reason, Refusal
from support.processes.timeouts import within
from workspace_server.call_context import CallContext
from workspace_server.calls.request_state import APPROVAL, SUSPENDED, RequestStates, StateBinding
from workspace_server.calls.suspended_call import MAX_QUEUED_BYTES
from workspace_server.calls.suspended_calls import SuspendedCalls
from workspace_server.tool import CallOutcome, RpcError, ToolResult

BOUND = StateBinding("tools/call", "t", {"a": 1})
ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORM = jsonrpc.raw({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}})
SAMPLE = jsonrpc.raw({"messages": [], "maxTokens": 1})
LOST = -32602
Work = Callable[[CallContext], Awaitable[CallOutcome]]


@dataclass
class Client:
    """One client of one call: each `round` is a request, with the state of the one before."""

    suspended_calls: SuspendedCalls
    work: Work
    bound: StateBinding = BOUND
    capabilities: dict[str, Any] = field(default_factory=lambda: ALL)
    caller: str = ""
    state: str | None = None
    asked: dict[str, Any] = field(default_factory=dict)
    told: list[tuple[str, Any]] = field(default_factory=list)

    async def round(self, answers: Any = None, /, **meta: Any) -> CallOutcome:
        async def notify(method: str, params: Any) -> None:
            self.told.append((method, json.loads(jsonrpc.dumps(params))))

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
            self.state, self.asked = value["requestState"], value["inputRequests"]
        return outcome


async def asks_who(context: CallContext) -> CallOutcome:
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
    client = Client(suspended_calls, asks_who)
    await client.round()
    assert client.asked == {"q1": {"method": "elicitation/create", "params": json.loads(bytes(FORM))}}
    answer = b'{ "action":"accept", "content":{"n":1.10,"x":"\\u00e9"} }'
    outcome = await client.round({"q1": msgspec.Raw(answer)})
    assert outcome == ToolResult(answer.decode())


async def test_questions_of_one_moment_go_out_together_and_missing_answers_are_asked_for_again(
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
    await client.round()
    assert [one["method"] for one in client.asked.values()] == [names.ELICIT, names.SAMPLE, names.ROOTS_LIST]
    assert "params" not in client.asked["q3"], "there were none"
    first = client.state
    await client.round({"q1": {"n": 1}, "q2": "no object", "other": {}})
    assert client.asked.keys() == {"q2", "q3"}
    assert client.state != first
    await client.round()
    assert client.asked.keys() == {"q2", "q3"}, "a round without any answer"
    assert await client.round({"q2": {"n": 2}, "q3": {"n": 3}}) == ToolResult('{"n":1} {"n":2} {"n":3}')


async def test_questions_one_after_the_other_take_rounds(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        for _ in range(3):
            await context.ask(names.ELICIT, FORM)
        return ToolResult("done")

    client = Client(suspended_calls, work)
    await client.round()
    for number in (1, 2):
        await client.round({f"q{number}": {}})
        assert client.asked.keys() == {f"q{number + 1}"}
    assert await client.round({"q3": {}}) == ToolResult("done")


async def test_a_call_is_parked_from_its_question_going_out_until_its_client_is_back(
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
    await client.round()
    assert (seen, inner.is_suspended()) == ([False], True)
    await client.round({"q1": {}})
    assert (seen, inner.is_suspended()) == ([False, False], True)
    await client.round({"q2": {}})
    assert (seen, inner.is_suspended()) == ([False] * 3, False)


# -- what nobody can do ------------------------------------------------------------------------------------


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
    client = Client(suspended_calls, asks_who)
    await client.round()
    ran: list[str] = []

    async def never(context: CallContext) -> CallOutcome:
        ran.append("it did")
        return ToolResult("")

    thief = Client(suspended_calls, never, state=client.state, **other)
    outcome = await thief.round({"q1": {"stolen": True}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST
    assert ran == []
    assert await client.round({"q1": {"n": 1}}) == ToolResult('{"n":1}')


async def test_a_state_is_good_once(suspended_calls: SuspendedCalls) -> None:
    """Replayed before the end, at the same time, and after it."""

    async def twice(context: CallContext) -> CallOutcome:
        await context.ask(names.ELICIT, FORM)
        return await asks_who(context)

    client = Client(suspended_calls, twice)
    await client.round()
    copy = replace(client)
    both = await asyncio.gather(client.round({"q1": {}}), copy.round({"q1": {}}))
    assert sorted(isinstance(one, RpcError) for one in both) == [False, True]
    winner = client if isinstance(both[0], msgspec.Raw) else copy
    last = replace(winner)
    assert await winner.round({"q2": {"n": 2}}) == ToolResult('{"n":2}')
    outcome = await last.round({"q2": {"n": 3}})
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
    outcome = await Client(suspended_calls, asks_who, state=made_up).round({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST


@pytest.mark.parametrize("kind", [APPROVAL, SUSPENDED])
async def test_a_state_that_is_not_for_going_on_runs_nothing(kind: str) -> None:
    """A question about an approval, and a call that is not there any more."""
    states = RequestStates("w")
    client = Client(SuspendedCalls(states), asks_who)
    client.state = states.seal(kind, BOUND, time.time(), "nobody")
    outcome = await client.round({"q1": {}})
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
            return await asks_who(context)
        finally:
            ended.set()

    monkeypatch.setattr(states, "seal", slowly)
    leaving = asyncio.ensure_future(Client(suspended_calls, work).round())
    async with asyncio.timeout(within(1)):
        while not sealing.is_set():
            await asyncio.sleep(0.001)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    gate.set()
    assert leaving.cancelled()
    assert ended.is_set()
    assert isinstance(await Client(suspended_calls, asks_who).round(), msgspec.Raw)
    await suspended_calls.close()


async def test_another_run_of_the_server_says_to_call_again() -> None:
    """A call is lost with the process it ran in, never half of it."""
    states = RequestStates("w")
    client = Client(SuspendedCalls(states), asks_who)
    await client.round()
    before, client.suspended_calls = client.suspended_calls, SuspendedCalls(states)
    outcome = await client.round({"q1": {}})
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
    await client.round()
    async with asyncio.timeout(within(1)):
        while not heard:
            await asyncio.sleep(0.01)
    assert heard == ["cancelled"]
    assert isinstance(await client.round({"q1": {}}), RpcError)


async def test_so_many_calls_wait_and_no_more() -> None:
    suspended_calls = SuspendedCalls(RequestStates("w"), most=2)
    clients = [Client(suspended_calls, asks_who) for _ in range(3)]
    outcomes = [await client.round() for client in clients]
    assert isinstance(outcomes[2], Refusal)
    assert outcomes[2].reason is Reason.OVERLOADED
    assert await clients[0].round({"q1": {}}) == ToolResult("{}")
    assert isinstance(await clients[2].round(), msgspec.Raw), "there is room again"
    await suspended_calls.close()


async def test_calls_that_come_to_wait_at_the_same_time_are_counted_too() -> None:
    suspended_calls = SuspendedCalls(RequestStates("w"), most=2)
    clients = [Client(suspended_calls, asks_who) for _ in range(6)]
    outcomes = await asyncio.gather(*(client.round() for client in clients))
    assert sum(isinstance(one, Refusal) for one in outcomes) == 4
    await suspended_calls.close()


async def test_only_the_state_itself_lets_a_call_go(suspended_calls: SuspendedCalls) -> None:
    client = Client(suspended_calls, asks_who)
    await client.round()
    for stranger in ("", "lmtb2.w.held.AAAA", f"{client.state}A"):
        await suspended_calls.cancel(stranger)
    assert await client.round({"q1": {}}) == ToolResult("{}")
    again = Client(suspended_calls, asks_who)
    await again.round()
    await suspended_calls.cancel(again.state or "")
    outcome = await again.round({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST


@given(st.permutations(range(6)), st.lists(st.sampled_from(["", "a", "b"]), min_size=6, max_size=6))
@settings(max_examples=25, deadline=None)
def test_answers_reach_their_own_call_in_any_order(order: list[int], callers: list[str]) -> None:
    """Two callers at once never get each other's answer."""

    async def run() -> None:
        suspended_calls = SuspendedCalls(RequestStates("w"))
        clients = [
            Client(suspended_calls, asks_who, replace(BOUND, caller=caller), caller=caller)
            for caller in callers
        ]
        await asyncio.gather(*(client.round() for client in clients))
        outcomes = await asyncio.gather(*(clients[n].round({"q1": {"n": n}}) for n in order))
        assert outcomes == [ToolResult(f'{{"n":{n}}}') for n in order]

    asyncio.run(run())


# -- while it waits ----------------------------------------------------------------------------------------


async def test_a_client_that_leaves_during_a_round_cancels_and_between_rounds_does_not(
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
    await client.round()
    await asyncio.sleep(0)
    assert not cancelled.is_set()
    attached = asyncio.ensure_future(client.round({"q1": {}}))
    await asyncio.sleep(0.05)
    assert not cancelled.is_set()
    attached.cancel()
    await asyncio.gather(attached, return_exceptions=True)
    assert cancelled.is_set()


async def test_what_is_told_between_rounds_comes_with_the_next_one_under_its_token(
    suspended_calls: SuspendedCalls,
) -> None:
    """The last 64; log messages only to a request that wants them."""
    go_on, said = asyncio.Event(), asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        await context.progress(0)
        answering = asyncio.ensure_future(asks_who(context))
        await go_on.wait()
        for number in range(1, 101):
            await context.notify(names.PROGRESS, {"progressToken": "first", "progress": number})
        await context.notify(names.MESSAGE, {"level": "info", "data": "x"})
        said.set()
        return await answering

    client = Client(suspended_calls, work)
    await client.round(progressToken="first")
    assert client.told == [(names.PROGRESS, {"progressToken": "first", "progress": 0})]
    go_on.set()
    await said.wait()
    assert len(client.told) == 1
    assert await client.round({"q1": {}}, progressToken="second") == ToolResult("{}")
    later = client.told[1:]
    assert len(later) == 63, "the log message was the 64th, and nobody wanted it"
    assert later[-1] == (names.PROGRESS, {"progressToken": "second", "progress": 100})


async def test_what_is_told_at_length_between_rounds_is_not_kept(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        answering = asyncio.ensure_future(asks_who(context))
        while not context.is_suspended():
            await asyncio.sleep(0)
        for size in (10, MAX_QUEUED_BYTES):
            await context.notify(names.MESSAGE, {"level": "info", "data": "x" * size})
        return await answering

    client = Client(suspended_calls, work)
    await client.round()
    await client.round({"q1": {}}, **{names.META_LOG_LEVEL: "info"})
    assert [len(params["data"]) for _, params in client.told] == [10]


async def test_an_outcome_that_comes_between_rounds_waits_for_the_client(
    suspended_calls: SuspendedCalls,
) -> None:
    """A source that dies, or takes its question back."""
    over = asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        asking = asyncio.ensure_future(asks_who(context))
        await over.wait()
        asking.cancel()
        return Refusal(Reason.SOURCE_UNAVAILABLE, "it died", delivered="unknown")

    client = Client(suspended_calls, work)
    await client.round()
    over.set()
    outcome = await client.round({"q1": {}})
    assert isinstance(outcome, Refusal)


async def test_the_end_of_the_server_ends_calls_that_wait(suspended_calls: SuspendedCalls) -> None:
    ended = asyncio.Event()

    async def work(context: CallContext) -> CallOutcome:
        try:
            return await asks_who(context)
        finally:
            ended.set()

    client = Client(suspended_calls, work)
    await client.round()
    await suspended_calls.close()
    assert ended.is_set()
    outcome = await client.round({"q1": {}})
    assert isinstance(outcome, RpcError)
    assert outcome.code == LOST
    await suspended_calls.close()


async def test_a_call_that_is_ended_while_its_client_waits_says_so(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        raise asyncio.CancelledError

    outcome = await Client(suspended_calls, work).round()
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.delivered) == (Reason.WORKSPACE_SERVER_DIED, "unknown")


async def test_a_question_after_the_end_reaches_nobody(suspended_calls: SuspendedCalls) -> None:
    """A source that goes on talking about a call whose result is out."""
    kept: list[CallContext] = []

    async def work(context: CallContext) -> CallOutcome:
        kept.append(context)
        return ToolResult("done")

    client = Client(suspended_calls, work)
    assert await client.round() == ToolResult("done")
    assert isinstance(await kept[0].ask(names.ELICIT, FORM), RpcError)
    await kept[0].notify(names.PROGRESS, {"progressToken": 1, "progress": 1})
    assert client.told == []


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
async def test_a_stateless_client_without_the_capability_learns_which_and_the_call_ends(
    suspended_calls: SuspendedCalls, method: str, params: msgspec.Raw, required: Any
) -> None:
    """The source is told that the call is over, and then gets an error, too."""
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

    outcome = await Client(suspended_calls, work, capabilities={"elicitation": {"x": {}}}).round()
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
    outcome = await Client(suspended_calls, asks_who, capabilities={}, caller="a session").round()
    assert isinstance(outcome, RpcError)
    assert outcome.code == -32601


async def test_nothing_but_the_three_questions_can_be_asked(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        answer = await context.ask("tasks/get", msgspec.Raw(b"{}"))
        assert isinstance(answer, RpcError)
        return answer

    outcome = await Client(suspended_calls, work).round()
    assert isinstance(outcome, RpcError)
    assert outcome.code == -32601


# -- sources of the newer era, and pages to open -----------------------------------------------------------


async def test_a_third_partys_state_travels_inside_ours(suspended_calls: SuspendedCalls) -> None:
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
    assert await client.round({"q": {"a": 1}}) == ToolResult("done")
    assert jsonrpc.text_of(seen[1].params["requestState"]) == theirs
    assert jsonrpc.bytes_of(seen[1].params["inputResponses"]) == b'{"q":{"a":1}}', "these are for it"
    assert isinstance(await client.round({"q": {"a": 1}}), RpcError), "once"


PAGES = RpcError(
    -32042,
    "Open it first",
    jsonrpc.raw(
        {"elicitations": [{"mode": "url", "elicitationId": "e", "url": "https://x", "message": "m"}]}
    ),
)


async def test_a_page_that_has_to_be_opened_first_is_a_question_and_the_call_is_made_anew(
    suspended_calls: SuspendedCalls,
) -> None:
    """The code is not of this era."""
    seen: list[CallContext] = []

    async def work(context: CallContext) -> CallOutcome:
        seen.append(context)
        return PAGES if len(seen) == 1 else ToolResult("done")

    client = Client(suspended_calls, work)
    await client.round()
    assert client.asked["q1"]["method"] == names.ELICIT
    assert client.asked["q1"]["params"]["url"] == "https://x"
    assert await client.round({"q1": {"action": "accept"}}) == ToolResult("done")
    assert set(seen[1].params) == {"_meta"}, "answers to us are not for the source"


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}, {}, 1])
async def test_a_page_that_was_not_opened_makes_no_call(suspended_calls: SuspendedCalls, answer: Any) -> None:
    calls: list[None] = []

    async def work(context: CallContext) -> CallOutcome:
        calls.append(None)
        return PAGES

    client = Client(suspended_calls, work)
    await client.round()
    outcome = await client.round({"q1": answer})
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

    outcome = await Client(suspended_calls, work, **client).round()
    assert isinstance(outcome, RpcError)
    assert outcome.code == code
    assert (outcome == error) is (code == -32042)


async def test_what_the_work_raises_is_raised(suspended_calls: SuspendedCalls) -> None:
    async def work(context: CallContext) -> CallOutcome:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        await Client(suspended_calls, work).round()
