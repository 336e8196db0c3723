"""How a host answers calls of members: its workspace is scripted, and messages are values."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.host_calls import HostCalls
from lm_tools_bridge.team.membership import Membership, OwnOffer

IDENTITY = "ab" * 16
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write"}}


@dataclass
class Message:
    """A request or a control message, with what was answered to it."""

    subject: str
    headers: dict[str, str]
    data: bytes = b""
    reply: str = "_INBOX_bob.x"
    is_lost: bool = False
    answered: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def _msg(self) -> Message:
        """As the request of nats-py has the message."""
        return self

    async def respond(self, payload: bytes = b"", headers: dict[str, str] | None = None) -> None:
        if self.is_lost:
            raise ConnectionError
        self.answered.append((headers or {}, payload))

    @property
    def parts(self) -> list[str]:
        return [headers[parts.PART] for headers, _ in self.answered]

    @property
    def reason(self) -> str:
        return self.answered[-1][0][parts.REASON]


class Response:
    status = 200

    def __init__(self, chunks: list[bytes], content_type: str) -> None:
        self.content, self.content_type = self, content_type
        self._chunks = chunks

    async def iter_any(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class Workspace:
    """Stands for this manager's own endpoint."""

    def __init__(self) -> None:
        self.calls = 0
        self.chunks, self.content_type = [b"{}"], "application/json"
        self.listed: list[str] = []
        self.fault: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()

    @contextlib.asynccontextmanager
    async def call(self, request: jsonrpc.Request, offer: OwnOffer, caller: str) -> AsyncIterator[Response]:
        self.calls += 1
        if self.fault is not None:
            raise self.fault
        await self.may_end.wait()
        yield Response(self.chunks, self.content_type)

    async def tools(self, offer: OwnOffer, caller: str) -> dict[str, object]:
        self.listed.append(caller)
        return {"write": object()} if caller != "mallory" else {}


@dataclass
class Host:
    calls: HostCalls
    workspace: Workspace
    time: float = 0.0

    async def call(
        self, *, name: str = "write", caller: str = "bob", identity: str = IDENTITY, **headers: str
    ) -> Message:
        body = json.dumps({**CALL, "params": {"name": name}}).encode()
        message = Message(f"lmtb.call.alice.docs.{caller}", {parts.CALL: identity, **headers}, body)
        await self.calls.on_call(message)
        return message

    async def control(self, what: str, caller: str = "bob", **headers: str) -> None:
        sent = {parts.CALL: IDENTITY, parts.DO: what, **headers}
        await self.calls.on_control(Message(f"lmtb.control.alice.{caller}", sent))


@pytest.fixture
def host() -> Host:
    offers = (OwnOffer("docs", "/nowhere", policy="all"),)
    held = Membership(servers=(), name="alice", capacity=2, offers=offers)
    workspace = Workspace()
    made = Host(None, workspace)  # set below
    made.calls = HostCalls(held, workspace, now=lambda: made.time)
    return made


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0)


async def test_a_call_runs_when_its_caller_confirms_it(host: Host) -> None:
    message = await host.call()
    assert (message.parts, host.workspace.calls) == (["accepted"], 0)
    await host.control("go")
    await until(lambda: not host.calls.gate.in_flight)
    assert message.parts == ["accepted", "whole"]
    assert host.workspace.calls == 1


@pytest.mark.parametrize(
    ("content_type", "chunks", "sent"),
    [
        ("application/json", [b"{", b"}"], ["whole"]),
        ("application/json", [], ["whole"]),
        ("application/json", [b"x" * parts.PART_BYTES], ["whole"]),
        ("application/json", [b"x" * parts.PART_BYTES, b"y"], ["head", "body", "body", "end"]),
        ("text/event-stream", [b"data: 1\n\n", b"data: 2\n\n"], ["head", "body", "body", "end"]),
    ],
)
async def test_a_small_answer_is_one_message_and_events_are_sent_as_they_come(
    host: Host, content_type: str, chunks: list[bytes], sent: list[str]
) -> None:
    host.workspace.content_type, host.workspace.chunks = content_type, chunks
    message = await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    assert message.parts == ["accepted", *sent]
    assert b"".join(payload for _, payload in message.answered) == b"".join(chunks)


@pytest.mark.parametrize("reply", ["", "lmtb.call.alice.docs.bob", "$KV.lmtb_hosts.alice", "_INBOX_mallory.x",
                                   "_INBOX_bob", "_INBOX_bobby.x"])  # fmt: skip
async def test_a_call_without_the_inbox_of_its_caller_is_none(host: Host, reply: str) -> None:
    """Its sender made somebody else publish it, or makes this host publish to another subject."""
    body = json.dumps(CALL).encode()
    headers = {parts.CALL: IDENTITY, parts.AT_ONCE: "1"}
    message = Message("lmtb.call.alice.docs.bob", headers, body, reply)
    await host.calls.on_call(message)
    await asyncio.sleep(0)
    assert (message.answered, host.workspace.calls, host.calls.gate.in_flight) == ([], 0, 0)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_call_whose_acceptance_cannot_be_sent_runs_nothing(host: Host, at_once: bool) -> None:
    headers = {parts.CALL: IDENTITY, **({parts.AT_ONCE: "1"} if at_once else {})}
    message = Message("lmtb.call.alice.docs.bob", headers, json.dumps(CALL).encode(), is_lost=True)
    await host.calls.on_call(message)
    await host.control("go")
    for _ in range(5):
        await asyncio.sleep(0)
    assert (host.workspace.calls, host.calls.gate.in_flight) == (0, 0)


async def test_a_call_that_ends_while_callers_are_told_stops_nobody(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message lets the second call end."""
    monkeypatch.setattr(parts, "BEAT_S", 0.0)
    host.workspace.may_end.clear()
    first = await host.call(**{parts.AT_ONCE: "1"})
    second = await host.call(identity="cd" * 16, **{parts.AT_ONCE: "1"})
    await until(lambda: host.workspace.calls == 2)
    respond = first.respond

    async def ends_the_other(payload: bytes = b"", headers: dict[str, str] | None = None) -> None:
        await respond(payload, headers)
        if parts.Part.ALIVE.value in first.parts:
            host.workspace.may_end.set()
            await until(lambda: "whole" in second.parts and host.calls.gate.in_flight <= 1)

    host.calls._senders[IDENTITY]._respond = ends_the_other
    beats = asyncio.create_task(host.calls.beat())
    try:
        await until(lambda: not host.calls.gate.in_flight)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not beats.done()
    finally:
        beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)


async def test_a_host_that_stops_says_so_and_takes_no_more(host: Host) -> None:
    host.workspace.may_end.clear()
    message = await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: host.workspace.calls)
    await host.calls.close()
    assert (message.parts, message.reason) == (["accepted", "failed"], "stopped")
    late = await host.call(identity="cd" * 16)
    assert (late.parts, late.reason) == (["refused"], "draining")


async def test_a_confirmation_that_is_repeated_or_forged_runs_nothing(host: Host) -> None:
    await host.call()
    await host.control("go", caller="mallory")
    assert host.workspace.calls == 0
    for _ in range(3):
        await host.control("go")
    await until(lambda: not host.calls.gate.in_flight)
    await host.control("go")
    assert host.workspace.calls == 1


async def test_a_call_that_is_sent_again_is_refused(host: Host) -> None:
    await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    again = await host.call(**{parts.AT_ONCE: "1"})
    assert (again.parts, again.reason, host.workspace.calls) == (["refused"], "repeated", 1)


@pytest.mark.parametrize(
    ("subject", "body", "reason"),
    [
        ("lmtb.call.alice.other.bob", json.dumps(CALL), "unknown_offer"),
        ("lmtb.call.bert.docs.bob", json.dumps(CALL), "unknown_offer"),
        ("lmtb.call.alice.docs.bob", "{", "invalid"),
        ("lmtb.call.alice.docs.bob", '{"jsonrpc": "2.0", "method": "x"}', "invalid"),
        ("lmtb.call.alice.docs.bob", json.dumps({**CALL, "method": "initialize"}), "not_carried"),
        ("lmtb.call.alice.docs.bob", json.dumps({**CALL, "method": "prompts/get"}), "not_carried"),
        ("lmtb.call.alice.docs.bob", json.dumps({**CALL, "method": "resources/read"}), "not_carried"),
        ("lmtb.call.alice.docs.bob", json.dumps({**CALL, "method": "completion/complete"}), "not_carried"),
        ("lmtb.call.alice.docs.bob", json.dumps({**CALL, "method": "subscriptions/listen"}), "not_carried"),
    ],
)
async def test_what_is_not_offered_is_refused(host: Host, subject: str, body: str, reason: str) -> None:
    message = Message(subject, {parts.CALL: IDENTITY}, body.encode())
    await host.calls.on_call(message)
    assert (message.parts, message.reason) == (["refused"], reason)
    assert host.calls.gate.in_flight == 0


async def test_a_tool_that_is_not_listed_is_an_unknown_tool(host: Host) -> None:
    message = await host.call(name="secret", **{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    assert b"not offered" in message.answered[1][1]
    assert host.workspace.calls == 0


async def test_a_cancelled_call_ends_and_leaves_its_place(host: Host) -> None:
    host.workspace.may_end.clear()
    await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: host.workspace.calls)
    await host.control("cancel", caller="mallory")
    assert host.calls.gate.in_flight == 1
    await host.control("cancel")
    await until(lambda: not host.calls.gate.in_flight)


async def test_a_deadline_ends_a_call_as_unknown(host: Host) -> None:
    host.workspace.may_end.clear()
    message = await host.call(**{parts.AT_ONCE: "1", parts.DEADLINE: "0.01"})
    await until(lambda: not host.calls.gate.in_flight)
    assert (message.parts, message.reason) == (["accepted", "failed"], "timed_out")


async def test_an_answer_waits_until_its_caller_has_room(host: Host) -> None:
    host.workspace.chunks, host.workspace.content_type = [b"x"] * (parts.WINDOW + 5), "text/event-stream"
    message = await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: message.parts.count("body") == parts.WINDOW)
    for _ in range(20):
        await asyncio.sleep(0)
    assert message.parts.count("body") == parts.WINDOW
    await host.control("seen", **{parts.SEEN: "9999999"})  # more than was sent
    await until(lambda: not host.calls.gate.in_flight)
    assert message.parts[-1] == "end"


async def test_an_answer_that_never_ends_is_cut_off(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lm_tools_bridge.team.calls.host_calls.MAX_ANSWER_BYTES", 10)
    host.workspace.chunks, host.workspace.content_type = [b"x" * 6] * 3, "text/event-stream"
    message = await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    assert (message.parts, message.reason) == (["accepted", "head", "body", "failed"], "too_large")


async def test_a_host_that_stops_frees_calls_that_are_not_confirmed(host: Host) -> None:
    message = await host.call()
    await host.calls.close()
    assert (message.parts, message.reason) == (["accepted", "refused"], "draining")
    await host.control("go")
    assert (host.workspace.calls, host.calls.gate.in_flight) == (0, 0)


async def test_tools_are_listed_for_each_caller(host: Host) -> None:
    """Rules of a workspace may hide tools from some clients."""
    for number, caller in enumerate(("bob", "mallory", "bob")):
        body = json.dumps({**CALL, "params": {"name": "write"}}).encode()
        headers = {parts.CALL: f"{number:032x}", parts.AT_ONCE: "1"}
        reply = f"_INBOX_{caller}.x"
        await host.calls.on_call(Message(f"lmtb.call.alice.docs.{caller}", headers, body, reply))
        await until(lambda: not host.calls.gate.in_flight)
    assert host.workspace.listed == ["bob", "mallory"]
    assert host.workspace.calls == 2


async def test_a_list_of_a_narrower_offer_is_read_anew(host: Host) -> None:
    """Also if the old one is read while the offer changes."""
    await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    narrower = OwnOffer("docs", "/nowhere", policy="all", exclude=("write",))
    host.calls.membership = Membership(servers=(), name="alice", offers=(narrower,))
    await host.call(identity="cd" * 16, **{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    assert len(host.workspace.listed) == 2


async def test_callers_that_make_up_names_are_counted_together(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_tools_bridge.team.calls.host_calls.MOST_CALLERS", 2)
    for number in range(5):
        body = json.dumps(CALL).encode()
        headers = {parts.CALL: f"{number:032x}", parts.AT_ONCE: "1"}
        message = Message(f"lmtb.call.alice.docs.c{number}", headers, body, f"_INBOX_c{number}.x")
        await host.calls.on_call(message)
        await until(lambda: not host.calls.gate.in_flight)
    assert host.calls.answered == {"c0": 1, "c1": 1, "(others)": 3}


async def test_the_text_of_an_error_stays_at_the_host(host: Host) -> None:
    host.workspace.fault = OSError("/home/alice/secret is gone")
    message = await host.call(**{parts.AT_ONCE: "1"})
    await until(lambda: not host.calls.gate.in_flight)
    assert message.reason == "no_answer"
    assert "secret" not in str(message.answered)


async def test_calls_that_are_confirmed_while_a_host_stops_do_not_run(host: Host) -> None:
    """Messages arrive while others are told."""
    first, second = await host.call(), await host.call(identity="cd" * 16)
    respond = first.respond

    async def others_go_on(payload: bytes = b"", headers: dict[str, str] | None = None) -> None:
        for what in ("go", "cancel"):
            sent = {parts.CALL: "cd" * 16, parts.DO: what}
            await host.calls.on_control(Message("lmtb.control.alice.bob", sent))
        await respond(payload, headers)

    host.calls._senders[IDENTITY]._respond = others_go_on
    await host.calls.close()
    assert [one.parts for one in (first, second)] == [["accepted", "refused"]] * 2
    assert (host.workspace.calls, host.calls.gate.in_flight) == (0, 0)
