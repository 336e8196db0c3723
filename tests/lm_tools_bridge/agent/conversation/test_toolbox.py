"""The toolbox: names for the model, tools and sources that are switched off, and the search in discovery mode."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from lm_tools_bridge.agent.conversation.toolbox import (
    Found,
    LateSource,
    NotFound,
    Toolbox,
    offered_names,
    with_allowed_names,
)
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    Result,
    Tool,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.agent.tool_source import limits_calls
from support.agent_doubles import ListedTools, SearchableTools, call

ALLOWED = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")


def test_names_that_providers_take_stay() -> None:
    names = ["filesystem_read_file", "github__create-issue", "_private", "x" * 64]
    assert offered_names([("a", name) for name in names]) == names


@pytest.mark.parametrize(
    "name", ["a.b", "a b", "a/b", "ä", "x" * 65, "x" * 500, ".", "2d_plot", "3d-tools__plot", "-x", "9" * 70]
)
def test_other_names_are_changed_to_what_providers_take(name: str) -> None:
    assert ALLOWED.match(offered_names([("src", name)])[0])


def test_every_tool_has_a_name_of_its_own() -> None:
    tools = [("a", "x"), ("b", "x"), ("b", "x"), ("c", "a.b"), ("c", "a_b"), ("d", "y" * 70), ("d", "y" * 71)]
    names = offered_names(tools)
    assert len(set(names)) == len(names)
    assert names[:2] == ["x", "b__x"]
    assert names[4] == "a_b"
    assert all(ALLOWED.match(name) for name in names)
    assert offered_names(tools) == names


def test_names_in_the_history_are_what_providers_take_in_calls_and_results() -> None:
    strange = ["2d plot", "functions.read", "", "9" * 80]
    calls = tuple(Call(str(at), name, {}) for at, name in enumerate(strange))
    results = [ToolMessage(Result(call.id, call.name, "")) for call in calls]
    kept: list[Message] = [UserMessage("2d plot"), AssistantMessage("", (Call("9", "read-it", {}),))]
    reply, *given = with_allowed_names([AssistantMessage("", calls), *results])
    assert isinstance(reply, AssistantMessage)
    names = [call.name for call in reply.calls]
    assert all(ALLOWED.match(name) for name in names)
    assert [message.result.name for message in given if isinstance(message, ToolMessage)] == names
    assert with_allowed_names(kept) == kept


async def test_a_changed_name_leads_back_to_the_tool_of_its_source() -> None:
    first, second = ListedTools("do.it", name="a"), ListedTools("do_it", "do.it", name="b")
    toolbox = Toolbox([first, second])
    tools = await toolbox.refresh()
    assert [tool.name for tool in tools] == ["a__do_it", "do_it", "b__do_it"]
    for tool, source, name in zip(tools, (first, second, second), ("do.it", "do_it", "do.it"), strict=True):
        found = toolbox.find(call(tool.name, n=1))
        assert isinstance(found, Found)
        assert (found.source, found.tool.name, found.call.name) == (source, name, name)


async def test_a_source_that_is_switched_off_offers_nothing() -> None:
    toolbox = Toolbox([ListedTools("read", name="a"), ListedTools("write", name="b")])
    toolbox.enable_source("a", False)
    assert [tool.name for tool in await toolbox.refresh()] == ["write"]
    assert isinstance(toolbox.find(call("read")), NotFound)
    toolbox.enable_source("a", True)
    assert len(await toolbox.refresh()) == 2


async def test_a_source_that_is_switched_off_runs_nothing_that_was_listed_before() -> None:
    toolbox, _ = await searching()
    toolbox.enable_source("local", False)
    await toolbox.refresh()
    assert toolbox.find(call("local")) == NotFound("Tool local is disabled")


async def test_closing_closes_every_source() -> None:
    sources = [ListedTools("read", name="a"), ListedTools("write", name="b")]
    await Toolbox(sources).close()
    assert [source.closed for source in sources] == [True, True]


async def test_uses_are_counted_with_how_the_last_one_ended() -> None:
    toolbox = Toolbox([ListedTools("read")])
    await toolbox.refresh()
    found = toolbox.find(call("read"))
    assert isinstance(found, Found)
    await toolbox.run(found, {}, lambda text: None)
    assert (toolbox.uses["read"].calls, toolbox.uses["read"].failed) == (1, False)


async def searching() -> tuple[Toolbox, SearchableTools]:
    tools = SearchableTools("read", "write")
    toolbox = Toolbox([tools, ListedTools("local", name="local")])
    await toolbox.refresh()
    assert await toolbox.set_discovery(True)
    assert [tool.name for tool in await toolbox.refresh()] == ["tool_search", "execute_tool", "local"]
    return toolbox, tools


async def test_a_call_through_execute_tool_is_decided_on_as_the_tool_it_runs() -> None:
    toolbox, tools = await searching()
    found = toolbox.find(Call("1", "execute_tool", {"name": "write", "arguments": {"path": "x"}}))
    assert isinstance(found, Found)
    assert (found.call.name, found.call.arguments) == ("write", {"path": "x"})
    assert found.tool.description == "the tool write"
    assert found.source is tools


async def test_a_tool_that_is_no_longer_listed_can_be_called_by_its_name() -> None:
    toolbox, _ = await searching()
    assert isinstance(toolbox.find(call("read")), Found)


async def test_a_tool_that_was_never_listed_is_left_to_its_server() -> None:
    toolbox, tools = await searching()
    found = toolbox.find(executed("rare"))
    assert isinstance(found, Found)
    assert (found.tool.name, found.tool.annotations, found.source) == ("rare", {}, tools)


@pytest.mark.parametrize(
    "name", ["openllm_secrets_get", "lmToolsBridge.callTool", "execute_tool", "tool_search"]
)
async def test_execute_tool_leads_to_no_internal_tool(name: str) -> None:
    toolbox, _ = await searching()
    found = toolbox.find(executed(name))
    assert isinstance(found, NotFound)
    assert found.text.startswith(f"Tool not found or disabled: {name}")


async def test_execute_tool_leads_to_no_disabled_tool() -> None:
    toolbox, _ = await searching()
    toolbox.enable("write", False)
    assert toolbox.find(executed("write")) == NotFound("Tool write is disabled")


async def test_execute_tool_leads_to_no_tool_that_is_disabled_under_another_name() -> None:
    toolbox = Toolbox([SearchableTools("do.it", name="a")])
    await toolbox.refresh()
    await toolbox.set_discovery(True)
    await toolbox.refresh()
    toolbox.enable("do_it", False)
    assert toolbox.find(executed("do.it")) == NotFound("Tool do_it is disabled")


async def test_execute_tool_means_a_tool_of_its_own_source() -> None:
    first, second = ListedTools("read", name="a"), SearchableTools("read", name="b")
    toolbox = Toolbox([first, second])
    await toolbox.refresh()
    await toolbox.set_discovery(True)
    await toolbox.refresh()
    found = toolbox.find(executed("read"))
    assert isinstance(found, Found)
    assert found.source is second


async def test_a_source_whose_list_fails_has_no_tools_in_this_round() -> None:
    class Faulty(ListedTools):
        async def list_tools(self) -> Sequence[Tool]:
            raise ValueError("no list")

    toolbox = Toolbox([Faulty(name="a"), ListedTools("read", name="b")])
    assert [tool.name for tool in await toolbox.refresh()] == ["read"]


async def test_discovery_needs_a_source_that_can_search() -> None:
    toolbox = Toolbox([ListedTools("read")])
    assert not await toolbox.set_discovery(True)
    assert not toolbox.discovery


def executed(name: str) -> Call:

    return Call("1", "execute_tool", {"name": name})


class Limiting(ListedTools):
    limits_calls = True


def test_it_limits_its_calls_if_its_source_does() -> None:
    assert limits_calls(LateSource("late", lambda: Limiting("read")))
    assert not limits_calls(LateSource("late", lambda: ListedTools("read")))


async def test_it_lists_and_calls_the_tools_of_its_source_which_is_made_once() -> None:
    made: list[ListedTools] = []

    def make() -> ListedTools:
        made.append(ListedTools("read"))
        return made[-1]

    late = LateSource("late", make)
    assert late.state().state == "starting"
    assert [tool.name for tool in await late.list_tools()] == ["read"]
    await late.call("read", {}, lambda text: None)
    assert [source.calls for source in made] == [[("read", {})]]
    assert late.state().state == "ready"
