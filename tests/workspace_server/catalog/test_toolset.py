"""The current view of the tools, and the announcement of changes."""

from __future__ import annotations

import asyncio

import pytest

from lm_tools_bridge.protocol.issues import Issue
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.catalog import toolset as toolset_module
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import Mode
from workspace_server.config.model import Configuration, PolicyDeltas


def names_in(toolset: Toolset) -> list[str]:
    return [offered.name for offered in toolset.last.tools]


async def test_quick_changes_are_announced_once_and_undone_ones_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toolset_module, "SOON_S", 0.05)
    monkeypatch.setattr(toolset_module, "COALESCE_S", 0.05)
    source = ScriptedSource([tool("a")])
    toolset = Toolset(Registry([source]), check_interval_s=60)
    announced: list[list[str]] = []
    toolset.listen(lambda _: announced.append(names_in(toolset)))
    await toolset.current()
    for tools in (["a", "b"], ["a", "c"], ["d"]):
        source.tools = tuple(tool(name) for name in tools)
        await toolset.current()
    await asyncio.sleep(0.15)
    assert announced == [["d"]]
    source.tools = (tool("e"),)
    await toolset.current()
    source.tools = (tool("d"),)
    await toolset.current()
    await asyncio.sleep(0.15)
    assert announced == [["d"]]
    await toolset.close()


async def test_the_first_change_is_announced_soon_and_the_next_only_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toolset_module, "COALESCE_S", 3600.0)
    source = ScriptedSource([tool("a")])
    toolset = Toolset(Registry([source]), check_interval_s=3600)
    announced = asyncio.Event()
    toolset.listen(lambda _: announced.set())
    await toolset.current()
    source.tools = (tool("b"),)
    await toolset.current()
    await asyncio.wait_for(announced.wait(), 10)
    announced.clear()
    source.tools = (tool("c"),)
    await toolset.current()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(announced.wait(), 0.1)
    await toolset.close()


async def test_files_are_checked_regularly_only_while_a_listener_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`list_changed` within 2 s, without any request."""
    monkeypatch.setattr(toolset_module, "COALESCE_S", 0.01)
    source = ScriptedSource([tool("a")])
    toolset = Toolset(Registry([source]), check_interval_s=0.02)
    await toolset.current()
    received = asyncio.Event()
    leave = toolset.listen(lambda _: received.set())
    source.tools = (tool("b"),)
    await asyncio.wait_for(received.wait(), 5)
    leave()
    source.tools = (tool("c"),)
    await asyncio.sleep(0.1)
    assert names_in(toolset) == ["b"]
    await toolset.close()


@pytest.mark.parametrize("change", ["visibility", "switched off", "issue only"])
async def test_only_what_changes_a_list_in_some_mode_is_announced(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset_module, "COALESCE_S", 0.01)
    source = ScriptedSource([tool("a"), tool("b")])
    configuration = [Configuration()]

    async def configure() -> Configuration:
        return configuration[0]

    toolset = Toolset(Registry([source]), configure, check_interval_s=60)
    await toolset.current()
    received = asyncio.Event()
    toolset.listen(lambda _: received.set())
    if change == "visibility":
        source.tools = (tool("a"), tool("b", visibility="ondemand"))
    elif change == "switched off":
        configuration[0] = Configuration(deltas=PolicyDeltas(disabled=("b",)))
    else:
        source.found.append(Issue("warning", "script", "SOMETHING", "is odd"))
    view = await toolset.current()
    await asyncio.sleep(0.05)
    assert received.is_set() == (change != "issue only")
    if change == "visibility":
        assert [one["name"] for one in view.listed(Mode.NORMAL)] == ["a", "execute_tool", "tool_search"]
    if change == "issue only":
        assert [issue.code for issue in toolset.issues()] == ["SOMETHING"]
    await toolset.close()


async def test_issues_are_limited_in_number_and_length_and_what_is_left_out_is_counted() -> None:
    source = ScriptedSource()
    source.found += [Issue("warning", "script", "ODD", "x" * 9_000, f"t{number}") for number in range(3_000)]
    source.found.append(Issue("error", "config", "LAST", "is broken", details="y" * 9_000))
    toolset = Toolset(Registry([source]))
    await toolset.current()
    first, *_, last = found = toolset.issues()
    assert (first.code, len(found)) == ("LAST", 201)
    assert last.message.startswith("2801 more problems are not listed")
    assert max(len(one.message) + len(one.details or "") for one in found) < 1_100
    await toolset.close()


async def test_sources_count_what_they_have_and_what_can_be_called() -> None:
    source = ScriptedSource([tool("a"), tool("b")])

    async def configure() -> Configuration:
        return Configuration(deltas=PolicyDeltas(disabled=("b",)))

    toolset = Toolset(Registry([source]), configure)
    await toolset.current()
    (row,) = toolset.sources()
    assert (row["toolCount"], row["enabledToolCount"]) == (2, 1)
    await toolset.close()


async def test_thousand_mixed_requests_while_everything_changes_see_whole_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each answer shows a tool wholly old or wholly new."""
    monkeypatch.setattr(toolset_module, "COALESCE_S", 0.001)
    source = ScriptedSource([tool("a", title="0", description="0")])
    toolset = Toolset(Registry([source]))

    async def ask() -> None:
        view = await toolset.current()
        (definition,) = view.listed(Mode.NORMAL)
        assert definition["title"] == definition["description"]

    async def change(number: int) -> None:
        source.tools = (tool("a", title=str(number), description=str(number)),)
        toolset.touch()

    await asyncio.gather(*(ask() if number % 4 else change(number) for number in range(1000)))
    await toolset.close()


async def test_the_wait_for_a_new_source_begins_when_the_request_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What reading the configuration takes is part of it."""
    loop = asyncio.get_running_loop()
    clock, late = loop.time, [0.0]

    async def configure() -> Configuration:
        late[0] = 30.0
        return Configuration()

    monkeypatch.setattr(loop, "time", lambda: clock() + late[0])
    source = ScriptedSource([tool("a")])
    source.gate.clear()
    toolset = Toolset(Registry([source]), configure, check_interval_s=60)
    async with asyncio.timeout(35):
        await toolset.current(20.0)
    assert names_in(toolset) == []
    await toolset.close()
