"""A source that is made late is the source that it stands for."""

from __future__ import annotations

from lm_tools_bridge.agent.conversation.late_source import LateSource
from lm_tools_bridge.agent.tool_source import limits_calls
from support.agent_doubles import ListedTools


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
