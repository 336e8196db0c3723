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
from workspace_server.call_context import CallContext
from workspace_server.source import HandshakeResult, SourceState
from workspace_server.sources.mcp import source as foreign
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists import server_list
from workspace_server.sources.mcp.lists import server_lists as lists_module
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.session.paging import MAX_ENTRIES, Pages
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.sources.mcp.source import McpSource
from workspace_server.tool import CallOutcome

KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


class Stranger(McpSource):
    """A source whose server and session is this object.

    Attributes:
        is_shared: whether it has one session for everybody.
        names: its tools.
        others: its other lists, by their names in the answer.
        capabilities: what it declares.
        failures: what it fails with: by list, `None` for everything.
        asked: the lists that it was asked for.
        gates: the lists that wait.
    """

    is_shared = True

    def __init__(
        self, state: SourceState = "ready", max_age_s: float | None = None, cache: ListCache | None = None
    ) -> None:
        super().__init__(
            "remote", SourceSettings("far"), state=state, max_age_s=max_age_s, cache=cache, cache_key="k"
        )
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
    def session_greeting(self) -> HandshakeResult:
        return HandshakeResult(Era.LEGACY, "2025-11-25", self.capabilities)

    async def with_session(self, ask: Any, caller: str | None) -> Any:
        if None in self.failures:
            raise self.failures[None]
        return await ask(Sitting(self))

    async def close(self) -> None:
        await self.stop_asking()

    async def listed(self) -> list[str]:
        return [tool.name for tool in await self.list_tools()]


class Sitting:
    """The session of a `Stranger`."""

    ended: str | None = None

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
        pages = Pages(member)
        pages.take(msgspec.Raw(json.dumps({member: [{KEYS[member]: name} for name in names]}).encode()))
        return pages

    async def call(self, name: str, context: CallContext) -> CallOutcome:
        return msgspec.Raw(json.dumps({"called": name}).encode())

    async def relay(self, method: str, params: Any, context: CallContext) -> CallOutcome:
        return msgspec.Raw(json.dumps({"relayed": method}).encode())

    async def subscribe(self, uri: str) -> None:
        self._stranger.asked.append(f"subscribe {uri}")

    async def unsubscribe(self, uri: str) -> None:
        self._stranger.asked.append(f"unsubscribe {uri}")


async def until_listed(source: Stranger, times: int) -> None:
    async with asyncio.timeout(5):
        while source.fetched < times or source.stale:
            await asyncio.sleep(0)


async def test_a_change_during_a_refresh_is_another_refresh_and_a_hundred_are_one() -> None:
    """One in flight, and the last word counts."""
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
    """The registry waits for two seconds only."""
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
    """They get the old one; a source that is down is not asked."""
    monkeypatch.setattr(foreign, "LIST_AGAIN_S", 0)
    source = Stranger(max_age_s=0)
    await source.listed()
    source.set_state(state, None if state == "ready" else "gone")
    source.names = ["b"]
    assert await source.listed() == ["a"]
    await asyncio.sleep(0.01)
    assert (await source.listed() == ["b"]) is asked_again


async def test_a_list_that_could_not_be_had_is_asked_for_again_but_not_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    source = Stranger()
    await source.listed()
    source.set_state("backoff", "gone")
    assert (source.stale, source.error) == (True, "gone")
    source.set_state("ready", None)
    await until_listed(source, 2)
    assert source.error is None


async def test_watchers_hear_of_news_only() -> None:
    """They list again whenever they are told to."""
    source = Stranger()
    heard = []
    source.watch(lambda: heard.append(source.state))
    await source.listed()
    source.set_state("backoff", "gone")
    source.set_state("backoff", "gone")
    assert heard == ["ready", "backoff"]


async def test_a_tool_is_called_by_its_servers_own_name() -> None:
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
            "wait as long as retryAfterMs says, then retry; lmtb servers shows the state of the source",
        ),
        (Unavailable("cut", "unknown"), "check whether the call took effect before you repeat it"),
        (Unavailable("huge", "unknown", Reason.RESPONSE_TOO_LARGE), Reason.RESPONSE_TOO_LARGE.next_step),
    ],
)
async def test_a_call_without_an_answer_is_a_refusal_that_names_the_source(
    failure: Unavailable, next_step: str
) -> None:
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
    source = Stranger()
    source.capabilities = {"prompts": {}}
    assert await source.listed() == ["a"]
    assert source.asked == ["tools", "prompts"]
    assert extras(source) == [[], [], []]


async def test_the_first_list_of_tools_brings_the_others_along() -> None:
    source = full()
    await source.listed()
    assert extras(source) == [["p"], ["x://r"], ["x://{t}"]]
    assert source.cached_tools() is not None


async def test_lists_that_hang_keep_nobody_from_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
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
    source = full()
    await source.listed()
    source.asked.clear()
    source.list_changed(capability)
    async with asyncio.timeout(5):
        while len(source.asked) < len(asked):
            await asyncio.sleep(0)
    assert source.asked == asked


async def test_a_list_that_cannot_be_had_is_an_issue_and_the_last_one_stays() -> None:
    """Whatever happens to one list, the others are read."""
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
    """Nothing is started for them."""
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


async def test_what_a_server_says_of_itself_is_remembered_for_when_it_is_down() -> None:
    """One that was never reached is reached for that, or says nothing."""
    source = Stranger()
    source.failures[None] = Unavailable("down")
    assert await source.greeting() is None
    source.failures.clear()
    greeting = source.session_greeting
    assert await source.greeting() == greeting
    source.failures[None] = Unavailable("down")
    assert await source.greeting() == greeting
    outcome = await source.relay("vendor/method", {}, CallContext())
    assert isinstance(outcome, Refusal), "but nothing is put to it"


async def test_any_request_is_put_to_the_server_and_trouble_is_a_refusal() -> None:
    source = Stranger()
    outcome = await source.relay("vendor/method", {}, CallContext())
    assert isinstance(outcome, msgspec.Raw)
    assert json.loads(bytes(outcome)) == {"relayed": "vendor/method"}
    await source.close()
    refused = await source.relay("vendor/method", {}, CallContext())
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.delivered) == (Reason.SOURCE_UNAVAILABLE, "no")
    assert await Stranger().greeting() is not None


@pytest.mark.parametrize(
    ("resources", "shared", "subscribed"),
    [
        ({"subscribe": True}, True, True),
        ({"subscribe": True}, False, False),
        ({"subscribe": "yes"}, True, False),
        ({}, True, False),
        (None, True, False),
        ([], True, False),
    ],
)
async def test_resources_are_subscribed_where_the_server_tells_of_them(
    resources: Any, shared: bool, subscribed: bool
) -> None:
    """And where what one process says is meant for everybody."""
    source = Stranger()
    source.is_shared = shared
    source.capabilities = {} if resources is None else {"resources": resources}
    heard: list[str] = []
    end = await source.subscribe("x://1", heard.append)
    assert (end is not None) is subscribed
    source.resource_changed("x://1")
    assert heard == ["x://1"] * subscribed
    if end is not None:
        end()
        source.resource_changed("x://1")
        assert heard == ["x://1"]
    await source.close()


async def test_a_list_that_is_cut_is_an_issue_of_its_kind() -> None:
    source = full()
    source.names = [f"t{number}" for number in range(MAX_ENTRIES + 1)]
    source.others["prompts"] = ["p"] * (MAX_ENTRIES + 1)
    assert len(await source.listed()) == MAX_ENTRIES
    codes = [issue.code for issue in source.issues()]
    assert {"TOOL_LIST_TRUNCATED", "PROMPT_LIST_TRUNCATED"} <= set(codes)


async def test_tools_that_always_change_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of one that was seen in time is."""
    monkeypatch.setattr(server_list, "MAX_SEEN", 2)
    source = Stranger()
    for names in (["a"], ["b"], ["c"]):
        source.names = names
        await source.refresh()
        async with asyncio.timeout(5):
            while await source.listed() != names:
                await asyncio.sleep(0)
    assert len(source.lists.tools._first_seen) == 2


async def test_a_fault_while_listing_is_a_list_that_could_not_be_had() -> None:
    source = Stranger()

    async def with_session(ask: Any, caller: str | None) -> Any:
        raise ZeroDivisionError

    source.with_session = with_session  # type: ignore[method-assign]  # what no source should do
    assert await source.listed() == []
    assert [issue.message for issue in source.issues()] == [
        f"Failed to fetch {kind}s: ZeroDivisionError while listing"
        for kind in ("tool", "prompt", "resource", "template")
    ]
