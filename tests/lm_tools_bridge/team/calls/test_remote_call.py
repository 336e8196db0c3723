"""One call to a host: which outcome each behaviour of the host has for the caller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lm_tools_bridge.team.calls import parts
from lm_tools_bridge.team.calls.remote_call import AnswerLost, Head, RemoteCall, Undelivered, Unknown
from lm_tools_bridge.team.names import CallSubject

TO = CallSubject("alice", "docs", "bob")
Headers = dict[str, str]


class Client:
    """Records what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Headers]] = []
        self.fault: Exception | None = None

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Headers | None = None
    ) -> None:
        if self.fault is not None:
            raise self.fault
        self.sent.append((subject, headers or {}))

    @property
    def controls(self) -> list[str]:
        return [headers[parts.DO] for subject, headers in self.sent if subject == "lmtb.control.alice.bob"]


class Scene:
    def __init__(self, *, at_once: bool = False, deadline_s: float = 60.0) -> None:
        self.client, self.time = Client(), 0.0
        self.call = RemoteCall(
            self.client, TO, "ab" * 16, at_once=at_once, deadline_s=deadline_s, now=lambda: self.time
        )

    def says(self, part: str, payload: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.call.take({parts.PART: part, **named}, payload)

    async def begin(self) -> Any:
        return await self.call.begin(b"{}", "inbox")

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.call.body()])


HEAD = {"Lmtb_Status": "200", "Lmtb_Type": "application/json"}


async def test_a_call_is_confirmed_once_the_host_accepts_it() -> None:
    scene = Scene()
    scene.says("accepted")
    scene.says("head", **HEAD)
    scene.says("body", b"{}", Lmtb_Seq="0")
    scene.says("end", Lmtb_Seq="1")
    assert await scene.begin() == Head(200, "application/json")
    assert await scene.body() == b"{}"
    await scene.call.cancel()
    assert scene.client.controls == ["go"]


async def test_a_call_that_may_repeat_needs_no_confirmation() -> None:
    scene = Scene(at_once=True)
    scene.says("accepted")
    scene.says("head", **HEAD)
    assert await scene.begin() == Head(200, "application/json")
    assert parts.AT_ONCE in scene.client.sent[0][1]
    assert scene.client.controls == []


async def test_nobody_there_means_undelivered() -> None:
    scene = Scene()
    scene.call.take({"Status": "503"}, b"")
    assert await scene.begin() == Undelivered("gone")


async def test_a_refusal_means_undelivered() -> None:
    scene = Scene()
    scene.says("refused", Lmtb_Reason="draining")
    assert await scene.begin() == Undelivered("draining")
    assert scene.client.controls == []


async def test_a_lost_connection_before_the_call_means_undelivered() -> None:
    scene = Scene()
    scene.client.fault = ConnectionError("closed")
    assert await scene.begin() == Undelivered("closed")


async def test_silence_before_acceptance_means_undelivered_and_is_never_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "ACCEPT_S", 0.01)
    scene = Scene()
    assert await scene.begin() == Undelivered("silent")
    scene.says("accepted")  # too late
    assert scene.client.controls == ["cancel"]


async def test_an_answer_before_acceptance_is_not_believed() -> None:
    scene = Scene()
    scene.says("head", **HEAD)
    assert isinstance(await scene.begin(), Undelivered)


async def test_silence_is_unknown_for_a_call_that_needs_no_confirmation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its host may run it, and only the acceptance was lost."""
    monkeypatch.setattr(parts, "ACCEPT_S", 0.01)
    assert isinstance(await Scene(at_once=True).begin(), Unknown)
    scene = Scene(at_once=True)
    scene.says("head", **HEAD)
    assert isinstance(await scene.begin(), Unknown)


async def test_a_failure_after_acceptance_means_unknown() -> None:
    scene = Scene()
    scene.says("accepted")
    scene.says("failed", Lmtb_Reason="no_answer")
    assert await scene.begin() == Unknown("its host got no answer from its own workspace")


async def test_silence_after_acceptance_means_unknown() -> None:
    scene = Scene()
    scene.says("accepted")
    task = asyncio.create_task(scene.begin())
    while "go" not in scene.client.controls:
        await asyncio.sleep(0)
    await scene.call.beat()
    assert scene.client.controls == ["go", "seen"]
    scene.time = parts.SILENCE_S + 1
    await scene.call.beat()
    assert await task == Unknown("the host no longer answers")
    assert scene.client.controls[-1] == "cancel"


async def test_a_host_that_says_that_it_is_there_is_waited_for() -> None:
    scene = Scene()
    scene.says("accepted")
    task = asyncio.create_task(scene.begin())
    while "go" not in scene.client.controls:
        await asyncio.sleep(0)
    for _ in range(5):
        scene.time += parts.SILENCE_S - 1
        scene.says("alive")
        await scene.call.beat()
    scene.says("head", **HEAD)
    assert isinstance(await task, Head)


async def test_the_deadline_ends_a_call_as_unknown() -> None:
    scene = Scene(deadline_s=0.01)
    scene.says("accepted")
    assert await scene.begin() == Unknown("timed_out")
    assert scene.client.controls == ["go", "cancel"]


async def test_a_gap_in_the_answer_ends_it() -> None:
    scene = Scene(at_once=True)
    scene.says("accepted")
    scene.says("head", **HEAD)
    scene.says("body", b"a", Lmtb_Seq="0")
    scene.says("body", b"c", Lmtb_Seq="2")
    await scene.begin()
    with pytest.raises(AnswerLost, match="was lost"):
        await scene.body()
    assert scene.client.controls == ["cancel"]


async def test_a_host_that_sends_more_than_it_may_is_cut_off() -> None:
    scene = Scene(at_once=True)
    scene.says("accepted")
    scene.says("head", **HEAD)
    for number in range(10 * parts.WINDOW):
        scene.says("body", b"a", Lmtb_Seq=str(number))
    assert isinstance(await scene.begin(), Unknown)


async def test_what_was_taken_is_acknowledged() -> None:
    scene = Scene(at_once=True)
    scene.says("accepted")
    scene.says("head", **HEAD)
    for number in range(parts.WINDOW):
        scene.says("body", b"a", Lmtb_Seq=str(number))
    scene.says("end", Lmtb_Seq=str(parts.WINDOW))
    await scene.begin()
    assert len(await scene.body()) == parts.WINDOW
    assert scene.client.controls == ["seen"] * 4


async def test_a_host_that_stops_before_the_confirmation_did_not_run_it() -> None:
    scene = Scene()
    scene.says("accepted")
    scene.says("refused", Lmtb_Reason="draining")
    assert await scene.begin() == Undelivered("draining")
    at_once = Scene(at_once=True)
    at_once.says("accepted")
    at_once.says("refused", Lmtb_Reason="draining")
    assert isinstance(await at_once.begin(), Unknown)


async def test_an_answer_that_never_ends_is_cut_off_at_the_deadline() -> None:
    """Its host says again and again that it is there."""
    scene = Scene(at_once=True, deadline_s=20.0)
    scene.says("accepted")
    scene.says("head", **HEAD)
    await scene.begin()
    task = asyncio.create_task(scene.body())
    for _ in range(12):
        scene.time += 2.0
        scene.says("alive")
        await scene.call.beat()
        await asyncio.sleep(0)
    with pytest.raises(AnswerLost, match="in time"):
        await asyncio.wait_for(task, 5)
    assert scene.client.controls[-1] == "cancel"


async def test_of_a_huge_message_little_is_kept() -> None:
    scene = Scene(at_once=True)
    scene.says("accepted")
    scene.says("head", **HEAD)
    scene.says("body", b"x" * 8_000_000, Lmtb_Seq="0")
    assert max(len(message[1]) for message in scene.call._queue._queue if message) <= parts.PART_BYTES + 1
    await scene.begin()
    with pytest.raises(AnswerLost, match="larger than"):
        await scene.body()


@pytest.mark.parametrize(
    ("said", "told"), [("stopped", "stopped"), ("too_large", "larger than"), ("unusable", "no list"),
                       ("\x1b[31m<b>", "could not complete")]
)  # fmt: skip
async def test_the_cause_of_a_failure_reaches_the_caller(said: str, told: str) -> None:
    scene = Scene()
    scene.says("accepted")
    scene.says("failed", Lmtb_Reason=said)
    outcome = await scene.begin()
    assert isinstance(outcome, Unknown)
    assert told in outcome.reason


@pytest.mark.parametrize("content", [b"{}", b""])
async def test_a_small_answer_is_one_message(content: bytes) -> None:
    scene = Scene()
    scene.says("accepted")
    scene.says("whole", content, **HEAD)
    assert await scene.begin() == Head(200, "application/json")
    assert await scene.body() == content
    await scene.call.cancel()
    assert scene.client.controls == ["go"]


async def test_a_small_answer_that_is_none_is_unknown() -> None:
    for payload, head in ((b"x" * (parts.PART_BYTES + 1), HEAD), (b"", {"Lmtb_Status": "9"})):
        scene = Scene()
        scene.says("accepted")
        scene.says("whole", payload, **head)
        assert isinstance(await scene.begin(), Unknown)
