"""What a server asks and says by itself, and whose client hears it: by the stream, by the one call, or nobody."""

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

from protocol import jsonrpc, names
from support.servers.scripted_transport import GREETING, Message, ScriptedTransport
from workspace_server.call_context import CALL_ENDED, CallContext
from workspace_server.sources.mcp.session import server_requests as questions
from workspace_server.sources.mcp.session.session import Session
from workspace_server.sources.mcp.session.transport import ResponseStreamMessage
from workspace_server.tool import RpcError

ANSWER = b'{ "action":"accept","n":1.10 }'
LOGGING: Message = {**GREETING, "capabilities": {"tools": {}, "logging": {}}}


@dataclass
class Caller:
    """A client that is being served: what it was asked and told."""

    name: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    told: list[tuple[str, Any]] = field(default_factory=list)
    answer: asyncio.Event = field(default_factory=asyncio.Event)
    parked: bool = False
    has_ended: bool = False

    def __post_init__(self) -> None:
        self.answer.set()

    @property
    def context(self) -> CallContext:
        params = {"_meta": jsonrpc.raw(self.meta)}
        return CallContext(
            self._notify,
            self._ask,
            lambda: self.parked,
            params=params,
            caller=self.name,
            capabilities=self.capabilities,
        )

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        self.asked.append((method, json.loads(bytes(params) or b"null")))
        await self.answer.wait()
        return CALL_ENDED if self.has_ended else msgspec.Raw(ANSWER)

    async def _notify(self, method: str, params: Any) -> None:
        self.told.append((method, json.loads(jsonrpc.dumps(params))))


class Busy:
    """A server that keeps calls open until it is told to answer them."""

    def __init__(self, greeting: Message = GREETING) -> None:
        self.wire = ScriptedTransport(self._serve, greeting)
        self.calls: list[Message] = []
        self.answers: dict[str, bytes] = {}
        self._raw = self.wire.send
        self.wire.send = self._kept  # type: ignore[method-assign]  # the bytes of answers count

    async def _kept(self, message: bytes) -> None:
        decoded = json.loads(message)
        if "method" not in decoded:
            self.answers[str(decoded["id"])] = message
        await self._raw(message)

    def _serve(self, wire: ScriptedTransport, message: Message) -> None:
        if message.get("method") == names.TOOLS_CALL:
            self.calls.append(message)
        elif "id" in message and "method" in message:
            wire.answer(message, {})

    def ask(self, identity: str, method: str = names.ELICIT, beside: int | None = None) -> None:
        message: Message = {
            "jsonrpc": "2.0",
            "id": identity,
            "method": method,
            "params": {"message": identity},
        }
        text = json.dumps(message).encode()
        self.wire.put(text if beside is None else ResponseStreamMessage(beside, text))

    def finish(self) -> None:
        for call in self.calls:
            self.wire.answer(call, {"content": []})


@asynccontextmanager
async def calling(busy: Busy, *callers: Caller) -> AsyncIterator[Session]:
    """Every caller has a call under way, in this order; they are answered at the end."""
    session = await Session.open(
        busy.wire,
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
        await until(lambda: len(busy.calls) == len(tasks))
    try:
        yield session
        busy.finish()
        await asyncio.gather(*tasks)
    finally:
        await session.close()


async def until(done: Any) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0)


async def answered(busy: Busy, *identities: str) -> list[Any]:
    """The server's questions and what became of them: `result`, or the code of an error."""
    await until(lambda: all(one in busy.answers for one in identities))
    found = [json.loads(busy.answers[one]) for one in identities]
    return [one["error"]["code"] if "error" in one else "result" for one in found]


async def test_the_one_client_that_is_served_is_asked_and_its_bytes_are_the_answer() -> None:
    busy, caller = Busy(), Caller()
    async with calling(busy, caller):
        busy.ask("a")
        assert await answered(busy, "a") == ["result"]
        assert ANSWER in busy.answers["a"]
        assert caller.asked == [(names.ELICIT, {"message": "a"})]


async def test_what_we_can_do_is_declared_once() -> None:
    busy = Busy()
    async with calling(busy):
        declared = busy.wire.last(names.INITIALIZE)["params"]["capabilities"]
        assert declared == {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}


@pytest.mark.parametrize("method", [names.ELICIT, names.SAMPLE, "something/else"])
async def test_without_a_call_nobody_is_asked(method: str) -> None:
    busy = Busy()
    async with calling(busy):
        busy.ask("a", method)
        assert await answered(busy, "a") == [-32601]


async def test_of_two_clients_neither_is_asked_and_the_server_learns_what_to_do() -> None:
    busy, callers = Busy(), [Caller("one"), Caller("two")]
    async with calling(busy, *callers):
        busy.ask("a", names.SAMPLE)
        assert await answered(busy, "a") == [-32603]
        assert b"sharing" in busy.answers["a"]
        assert [caller.asked for caller in callers] == [[], []]


async def test_of_two_calls_of_one_session_the_last_is_asked() -> None:
    busy, callers = Busy(), [Caller("one"), Caller("one")]
    async with calling(busy, *callers):
        busy.ask("a")
        await answered(busy, "a")
        assert [len(caller.asked) for caller in callers] == [0, 1]


async def test_when_the_call_that_was_asked_about_ends_the_one_before_is_asked() -> None:
    busy, callers = Busy(), [Caller("one"), Caller("one"), Caller("one")]
    callers[1].has_ended = callers[2].has_ended = True
    async with calling(busy, *callers):
        busy.ask("a")
        assert await answered(busy, "a") == ["result"]
        assert [len(caller.asked) for caller in callers] == [1, 1, 1]
        callers[0].has_ended = True
        busy.ask("b")
        assert await answered(busy, "b") == [-32603]


async def test_of_two_stateless_calls_nobody_knows_whether_they_are_one_clients() -> None:
    busy, callers = Busy(), [Caller(), Caller()]
    async with calling(busy, *callers):
        busy.ask("a")
        assert await answered(busy, "a") == [-32603]


@pytest.mark.parametrize(
    ("parked", "asked"),
    [
        ((True, False), [0, 1]),
        ((False, True), [1, 0]),
        ((True, True), [0, 0]),
        ((True,), [1]),
        ((True, True, False), [0, 0, 1]),
        ((True, False, False), [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("names_of", [("", "", ""), ("one", "two", "three")])
async def test_suspended_calls_do_not_keep_other_clients_from_being_asked(
    parked: tuple[bool, ...], asked: list[int], names_of: tuple[str, ...]
) -> None:
    """A client that never returns must not spoil the server for all others; alone, it is the one that is meant."""
    busy = Busy(LOGGING)
    callers = [
        Caller(name, parked=is_suspended, meta={names.META_LOG_LEVEL: "debug"})
        for name, is_suspended in zip(names_of, parked, strict=False)
    ]
    async with calling(busy, *callers):
        busy.ask("a")
        assert await answered(busy, "a") == ["result" if any(asked) else -32603]
        assert [len(caller.asked) for caller in callers] == asked
        busy.wire.say(log("info"))
    assert [len(levels(caller)) for caller in callers] == asked


async def test_a_call_that_got_its_answer_counts_again() -> None:
    busy, callers = Busy(), [Caller("one", parked=True), Caller("two")]
    async with calling(busy, *callers):
        busy.ask("a")
        assert await answered(busy, "a") == ["result"]
        callers[0].parked = False
        busy.ask("b")
        assert await answered(busy, "b") == [-32603]
        assert [len(caller.asked) for caller in callers] == [0, 1]


async def test_the_stream_says_whom_it_concerns() -> None:
    """HTTP: a question on the answer to a request is about that request, and about no other."""
    busy, callers = Busy(), [Caller("one"), Caller("two")]
    async with calling(busy, *callers):
        first, second = (call["id"] for call in busy.calls)
        busy.ask("a", beside=first)
        busy.ask("b", beside=second)
        busy.ask("c", beside=second + 1)
        assert await answered(busy, "a", "b", "c") == ["result", "result", -32601]
        assert [caller.asked for caller in callers] == [
            [(names.ELICIT, {"message": "a"})],
            [(names.ELICIT, {"message": "b"})],
        ]


@given(
    st.lists(st.sampled_from(["", "x", "y"]), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6),
)
def test_nobody_is_ever_asked_for_another(names_of: list[str], questions: Sequence[tuple[int, bool]]) -> None:
    """By stream exactly its client; without, only where all calls under way are one caller's."""

    async def run() -> None:
        busy, callers = Busy(), [Caller(name) for name in names_of]
        async with calling(busy, *callers):
            expected: list[list[str]] = [[] for _ in callers]
            for number, (about, with_stream) in enumerate(questions):
                at = about % len(callers)
                alone = len(callers) == 1 or (len(set(names_of)) == 1 and "" not in names_of)
                busy.ask(f"{number}", beside=busy.calls[at]["id"] if with_stream else None)
                if with_stream:
                    expected[at].append(f"{number}")
                elif alone:
                    expected[-1].append(f"{number}")
            await answered(busy, *(f"{number}" for number in range(len(questions))))
            assert [[asked[1]["message"] for asked in caller.asked] for caller in callers] == expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("callers", "theirs"),
    [
        ([], False),
        ([Caller(capabilities={"roots": {}})], True),
        ([Caller()], False),
        ([Caller("a", {"roots": {}}), Caller("b", {"roots": {}})], False),
    ],
)
async def test_roots_are_the_clients_where_it_has_some_and_else_the_workspace(
    callers: list[Caller], theirs: bool
) -> None:
    busy = Busy()
    async with calling(busy, *callers) as session:
        busy.ask("a", names.ROOTS_LIST)
        await answered(busy, "a")
        assert (b"file:///w" in busy.answers["a"]) is not theirs
        assert session.rpc.roots_sent is not theirs


async def test_a_question_that_the_server_takes_back_is_not_answered() -> None:
    busy, caller = Busy(), Caller()
    caller.answer.clear()
    async with calling(busy, caller) as session:
        busy.ask("a")
        await until(lambda: caller.asked)
        busy.wire.say({"method": names.CANCELLED, "params": {"requestId": "a"}})
        busy.ask("b")
        await until(lambda: len(caller.asked) == 2)
        caller.answer.set()
        assert await answered(busy, "b") == ["result"]
        assert "a" not in busy.answers
        assert session.rpc.unmatched == 0


async def test_a_server_that_asks_without_end_is_told_so_and_still_gets_its_pings() -> None:
    """What waits for people is bounded, and does not count with what is answered at once."""
    busy, caller = Busy(), Caller()
    caller.answer.clear()
    async with calling(busy, caller):
        for number in range(questions.MAX_ASKED):
            busy.ask(f"{number}")
            await until(lambda number=number: len(caller.asked) == number + 1)
        busy.ask("more")
        busy.ask("ping", names.PING)
        assert await answered(busy, "more", "ping") == [-32603, "result"]
        assert len(caller.asked) == questions.MAX_ASKED
        caller.answer.set()
        await answered(busy, *(f"{number}" for number in range(questions.MAX_ASKED)))
        busy.ask("later")
        assert await answered(busy, "later") == ["result"]


async def test_a_thousand_questions_at_once_are_bounded() -> None:
    busy, caller = Busy(), Caller()
    caller.answer.clear()
    async with calling(busy, caller) as session:
        for number in range(1_000):
            busy.ask(f"{number}")
        await until(lambda: len(caller.asked) + len(busy.answers) + session.rpc.unmatched == 1_000)
        assert 0 < len(caller.asked) <= questions.MAX_ASKED
        caller.answer.set()


async def test_a_question_too_large_to_be_kept_is_refused() -> None:
    busy, caller = Busy(), Caller()
    async with calling(busy, caller):
        params = {"message": "x" * questions.MAX_QUESTION}
        busy.wire.say({"id": "a", "method": names.SAMPLE, "params": params})
        assert await answered(busy, "a") == [-32602]
        assert caller.asked == []


async def test_roots_requested_during_the_handshake_are_the_workspace() -> None:
    """There is no client yet whom it could mean."""
    answers: list[Message] = []

    def serve(wire: ScriptedTransport, message: Message) -> None:
        if message.get("method") == names.INITIALIZE:
            for identity, method in enumerate((names.ELICIT, names.SAMPLE, names.ROOTS_LIST, names.PING)):
                wire.say({"id": identity, "method": method, "params": {}})
        elif "method" not in message:
            answers.append(message)
            if len(answers) == 4:
                wire.answer(wire.last(names.INITIALIZE), GREETING)

    busy = Busy()
    busy.wire = ScriptedTransport(serve, greeting={})
    async with calling(busy):
        pass
    told = {one["id"]: one["error"]["code"] if "error" in one else one["result"] for one in answers}
    assert told == {0: -32601, 1: -32601, 2: {"roots": [{"uri": "file:///w", "name": "w"}]}, 3: {}}


# -- logs ----------------------------------------------------------------------------------------------------


def log(level: str) -> Message:
    return {"method": names.MESSAGE, "params": {"level": level, "logger": "l", "data": {"at": level}}}


def levels(caller: Caller) -> list[str]:
    return [params["level"] for method, params in caller.told if method == names.MESSAGE]


@pytest.mark.parametrize(
    ("wish", "heard"),
    [
        (None, []),
        ("debug", ["debug", "warning", "emergency"]),
        ("warning", ["warning", "emergency"]),
        ("emergency", ["emergency"]),
        ("loud", []),
    ],
)
async def test_log_messages_reach_the_client_that_wants_them(wish: str | None, heard: list[str]) -> None:
    """All of them are kept for status."""
    busy, caller = Busy(LOGGING), Caller(meta={} if wish is None else {names.META_LOG_LEVEL: wish})
    async with calling(busy, caller) as made:
        for level in ("debug", "warning", "emergency", "ignore_notification of"):
            busy.wire.say(log(level))
        busy.ask("a")  # afterwards all of them were heard
        await answered(busy, "a")
        busy.finish()
        await until(lambda: not made.rpc.in_flight)
        assert levels(caller) == heard
        assert len(made.rpc.log_messages) == 4


async def test_log_messages_that_may_be_about_several_clients_reach_none() -> None:
    """Never broadcast."""
    callers = [Caller("one", meta={names.META_LOG_LEVEL: "debug"}), Caller("two")]
    busy = Busy(LOGGING)
    async with calling(busy, *callers) as session:
        busy.wire.say(log("error"))
        busy.wire.put(
            ResponseStreamMessage(busy.calls[0]["id"], json.dumps({"jsonrpc": "2.0", **log("info")}).encode())
        )
        await until(lambda: len(session.rpc.log_messages) == 2)
    assert [levels(caller) for caller in callers] == [["info"], []]


async def test_a_session_server_gets_the_most_verbose_level_when_it_changes() -> None:
    """Facts 2.8: one level for a whole session."""
    busy = Busy(LOGGING)
    wishes = ["warning", None, "debug", "error"]
    callers = [Caller("one", meta={} if wish is None else {names.META_LOG_LEVEL: wish}) for wish in wishes]
    async with calling(busy, *callers) as session:
        told = [one["params"]["level"] for one in busy.wire.sent if one.get("method") == names.SET_LEVEL]
        assert told == ["warning", "debug"]
        busy.finish()
        await until(lambda: not session.rpc.in_flight)
        busy.calls.clear()
        last = asyncio.ensure_future(session.call("t", callers[3].context))
        await until(lambda: busy.calls)
        assert busy.wire.last(names.SET_LEVEL)["params"]["level"] == "error"
        busy.finish()
        await last


async def test_a_server_without_logs_is_told_no_level() -> None:
    busy = Busy()
    async with calling(busy, Caller(meta={names.META_LOG_LEVEL: "debug"})):
        assert all(one.get("method") != names.SET_LEVEL for one in busy.wire.sent)
        meta = busy.calls[0]["params"].get("_meta", {})
        assert names.META_LOG_LEVEL not in meta


@pytest.mark.parametrize(("session", "heard"), [("one", 1), ("", 0)])
async def test_that_a_page_was_opened_concerns_clients_with_sessions(session: str, heard: int) -> None:
    busy, caller = Busy(), Caller(session)
    async with calling(busy, caller) as made:
        busy.wire.say({"method": names.ELICITED, "params": {"elicitationId": "e"}})
        busy.ask("a")
        await answered(busy, "a")
        busy.finish()
        await until(lambda: not made.rpc.in_flight)
        assert caller.told == [(names.ELICITED, {"elicitationId": "e"})] * heard
