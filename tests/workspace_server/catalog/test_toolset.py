"""The current view of the tools, and the announcement of changes."""

from __future__ import annotations

import asyncio

import pytest

from lm_tools_bridge.protocol.issues import Issue
from support.clock import VirtualTime
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.toolset import COALESCE_S, SOON_S, Toolset
from workspace_server.catalog.view import Mode
from workspace_server.config.model import Configuration, PolicyDeltas


def names_in(toolset: Toolset) -> list[str]:
    return [offered.name for offered in toolset.last.tools]


@pytest.mark.usefixtures("virtual_time")
async def test_quick_changes_are_announced_once_and_undone_ones_never() -> None:
    source = ScriptedSource([tool("a")])
    toolset = Toolset(Registry([source]), check_interval_s=60)
    announced: list[list[str]] = []
    toolset.listen(lambda _: announced.append(names_in(toolset)))
    await toolset.current()
    for tools in (["a", "b"], ["a", "c"], ["d"]):
        source.tools = tuple(tool(name) for name in tools)
        await toolset.current()
    await asyncio.sleep(2 * COALESCE_S)
    assert announced == [["d"]]
    source.tools = (tool("e"),)
    await toolset.current()
    source.tools = (tool("d"),)
    await toolset.current()
    await asyncio.sleep(2 * COALESCE_S)
    assert announced == [["d"]]
    await toolset.close()


async def test_the_first_change_is_announced_soon_and_the_next_only_after_a_while(
    virtual_time: VirtualTime,
) -> None:
    source = ScriptedSource([tool("a")])
    toolset = Toolset(Registry([source]), check_interval_s=3600)
    announced = asyncio.Event()
    toolset.listen(lambda _: announced.set())
    await toolset.current()
    waits: list[float] = []
    for name in ("b", "c"):
        began = virtual_time.passed
        source.tools = (tool(name),)
        await toolset.current()
        await announced.wait()
        announced.clear()
        waits.append(virtual_time.passed - began)
    assert waits == pytest.approx([SOON_S, COALESCE_S])
    await toolset.close()


async def test_files_are_checked_regularly_only_while_a_listener_is_registered(
    virtual_time: VirtualTime,
) -> None:
    """`list_changed` within 2 s, without any request."""
    source = ScriptedSource([tool("a")])
    toolset = Toolset(Registry([source]))
    await toolset.current()
    received = asyncio.Event()
    leave = toolset.listen(lambda _: received.set())
    source.tools = (tool("b"),)
    await received.wait()
    assert virtual_time.passed < 2
    leave()
    source.tools = (tool("c"),)
    await asyncio.sleep(3600)
    assert names_in(toolset) == ["b"]
    await toolset.close()


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("change", ["visibility", "switched off", "issue only"])
async def test_only_what_changes_a_list_in_some_mode_is_announced(change: str) -> None:
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
    await asyncio.sleep(2 * COALESCE_S)
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


@pytest.mark.usefixtures("virtual_time")
async def test_thousand_mixed_requests_while_everything_changes_see_whole_tools() -> None:
    """Each answer shows a tool wholly old or wholly new."""
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


async def test_the_wait_for_a_new_source_begins_when_the_request_arrives(virtual_time: VirtualTime) -> None:
    """What reading the configuration takes is part of it."""

    async def configure() -> Configuration:
        await asyncio.sleep(30)
        return Configuration()

    source = ScriptedSource([tool("a")])
    source.gate.clear()
    toolset = Toolset(Registry([source]), configure, check_interval_s=60)
    await toolset.current(35)
    assert virtual_time.passed == pytest.approx(35)
    assert names_in(toolset) == []
    await toolset.close()


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize(("first_wait_s", "offered"), [(1.0, ["a"]), (0.0, [])])
async def test_a_list_that_is_stored_is_read_even_if_the_login_shell_took_all_the_time(
    first_wait_s: float, offered: list[str]
) -> None:
    source = ScriptedSource([tool("a")])
    source.gate.clear()

    async def configure() -> Configuration:
        await asyncio.sleep(3)
        asyncio.get_running_loop().call_later(0.1, source.gate.set)  # a slow disk
        return Configuration()

    toolset = Toolset(Registry([source]), configure, check_interval_s=60)
    view = await toolset.current(first_wait_s)
    assert [each.name for each in view.tools] == offered
    await toolset.close()
