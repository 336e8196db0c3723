"""What all MCP sources share: when lists are fetched, and what a failed call returns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.names import Era
from workspace_server.call_context import CallContext
from workspace_server.source import HandshakeResult, SourceState
from workspace_server.sources.mcp import source as foreign
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.sources.mcp.lists import server_list
from workspace_server.sources.mcp.lists import server_lists as lists_module
from workspace_server.sources.mcp.lists.list_cache import ListCache
from workspace_server.sources.mcp.paging import MAX_ENTRIES, Pages
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.sources.mcp.source import McpSource
from workspace_server.tool import CallOutcome

KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


class FakeSource(McpSource):
    """A source without a server: `FakeSession` answers from these attributes.

    Attributes:
        is_shared: whether all callers share one session.
        names: the names of its tools.
        other_lists: the entries of its other lists, by the member of the result.
        capabilities: the capabilities that the server declares.
        failures: the exceptions to raise, by list; `None` is for every request.
        requested: the lists that were requested.
        gates: requests for these lists wait for the event.
    """

    is_shared = True

    def __init__(
        self, state: SourceState = "ready", max_age_s: float | None = None, cache: ListCache | None = None
    ) -> None:
        super().__init__(
            "remote", SourceSettings("far"), state=state, max_age_s=max_age_s, cache=cache, cache_key="k"
        )
        self.names = ["a"]
        self.other_lists: dict[str, list[str]] = {}
        self.capabilities: dict[str, Any] = {"tools": {}}
        self.failures: dict[str | None, Unavailable] = {}
        self.requested: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    @property
    def fetched(self) -> int:
        return self.requested.count("tools")

    @property
    def session_handshake_result(self) -> HandshakeResult:
        return HandshakeResult(Era.LEGACY, "2025-11-25", self.capabilities)

    async def with_session(self, ask: Any, caller: str | None) -> Any:
        if None in self.failures:
            raise self.failures[None]
        return await ask(FakeSession(self))

    async def reopen(self) -> str:
        return "it was opened again"

    async def close(self) -> None:
        await self.stop_asking()

    async def listed(self) -> list[str]:
        return [tool.name for tool in await self.list_tools()]


class FakeSession:
    """The session of a `FakeSource`."""

    ended: str | None = None

    def __init__(self, source: FakeSource) -> None:
        self._source = source
        self.handshake_result = source.session_handshake_result

    async def list_all(self, method: str, member: str, timeout_s: float = 0) -> Pages:
        source = self._source
        source.requested.append(member)
        names = list(source.names if member == "tools" else source.other_lists.get(member, []))
        if member in source.gates:
            await source.gates[member].wait()
        if member in source.failures:
            raise source.failures[member]
        pages = Pages(member)
        pages.take(msgspec.Raw(json.dumps({member: [{KEYS[member]: name} for name in names]}).encode()))
        return pages

    async def call(self, name: str, context: CallContext) -> CallOutcome:
        return msgspec.Raw(json.dumps({"called": name}).encode())

    async def forward(self, method: str, params: Any, context: CallContext) -> CallOutcome:
        return msgspec.Raw(json.dumps({"relayed": method}).encode())

    async def subscribe(self, uri: str) -> None:
        self._source.requested.append(f"subscribe {uri}")

    async def unsubscribe(self, uri: str) -> None:
        self._source.requested.append(f"unsubscribe {uri}")


async def until_listed(source: FakeSource, times: int) -> None:
    async with asyncio.timeout(5):
        while source.fetched < times or source.stale:
            await asyncio.sleep(0)


async def test_changes_during_a_refresh_cause_one_more_refresh() -> None:
    """Only one refresh runs at a time, and the last change is included."""
    source = FakeSource()
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


async def test_all_waiters_for_the_first_list_share_one_request() -> None:
    source = FakeSource()
    assert await asyncio.gather(*(source.listed() for _ in range(20))) == [["a"]] * 20
    assert source.fetched == 1


async def test_cancelling_a_waiter_does_not_cancel_the_request() -> None:
    """The catalog waits for two seconds only."""
    source = FakeSource()
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
async def test_an_old_list_is_refreshed_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch, state: SourceState, asked_again: bool
) -> None:
    """The reader gets the old list; a source that is down is not asked."""
    monkeypatch.setattr(foreign, "LIST_AGAIN_S", 0)
    source = FakeSource(max_age_s=0)
    await source.listed()
    source.set_state(state, None if state == "ready" else "gone")
    source.names = ["b"]
    assert await source.listed() == ["a"]
    await asyncio.sleep(0.01)
    assert (await source.listed() == ["b"]) is asked_again


async def test_a_failed_list_is_requested_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = FakeSource()
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
    source = FakeSource()
    await source.listed()
    source.set_state("backoff", "gone")
    assert (source.stale, source.error) == (True, "gone")
    source.set_state("ready", None)
    await until_listed(source, 2)
    assert source.error is None


async def test_watchers_are_notified_of_changes_only() -> None:
    """Watchers list the source again after each notification."""
    source = FakeSource()
    received = []
    source.watch(lambda: received.append(source.state))
    await source.listed()
    source.set_state("backoff", "gone")
    source.set_state("backoff", "gone")
    assert received == ["ready", "backoff"]


async def test_a_tool_is_called_by_its_servers_own_name() -> None:
    source = FakeSource()
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
            "wait 0.007 s, then retry; lmtb servers shows the state of the source",
        ),
        (Unavailable("cut", "unknown"), "check whether the call took effect before you repeat it"),
        (Unavailable("huge", "unknown", Reason.RESPONSE_TOO_LARGE), Reason.RESPONSE_TOO_LARGE.next_step),
    ],
)
async def test_a_call_without_response_is_a_refusal_naming_the_source(
    failure: Unavailable, next_step: str
) -> None:
    source = FakeSource(state="backoff")
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


def full_source() -> FakeSource:
    """A source with one entry in every list."""
    source = FakeSource()
    source.capabilities = FULL
    source.other_lists = {"prompts": ["p"], "resources": ["x://r"], "resourceTemplates": ["x://{t}"]}
    return source


def offerings(source: FakeSource) -> list[list[str]]:
    shown = source.offerings()
    return [[entry.name for entry in one] for one in (shown.prompts, shown.resources, shown.templates)]


async def test_only_declared_lists_and_tools_are_requested() -> None:
    source = FakeSource()
    source.capabilities = {"prompts": {}}
    assert await source.listed() == ["a"]
    assert source.requested == ["tools", "prompts"]
    assert offerings(source) == [[], [], []]


async def test_the_first_list_of_tools_fetches_the_other_lists() -> None:
    source = full_source()
    await source.listed()
    assert offerings(source) == [["p"], ["x://r"], ["x://{t}"]]
    assert source.cached_tools() is not None


async def test_other_lists_that_hang_do_not_delay_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_module, "FIRST_OTHER_LISTS_S", 0.01)
    source = full_source()
    source.gates["resources"] = asyncio.Event()
    assert await source.listed() == ["a"]
    assert offerings(source) == [["p"], [], ["x://{t}"]]
    received = asyncio.Event()
    source.watch(received.set)
    source.gates["resources"].set()
    await asyncio.wait_for(received.wait(), 5)
    assert offerings(source)[1] == ["x://r"]


@pytest.mark.parametrize(
    ("capability", "requested"), [("prompts", ["prompts"]), ("resources", ["resources", "resourceTemplates"])]
)
async def test_only_the_changed_list_is_requested_again(capability: str, requested: list[str]) -> None:
    source = full_source()
    await source.listed()
    source.requested.clear()
    source.list_changed(capability)
    async with asyncio.timeout(5):
        while len(source.requested) < len(requested):
            await asyncio.sleep(0)
    assert source.requested == requested


async def test_a_failed_list_is_an_issue_and_the_last_one_is_kept() -> None:
    """The other lists are read nevertheless."""
    source = full_source()
    await source.listed()
    source.failures["prompts"] = Unavailable("broken\x1b[31m")
    source.names, source.other_lists["resources"] = ["b"], ["x://s"]
    await source.refresh()
    async with asyncio.timeout(5):
        while not source.issues():
            await asyncio.sleep(0)
    assert offerings(source) == [["p"], ["x://s"], ["x://{t}"]]
    (issue,) = source.issues()
    assert (issue.level, issue.code) == ("warning", "SOURCE_UNAVAILABLE")
    assert issue.message == "Failed to fetch prompts: broken"
    assert (await source.listed(), source.error, source.stale) == (["b"], None, False)


async def test_all_lists_are_cached_even_empty_ones(tmp_path: Path) -> None:
    """The cached lists are offered without a request to the server."""
    before = FakeSource(cache=ListCache(tmp_path))
    before.capabilities, before.other_lists = {"prompts": {}}, {"prompts": ["p"]}
    await before.listed()
    now = FakeSource("starting", cache=ListCache(tmp_path))
    assert await now.listed() == ["a"]
    assert (offerings(now), now.requested) == ([["p"], [], []], [])


async def test_a_source_that_is_closed_answers_at_once() -> None:
    source = full_source()
    source.gates["tools"] = asyncio.Event()
    waiting = asyncio.create_task(source.listed())
    await asyncio.sleep(0.01)
    await source.close()
    assert await asyncio.wait_for(waiting, 5) == []
    assert await asyncio.wait_for(source.listed(), 5) == []


async def test_the_handshake_result_is_kept_while_the_server_is_down() -> None:
    """A server that was never reached is connected to; if that fails, there is no result."""
    source = FakeSource()
    source.failures[None] = Unavailable("down")
    assert await source.handshake_result() is None
    source.failures.clear()
    handshake_result = source.session_handshake_result
    assert await source.handshake_result() == handshake_result
    source.failures[None] = Unavailable("down")
    assert await source.handshake_result() == handshake_result
    outcome = await source.forward("vendor/method", {}, CallContext())
    assert isinstance(outcome, Refusal), "but nothing is put to it"


async def test_relayed_requests_reach_the_server_or_are_refused() -> None:
    source = FakeSource()
    outcome = await source.forward("vendor/method", {}, CallContext())
    assert isinstance(outcome, msgspec.Raw)
    assert json.loads(bytes(outcome)) == {"relayed": "vendor/method"}
    await source.close()
    refused = await source.forward("vendor/method", {}, CallContext())
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.delivered) == (Reason.SOURCE_UNAVAILABLE, "no")
    assert await FakeSource().handshake_result() is not None


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
async def test_resources_are_subscribed_if_the_server_supports_it(
    resources: Any, shared: bool, subscribed: bool
) -> None:
    """The source must share one session, as an update would otherwise reach unrelated clients."""
    source = FakeSource()
    source.is_shared = shared
    source.capabilities = {} if resources is None else {"resources": resources}
    received: list[str] = []
    end = await source.subscribe("x://1", received.append)
    assert (end is not None) is subscribed
    source.resource_changed("x://1")
    assert received == ["x://1"] * subscribed
    if end is not None:
        end()
        source.resource_changed("x://1")
        assert received == ["x://1"]
    await source.close()


async def test_a_truncated_list_is_an_issue() -> None:
    source = full_source()
    source.names = [f"t{number}" for number in range(MAX_ENTRIES + 1)]
    source.other_lists["prompts"] = ["p"] * (MAX_ENTRIES + 1)
    assert len(await source.listed()) == MAX_ENTRIES
    codes = [issue.code for issue in source.issues()]
    assert {"TOOL_LIST_TRUNCATED", "PROMPT_LIST_TRUNCATED"} <= set(codes)


async def test_the_memory_for_seen_definitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of one that was seen in time is."""
    monkeypatch.setattr(server_list, "MAX_SEEN", 2)
    source = FakeSource()
    for names in (["a"], ["b"], ["c"]):
        source.names = names
        await source.refresh()
        async with asyncio.timeout(5):
            while await source.listed() != names:
                await asyncio.sleep(0)
    assert len(source.lists.tools._first_seen) == 2


async def test_an_unexpected_exception_while_listing_is_a_failed_list() -> None:
    source = FakeSource()

    async def with_session(ask: Any, caller: str | None) -> Any:
        raise ZeroDivisionError

    source.with_session = with_session  # what no source should do
    assert await source.listed() == []
    assert [issue.message for issue in source.issues()] == [
        f"Failed to fetch {kind}s: ZeroDivisionError while listing"
        for kind in ("tool", "prompt", "resource", "template")
    ]


async def test_a_restart_opens_sessions_anew_and_lists_again() -> None:
    source = FakeSource()
    await source.list_tools()
    assert await source.restart() == "it was opened again"
    await until_listed(source, 2)
