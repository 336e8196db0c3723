"""What all foreign sources share: lists asked for at the right time, and refusals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.errors import Reason, Refusal
from protocol.versions import Era
from workspace_server.source import CallContext, CallOutcome, Greeting, SourceState
from workspace_server.upstream import foreign
from workspace_server.upstream import lists as lists_module
from workspace_server.upstream.failures import Unavailable
from workspace_server.upstream.foreign import ForeignSource
from workspace_server.upstream.list_cache import ListCache
from workspace_server.upstream.offer import Offer
from workspace_server.upstream.paging import Pages

KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


class Stranger(ForeignSource):
    """A source whose server and session is this object.

    Attributes:
        names: its tools.
        others: its other lists, by their names in the answer.
        capabilities: what it declares.
        failures: what it fails with: by list, `None` for everything.
        asked: the lists that it was asked for.
        gates: the lists that wait.
    """

    def __init__(
        self, state: SourceState = "ready", max_age_s: float | None = None, cache: ListCache | None = None
    ) -> None:
        super().__init__("remote", Offer("far"), state=state, max_age_s=max_age_s, cache=cache, cache_key="k")
        self.names = ["a"]
        self.others: dict[str, list[str]] = {}
        self.capabilities: dict[str, Any] = {"tools": {}}
        self.failures: dict[str | None, Unavailable] = {}
        self.asked: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    @property
    def fetched(self) -> int:
        return self.asked.count("tools")

    @property
    def session_greeting(self) -> Greeting:
        return Greeting(Era.LEGACY, "2025-11-25", self.capabilities)

    async def over_session(self, ask: Any, caller: str | None) -> Any:
        if None in self.failures:
            raise self.failures[None]
        return await ask(Sitting(self))

    async def close(self) -> None:
        await self.stop_asking()

    async def listed(self) -> list[str]:
        return [tool.name for tool in await self.list_tools()]


class Sitting:
    """The session of a `Stranger`."""

    def __init__(self, stranger: Stranger) -> None:
        self._stranger = stranger
        self.greeting = stranger.session_greeting

    async def list_all(self, method: str, member: str, timeout_s: float = 0) -> Pages:
        stranger = self._stranger
        stranger.asked.append(member)
        names = list(stranger.names if member == "tools" else stranger.others.get(member, []))
        if member in stranger.gates:
            await stranger.gates[member].wait()
        if member in stranger.failures:
            raise stranger.failures[member]
        return Pages(member, [msgspec.Raw(json.dumps({KEYS[member]: name}).encode()) for name in names])

    async def call(self, name: str, context: CallContext) -> CallOutcome:
        return msgspec.Raw(json.dumps({"called": name}).encode())


async def until_listed(source: Stranger, times: int) -> None:
    async with asyncio.timeout(5):
        while source.fetched < times or source.stale:
            await asyncio.sleep(0)


async def test_a_change_during_a_refresh_is_another_refresh_and_a_hundred_are_one() -> None:
    """T-107: one in flight, and the last word counts."""
    source = Stranger()
    await source.listed()
    source.gates["tools"] = asyncio.Event()
    source.list_changed("tools")
    async with asyncio.timeout(5):
        while source.fetched < 2:
            await asyncio.sleep(0)
    source.names = ["b"]
    for _ in range(100):
        source.list_changed("tools")
    source.list_changed("prompts")
    source.gates["tools"].set()
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
    source.gates["tools"] = asyncio.Event()
    waiting = asyncio.create_task(source.listed())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    source.gates["tools"].set()
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
    source.failures["tools"] = Unavailable("broken")
    await source.refresh()
    await asyncio.sleep(0.01)
    assert (await source.listed(), source.stale, source.fetched) == (["a"], True, 2)
    source.failures.clear()
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
    source.failures[None] = failure
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


FULL: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}


def full() -> Stranger:
    """A stranger with one entry in every list."""
    source = Stranger()
    source.capabilities = FULL
    source.others = {"prompts": ["p"], "resources": ["x://r"], "resourceTemplates": ["x://{t}"]}
    return source


def extras(source: Stranger) -> list[list[str]]:
    shown = source.extras()
    return [[entry.name for entry in one] for one in (shown.prompts, shown.resources, shown.templates)]


async def test_a_server_is_asked_for_what_it_declares_and_always_for_its_tools() -> None:
    """T-119."""
    source = Stranger()
    source.capabilities = {"prompts": {}}
    assert await source.listed() == ["a"]
    assert source.asked == ["tools", "prompts"]
    assert extras(source) == [[], [], []]


async def test_the_first_list_of_tools_brings_the_others_along() -> None:
    """T-6, T-119."""
    source = full()
    await source.listed()
    assert extras(source) == [["p"], ["x://r"], ["x://{t}"]]
    assert source.known() is not None


async def test_lists_that_hang_keep_nobody_from_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-6."""
    monkeypatch.setattr(lists_module, "FIRST_EXTRAS_S", 0.01)
    source = full()
    source.gates["resources"] = asyncio.Event()
    assert await source.listed() == ["a"]
    assert extras(source) == [["p"], [], ["x://{t}"]]
    heard = asyncio.Event()
    source.watch(heard.set)
    source.gates["resources"].set()
    await asyncio.wait_for(heard.wait(), 5)
    assert extras(source)[1] == ["x://r"]


@pytest.mark.parametrize(
    ("capability", "asked"), [("prompts", ["prompts"]), ("resources", ["resources", "resourceTemplates"])]
)
async def test_only_what_changed_is_asked_for_again(capability: str, asked: list[str]) -> None:
    """T-107, T-119."""
    source = full()
    await source.listed()
    source.asked.clear()
    source.list_changed(capability)
    async with asyncio.timeout(5):
        while len(source.asked) < len(asked):
            await asyncio.sleep(0)
    assert source.asked == asked


async def test_a_list_that_cannot_be_had_is_an_issue_and_the_last_one_stays() -> None:
    """T-4; whatever happens to one list, the others are read."""
    source = full()
    await source.listed()
    source.failures["prompts"] = Unavailable("broken\x1b[31m")
    source.names, source.others["resources"] = ["b"], ["x://s"]
    await source.refresh()
    async with asyncio.timeout(5):
        while not source.issues():
            await asyncio.sleep(0)
    assert extras(source) == [["p"], ["x://s"], ["x://{t}"]]
    (issue,) = source.issues()
    assert (issue.level, issue.code) == ("warning", "SOURCE_UNAVAILABLE")
    assert issue.message == "Failed to fetch prompts: broken"
    assert (await source.listed(), source.error, source.stale) == (["b"], None, False)


async def test_all_lists_survive_in_the_cache_and_empty_ones_are_not_asked_for_again(tmp_path: Path) -> None:
    """T-7: nothing is started for them."""
    before = Stranger(cache=ListCache(tmp_path))
    before.capabilities, before.others = {"prompts": {}}, {"prompts": ["p"]}
    await before.listed()
    now = Stranger("starting", cache=ListCache(tmp_path))
    assert await now.listed() == ["a"]
    assert (extras(now), now.asked) == ([["p"], [], []], [])


async def test_a_source_that_is_closed_answers_at_once() -> None:
    source = full()
    source.gates["tools"] = asyncio.Event()
    waiting = asyncio.create_task(source.listed())
    await asyncio.sleep(0.01)
    await source.close()
    assert await asyncio.wait_for(waiting, 5) == []
    assert await asyncio.wait_for(source.listed(), 5) == []
