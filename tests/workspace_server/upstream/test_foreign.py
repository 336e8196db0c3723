"""What all foreign sources share: lists asked for at the right time, and refusals."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from protocol.errors import Reason, Refusal
from workspace_server.source import CallContext, CallOutcome, SourceState
from workspace_server.upstream import foreign
from workspace_server.upstream.failures import Unavailable
from workspace_server.upstream.foreign import ForeignSource, Offer
from workspace_server.upstream.paging import Pages


class Stranger(ForeignSource):
    """A source whose server is this object: `names` are its tools, `failure` what it fails with."""

    def __init__(self, state: SourceState = "ready", max_age_s: float | None = None) -> None:
        super().__init__("remote", Offer("far"), state=state, max_age_s=max_age_s)
        self.names = ["a"]
        self.failure: Unavailable | None = None
        self.fetched = 0
        self.gate: asyncio.Event | None = None

    async def fetch(self) -> Pages:
        self.fetched += 1
        names = list(self.names)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return Pages("tools", [msgspec.Raw(json.dumps({"name": name}).encode()) for name in names])

    async def forward(self, name: str, context: CallContext) -> CallOutcome:
        if self.failure is not None:
            raise self.failure
        return msgspec.Raw(json.dumps({"called": name}).encode())

    async def close(self) -> None:
        await self.stop_listing()

    async def listed(self) -> list[str]:
        return [tool.name for tool in await self.list_tools()]


async def until_listed(source: Stranger, times: int) -> None:
    async with asyncio.timeout(5):
        while source.fetched < times or source.stale:
            await asyncio.sleep(0)


async def test_a_change_during_a_refresh_is_another_refresh_and_a_hundred_are_one() -> None:
    """T-107: one in flight, and the last word counts."""
    source = Stranger()
    await source.listed()
    source.gate = asyncio.Event()
    source.list_changed("tools")
    await asyncio.sleep(0)
    source.names = ["b"]
    for _ in range(100):
        source.list_changed("tools")
    source.list_changed("prompts")
    source.gate.set()
    await until_listed(source, 3)
    assert await source.listed() == ["b"]
    assert source.fetched == 3


async def test_everybody_who_waits_for_the_first_list_gets_the_same() -> None:
    source = Stranger()
    assert await asyncio.gather(*(source.listed() for _ in range(20))) == [["a"]] * 20
    assert source.fetched == 1


async def test_who_stops_waiting_does_not_stop_the_list() -> None:
    """T-6: the registry waits for two seconds only."""
    source = Stranger()
    source.gate = asyncio.Event()
    waiting = asyncio.create_task(source.listed())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    source.gate.set()
    await until_listed(source, 1)
    assert await source.listed() == ["a"]
    assert source.fetched == 1


@pytest.mark.parametrize(("state", "asked_again"), [("ready", True), ("backoff", False)])
async def test_an_old_list_is_refreshed_when_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, state: SourceState, asked_again: bool
) -> None:
    """T-110: they get the old one; a source that is down is not asked."""
    monkeypatch.setattr(foreign, "LIST_AGAIN_S", 0)
    source = Stranger(max_age_s=0)
    await source.listed()
    source.became(state, None if state == "ready" else "gone")
    source.names = ["b"]
    assert await source.listed() == ["a"]
    await asyncio.sleep(0.01)
    assert (await source.listed() == ["b"]) is asked_again


async def test_a_list_that_could_not_be_had_is_asked_for_again_but_not_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-4."""
    source = Stranger()
    await source.listed()
    source.failure = Unavailable("broken")
    await source.refresh()
    await asyncio.sleep(0.01)
    assert (await source.listed(), source.stale, source.fetched) == (["a"], True, 2)
    source.failure = None
    await source.listed()
    await asyncio.sleep(0.01)
    assert source.fetched == 2
    monkeypatch.setattr(foreign, "LIST_AGAIN_S", 0)
    await source.listed()
    await until_listed(source, 3)
    assert source.error is None


async def test_a_stale_list_is_refreshed_when_the_server_is_back() -> None:
    """T-89, T-111."""
    source = Stranger()
    await source.listed()
    source.became("backoff", "gone")
    assert (source.stale, source.error) == (True, "gone")
    source.became("ready", None)
    await until_listed(source, 2)
    assert source.error is None


async def test_watchers_hear_of_news_only() -> None:
    """They list again whenever they are told to."""
    source = Stranger()
    heard = []
    source.watch(lambda: heard.append(source.state))
    await source.listed()
    source.became("backoff", "gone")
    source.became("backoff", "gone")
    assert heard == ["ready", "backoff"]


async def test_a_tool_is_called_by_its_servers_own_name() -> None:
    """T-8, T-17."""
    source = Stranger()
    source.names = ["x\u200by"]
    assert await source.listed() == ["xy"]
    outcome = await source.call_tool("xy", {}, CallContext())
    assert isinstance(outcome, msgspec.Raw)
    assert json.loads(bytes(outcome)) == {"called": "x\u200by"}


@pytest.mark.parametrize(
    ("failure", "next_step"),
    [
        (
            Unavailable("no\x1b[31m network", retry_after_ms=7),
            "retry after the given time; lmtb servers says more",
        ),
        (Unavailable("cut", "unknown"), "check whether the call took effect before you repeat it"),
        (Unavailable("huge", "unknown", Reason.RESPONSE_TOO_LARGE), Reason.RESPONSE_TOO_LARGE.next_step),
    ],
)
async def test_a_call_without_an_answer_is_a_refusal_that_names_the_source(
    failure: Unavailable, next_step: str
) -> None:
    """T-182."""
    source = Stranger(state="backoff")
    source.failure = failure
    outcome = await source.call_tool("a", {}, CallContext())
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.delivered) == (failure.reason, failure.delivered)
    data = outcome.data()
    assert data["nextStep"] == next_step
    assert data.get("retryAfterMs") == failure.retry_after_ms
    assert data["details"]["source"] == "remote:far"
    assert data["details"]["state"] == "backoff"
    assert "\x1b" not in outcome.text
    assert source.status()["lastCall"]["outcome"] == failure.reason.word
