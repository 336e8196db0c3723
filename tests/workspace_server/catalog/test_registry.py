"""The merged table of tools: order, names, and sources that fail or hang."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server import naming
from workspace_server.catalog import listing
from workspace_server.catalog.registry import Registry, Snapshot
from workspace_server.tool import Tool


def names_of(snapshot: Snapshot) -> list[str]:
    return [offered.name for offered in snapshot.tools]


def codes_of(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(issue.level, issue.code) for issue in snapshot.issues]


def builtin(*names: str) -> ScriptedSource:
    source = ScriptedSource([tool(name) for name in names], identity="builtin")
    source.kind = "builtin"
    return source


async def test_order_is_by_lower_cased_name_whatever_the_order_of_the_sources() -> None:
    first = ScriptedSource([tool("b"), tool("Zed"), tool("a")])
    second = ScriptedSource([tool("alpha")], identity="up", namespace="Mid")
    expected = ["a", "b", "Mid__alpha", "Zed"]
    assert names_of(await Registry([first, second]).snapshot()) == expected
    assert names_of(await Registry([second, first]).snapshot()) == expected


async def test_clash_of_bare_names_keeps_the_nearer_source_and_renames_the_other() -> None:
    sources = [builtin("calculator"), ScriptedSource([tool("calculator")])]
    snapshot = await Registry(sources).snapshot()
    assert names_of(snapshot) == ["builtin__calculator", "calculator"]
    kept = snapshot.get("calculator")
    assert kept is not None
    assert kept.source is sources[1]
    renamed = snapshot.get("builtin__calculator")
    assert renamed is not None
    assert renamed.definition["name"] == "builtin__calculator"
    assert renamed.tool.name == "calculator"
    (issue,) = snapshot.issues
    assert (issue.code, issue.tool_name) == ("TOOL_NAME_CLASH", "calculator")
    assert issue.details == "script keeps it; the tool of builtin is now builtin__calculator"


async def test_tools_of_a_source_that_is_not_trusted_take_no_name_away() -> None:
    pending = ScriptedSource([tool("calculator")])
    pending.state = "pending_trust"
    snapshot = await Registry([builtin("calculator"), pending]).snapshot()
    assert names_of(snapshot) == ["calculator"]
    assert snapshot.issues == ()


async def test_names_that_differ_only_in_case_are_both_offered_and_reported() -> None:
    snapshot = await Registry([ScriptedSource([tool("Deploy"), tool("deploy")])]).snapshot()
    assert names_of(snapshot) == ["Deploy", "deploy"]
    assert codes_of(snapshot) == [("warning", "TOOL_NAME_SIMILAR")]


@pytest.mark.parametrize(
    "name",
    ["lm_findFiles", "lmToolsBridge.callTool", "tool_search", "execute_tool", "execute_code", "openllm_x"],
)
async def test_reserved_bare_name_is_dropped_but_harmless_behind_a_namespace(name: str) -> None:
    bare = await Registry([ScriptedSource([tool(name)])]).snapshot()
    assert names_of(bare) == []
    assert codes_of(bare) == [("warning", "TOOL_NAME_RESERVED")]
    behind = await Registry([ScriptedSource([tool(name)], identity="up", namespace="up")]).snapshot()
    assert len(behind.tools) == 1
    assert behind.issues == ()


@pytest.mark.parametrize("namespace", ["builtin", "script", "script_user", "script_system"])
async def test_source_with_a_reserved_namespace_is_left_out_with_an_error(namespace: str) -> None:
    source = ScriptedSource([tool("x")], identity="up", namespace=namespace)
    snapshot = await Registry([source, builtin("a")]).snapshot()
    assert names_of(snapshot) == ["a"]
    assert codes_of(snapshot) == [("error", "CONFIG_NAMESPACE_RESERVED")]


async def test_names_of_servers_are_normalised_and_called_by_their_own_name() -> None:
    long = "n" * 90
    source = ScriptedSource(
        [tool("repos.list"), tool("a b"), tool("a.b"), tool(long)], identity="up", namespace="gh"
    )
    snapshot = await Registry([source]).snapshot()
    offered = {entry.tool.name: entry.name for entry in snapshot.tools}
    assert offered["repos.list"] == "gh__repos_list"
    assert offered["a b"].startswith("gh__a_b_")
    assert offered["a.b"].startswith("gh__a_b_")
    assert offered["a b"] != offered["a.b"]
    assert len(offered[long]) == 64
    assert offered[long][:55] == ("gh__" + long)[:55]


async def test_no_tool_is_lost_when_two_sources_end_up_with_one_name() -> None:
    twins = [ScriptedSource([tool("x")], identity=identity, namespace="same") for identity in ("one", "two")]
    bare = ScriptedSource([tool("same__x")])
    snapshot = await Registry([*twins, bare]).snapshot()
    assert len(snapshot.by_name) == 3
    assert {issue.code for issue in snapshot.issues} == {"TOOL_NAME_CLASH"}


@pytest.mark.parametrize(
    ("schema", "kept", "place"),
    [
        (None, {"type": "object"}, "inputSchema"),
        ({}, {"type": "object"}, "inputSchema.type"),
        ({"type": "array"}, {"type": "object"}, "inputSchema"),
        (
            {"type": "object", "properties": {"a": {"$ref": "http://elsewhere/x.json"}}},
            {"type": "object", "properties": {"a": {}}},
            "inputSchema.properties.a.$ref",
        ),
        (
            {"type": "object", "properties": {"a": {"type": 5}, "b": {"type": "string"}}},
            {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}},
            "inputSchema.properties.a.type",
        ),
    ],
)
async def test_a_tool_whose_schema_cannot_be_read_stays_without_the_broken_member(
    schema: Any, kept: dict[str, Any], place: str
) -> None:
    snapshot = await Registry([ScriptedSource([tool("bad", schema), tool("good")])]).snapshot()
    assert names_of(snapshot) == ["bad", "good"]
    assert snapshot.by_name["bad"].schema == kept
    issue = snapshot.issues[0]
    assert (issue.level, issue.code, issue.tool_name) == ("warning", "TOOL_MEMBERS_REMOVED", "bad")
    assert issue.message.endswith(f": {place}")
    assert snapshot.by_name["bad"].arguments.check({"a": 7, "b": 7}) == [], "the rest says nothing for sure"


async def test_an_output_schema_that_clients_cannot_compile_is_left_out() -> None:
    promise = {"type": "object", "properties": {"card": {"$ref": "#/$defs/Card"}}}
    schema = {"type": "object", "required": ["n"]}
    snapshot = await Registry([ScriptedSource([tool("cards", schema, outputSchema=promise)])]).snapshot()
    (issue,) = snapshot.issues
    assert (issue.code, "outputSchema (properties.card.$ref" in issue.message) == (
        "TOOL_MEMBERS_REMOVED",
        True,
    )
    offered = snapshot.by_name["cards"]
    assert ("outputSchema" in offered.definition, offered.results) == (False, None)
    assert len(offered.arguments.check({})) == 1, "arguments are checked as ever"


HEADED = {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}


async def test_a_tool_that_mcp_lets_no_client_see_is_dropped_alone() -> None:
    snapshot = await Registry([ScriptedSource([tool("bad", HEADED), tool("good")])]).snapshot()
    assert names_of(snapshot) == ["good"]
    (issue,) = snapshot.issues
    assert (issue.level, issue.code, issue.tool_name) == ("error", "TOOL_SCHEMA_INVALID", "bad")


async def test_issues_name_tools_as_clients_would_see_them() -> None:
    """People ask for them by that name, also for those that are left out."""
    source = ScriptedSource([tool("a.b", HEADED), tool("c", {}), tool("c", {})], namespace="gh")
    snapshot = await Registry([source]).snapshot()
    assert {(issue.code, issue.tool_name) for issue in snapshot.issues} == {
        ("TOOL_SCHEMA_INVALID", naming.usual_name(source, "a.b")),
        ("TOOL_NAME_DUPLICATE", "gh__c"),
        ("TOOL_MEMBERS_REMOVED", "gh__c"),
    }


async def test_second_tool_of_one_name_in_one_source_is_reported() -> None:
    source = ScriptedSource([tool("x", title="first"), tool("x", title="second")])
    snapshot = await Registry([source]).snapshot()
    assert [offered.definition["title"] for offered in snapshot.tools] == ["first"]
    assert [(issue.code, issue.message) for issue in snapshot.issues] == [
        ("TOOL_NAME_DUPLICATE", 'Tool "x" is already registered')
    ]


async def test_failing_refresh_keeps_the_old_list_and_says_so() -> None:
    source = ScriptedSource([tool("x")])
    registry = Registry([source])
    await registry.snapshot()
    source.fault = OSError("pipe broke")
    snapshot = await registry.snapshot()
    assert names_of(snapshot) == ["x"]
    assert codes_of(snapshot) == [("warning", "SOURCE_UNAVAILABLE")]
    assert snapshot.issues[0].message == "Failed to fetch tools: OSError: pipe broke"
    assert registry.sources()[0]["stale"] is True
    source.fault = None
    assert (await registry.snapshot()).issues == ()
    assert registry.sources()[0]["stale"] is False


async def test_source_that_reports_failure_and_no_list_keeps_its_last_one() -> None:
    source = ScriptedSource([tool("x")])
    registry = Registry([source])
    await registry.snapshot()
    source.state, source.error, source.tools = "failed", "exit status 1", ()
    snapshot = await registry.snapshot()
    assert names_of(snapshot) == ["x"]
    assert snapshot.issues[0].message == "Failed to fetch tools: exit status 1"


async def test_requests_at_the_same_time_do_not_make_a_fresh_list_stale() -> None:
    registry = Registry([ScriptedSource([tool("x")])])
    for _ in range(2):
        one, other = await asyncio.gather(registry.snapshot(), registry.snapshot())
        assert one is other
        assert registry.sources()[0]["stale"] is False


async def test_a_source_that_never_had_a_list_is_an_error_beside_complete_ones() -> None:
    broken = ScriptedSource(identity="up", namespace="up")
    broken.fault = ValueError("garbage")
    snapshot = await Registry([broken, builtin("a")]).snapshot()
    assert names_of(snapshot) == ["a"]
    assert codes_of(snapshot) == [("error", "SOURCE_UNAVAILABLE")]


async def test_no_source_at_all_is_an_empty_list_with_a_warning() -> None:
    snapshot = await Registry([]).snapshot()
    assert snapshot.tools == ()
    assert codes_of(snapshot) == [("warning", "NO_SOURCES")]


class FailsThenHangs(ScriptedSource):
    """Its first listing fails when told to, and the next one hangs."""

    def __init__(self) -> None:
        super().__init__(identity="up", namespace="up")
        self.fails, self.hangs = asyncio.Event(), asyncio.Event()

    async def list_tools(self) -> Sequence[Tool]:
        if self.fails.is_set():
            self.hangs.set()
            await asyncio.Event().wait()
        await self.fails.wait()
        raise OSError("no answer")


async def test_a_request_waits_its_own_time_at_most_and_not_for_each_of_two_listings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A listing that runs already may be too old for it, so that it needs the next one as well."""
    loop = asyncio.get_running_loop()
    clock, late = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: clock() + late[0])
    source = FailsThenHangs()
    registry = Registry([source])
    await registry.snapshot(0.0)
    asked = asyncio.create_task(registry.snapshot(50.0))
    await asyncio.sleep(0)
    late[0] = 30.0
    source.fails.set()
    await source.hangs.wait()
    late[0] = 51.0
    async with asyncio.timeout(5):
        await asked
    await registry.close()


async def test_hung_source_delays_the_list_once_and_says_when_it_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "FIRST_WAIT_S", 0.05)
    hung = ScriptedSource([tool("late")], identity="up", namespace="up")
    hung.gate.clear()
    registry = Registry([hung, builtin("a")])
    changed = asyncio.Event()
    registry.watch(changed.set)
    snapshot = await registry.snapshot()
    assert names_of(snapshot) == ["a"]
    assert codes_of(snapshot) == [("warning", "SOURCE_STARTING")]
    async with asyncio.timeout(0.04):  # the wait is over for good, not once per request
        await registry.snapshot()
    hung.gate.set()
    await asyncio.wait_for(changed.wait(), 5)
    assert names_of(await registry.snapshot()) == ["a", "up__late"]
    await registry.close()


async def test_no_request_gets_a_list_that_began_before_it_arrived() -> None:
    """The second asker sees what changed while the first one's listing was under way."""
    source = SlowSource([tool("old")])
    registry = Registry([source])
    first = asyncio.create_task(registry.snapshot())
    await source.reading.wait()
    source.tools = (tool("new"),)
    second = asyncio.create_task(registry.snapshot())
    source.go_on.set()
    assert names_of(await second) == ["new"]
    await first


class SlowSource(ScriptedSource):
    """Reads its tools first and answers later, as a walk through folders does."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        super().__init__(tools)
        self.reading, self.go_on = asyncio.Event(), asyncio.Event()

    async def list_tools(self) -> Sequence[Tool]:
        seen = self.tools
        self.reading.set()
        await self.go_on.wait()
        return seen


async def test_sources_are_replaced_while_it_runs_and_those_left_out_are_closed() -> None:
    kept, gone = ScriptedSource([tool("a")]), ScriptedSource([tool("b")], identity="up", namespace="up")
    registry = Registry([kept, gone])
    assert names_of(await registry.snapshot()) == ["a", "up__b"]
    new = ScriptedSource([tool("c")], identity="new", namespace="new")
    registry.replace([kept, new])
    assert names_of(await registry.snapshot()) == ["a", "new__c"]
    await registry.close()
    assert gone.closed
    assert kept.closed


async def test_a_source_knows_the_ends_of_those_that_it_replaces() -> None:
    """Also over several changes: its process must not start beside one that still ends."""

    class SlowToClose(ScriptedSource):
        async def close(self) -> None:
            await self.gate.wait()

    old = SlowToClose([tool("a")], identity="stdio:x")
    between, new, other = (ScriptedSource([tool("a")], identity=f"stdio:{name}") for name in "xxy")
    registry = Registry([old])
    old.gate.clear()
    registry.replace([between, other])
    registry.replace([new, other])
    assert (len(new.predecessors), other.predecessors) == (2, ())
    waiting = asyncio.create_task(new.wait_for_predecessors())
    await asyncio.sleep(0)
    assert not waiting.done()
    old.gate.set()
    await waiting
    assert new.predecessors == ()
    await registry.close()


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("ready", None, "ready"),
        ("ready", "tools/list failed", "degraded"),
        ("idle", "the window has closed", "idle"),
        ("backoff", "exited", "backoff"),
    ],
)
async def test_a_source_that_answers_beside_an_error_is_not_called_healthy(
    state: Any, error: str | None, said: str
) -> None:
    source = ScriptedSource([tool("a")])
    registry = Registry([source])
    await registry.snapshot()
    source.state, source.error = state, error
    (row,) = registry.sources()
    assert (row["state"], row["error"]) == (said, error)


async def test_no_list_is_called_outdated_that_is_empty() -> None:
    source = ScriptedSource([])
    source.state, source.stale = "failed", True
    registry = Registry([source])
    await registry.snapshot()
    assert registry.sources()[0]["stale"] is False


async def test_filters_leave_tools_out_and_exclude_beats_include() -> None:
    tools = [tool("get_a"), tool("get_b"), tool("delete_a")]
    source = ScriptedSource(tools, identity="up", namespace="up")
    source.include, source.exclude = ("get_*", "delete_*"), ("*_b", "delete_*")
    snapshot = await Registry([source]).snapshot()
    assert names_of(snapshot) == ["up__get_a"]
    assert set(snapshot.filtered) == {"up__get_b", "up__delete_a"}


async def test_request_under_way_survives_that_its_source_is_taken_away() -> None:
    """An edit of the configuration breaks nobody's request."""
    source = SlowSource([tool("old")])
    registry = Registry([source])
    asking = [asyncio.create_task(registry.snapshot()) for _ in range(2)]
    await source.reading.wait()
    registry.replace([ScriptedSource([tool("new")])])
    snapshots = await asyncio.wait_for(asyncio.gather(*asking), 5)
    assert len(snapshots) == 2
    assert names_of(await registry.snapshot()) == ["new"]
    await registry.close()


@pytest.mark.parametrize(
    ("separator", "name"),
    [("__", "os-assistant__run"), ("_", "os_assistant_run"), ("-", "os-assistant-run")],
)
async def test_separator_is_the_sources_own(separator: str, name: str) -> None:
    source = ScriptedSource([tool("run")], identity="up", namespace="os-assistant")
    source.separator = separator
    assert names_of(await Registry([source]).snapshot()) == [name]


async def test_refresh_asks_the_named_source_or_all() -> None:
    first, second = ScriptedSource(), ScriptedSource(identity="up", namespace="up")
    registry = Registry([first, second])
    assert await registry.refresh("up")
    assert (first.refreshed, second.refreshed) == (0, 1)
    assert await registry.refresh()
    assert (first.refreshed, second.refreshed) == (1, 2)
    assert not await registry.refresh("nobody")


async def test_unchanged_sources_give_the_same_snapshot_object() -> None:
    registry = Registry([ScriptedSource([tool("a")])])
    assert await registry.snapshot() is await registry.snapshot()


async def test_close_closes_every_source_even_when_one_fails() -> None:
    class Stubborn(ScriptedSource):
        async def close(self) -> None:
            raise OSError("will not close")

    other = ScriptedSource(identity="up", namespace="up")
    await Registry([Stubborn(), other]).close()
    assert other.closed


async def test_names_winners_and_issues_do_not_depend_on_the_order_of_the_sources() -> None:
    """So a restart changes nothing, whichever source answers first. A script wins, then a built-in, then a server."""

    def sources() -> list[ScriptedSource]:
        remote = ScriptedSource([tool("run"), tool("look")], identity="remote:z")
        local = ScriptedSource([tool("look"), tool("run")], identity="stdio:a")
        remote.kind, local.kind = "remote", "stdio"
        named = ScriptedSource([tool("run"), tool("a.b"), tool("a_b")], identity="stdio:up", namespace="up")
        return [ScriptedSource([tool("run")]), builtin("look"), remote, local, named]

    tables = set()
    for order in permutations(range(5)):
        made = sources()
        snapshot = await Registry([made[place] for place in order]).snapshot()
        named = tuple((one.name, one.source.id, one.tool.name) for one in snapshot.tools)
        tables.add((named, tuple(sorted(str(issue) for issue in snapshot.issues))))
    ((named, issues),) = tables
    assert {("run", "script", "run"), ("look", "builtin", "look"), ("up__run", "stdio:up", "run")} <= set(
        named
    )
    assert ("stdio_a__run", "stdio:a", "run") in named
    assert sum("TOOL_NAME_CLASH" in issue for issue in issues) == 4
