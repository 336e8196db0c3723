"""The context budget in a conversation: a long session with many tools and a model server that cuts silently."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.conversation.conversation import Conversation, system_prompt
from lm_tools_bridge.agent.conversation.model_reply import ModelReply, read_reply
from lm_tools_bridge.agent.conversation.toolbox import Toolbox
from lm_tools_bridge.agent.conversation.turn import Ending
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    ModelRequest,
    ModelWindow,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)
from support.agent_doubles import (
    ListedTools,
    RecordingPerson,
    ScriptedGuard,
    ScriptedProvider,
    SearchableTools,
    Step,
    calling,
    saying,
    text_outcome,
)
from support.agent_scene import is_whole
from support.clock import ManualClock
from support.servers.models.formats import ollama_chat

SYSTEM = "You are a powerful terminal assistant."
TURNS = 20
ROWS = "alpha, beta, gamma and delta; " * 50


class CuttingOllama(ScriptedProvider):
    """An Ollama that cuts the beginning of what is too long for `num_ctx`, and counts what it read.

    Its model calls a tool once in each turn. `seen` is what the model saw in each request.
    """

    def __init__(self, window: ModelWindow | None, fixed: int | None = None) -> None:
        super().__init__(window=window)
        self.fixed = fixed
        self.seen: list[str] = []
        self.answer = self._answer

    def _answer(self, request: ModelRequest) -> Sequence[Step]:
        body: dict[str, Any] = {
            "messages": [_message(one) for one in request.messages],
            "tools": [_tool(one) for one in request.tools],
            "options": {"num_ctx": self.fixed or request.context_tokens or ollama_chat.DEFAULT_WINDOW},
        }
        seen = ollama_chat.seen(body)
        self.seen.append(seen)
        tokens = -(-len(seen) // ollama_chat.CHARACTERS_A_TOKEN)
        if not request.tools:
            return saying("they looked at tables", tokens)
        if isinstance(request.messages[-1], UserMessage):
            usage = [step for step in saying("", tokens) if type(step).__name__ == "Usage"]
            name = next(tool.name for tool in request.tools if tool.name != "tool_search")
            arguments: dict[str, Any] = {"table": str(len(self.seen))}
            if name == "execute_tool":
                arguments = {"name": "table_0", "arguments": arguments}
            return [*usage, *calling(Call("", name, arguments))]
        return saying("the table has rows", tokens)


def _message(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(text):
            return {"role": "user", "content": text}
        case AssistantMessage(text, calls):
            return {"role": "assistant", "content": text, "tool_calls": [one.name for one in calls]}
        case ToolMessage(result):
            return {"role": "tool", "content": result.text}


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}


async def rows(name: str, arguments: object) -> Any:
    return text_outcome(ROWS)


def forty(kind: type[ListedTools] = ListedTools) -> ListedTools:
    """Forty tools, about 3,500 tokens."""
    tools = kind(handler=rows, name="manager")
    schema = {
        "type": "object",
        "properties": {
            "table": {"type": "string", "description": "Name of the table to look at, as listed by tables."},
            "limit": {"type": "integer", "description": "Most rows that are wanted.", "default": 100},
        },
        "required": ["table"],
    }
    tools.tools = [
        Tool(f"table_{at}", "Shows rows of a table of the project. " * 2, schema) for at in range(40)
    ]
    return tools


class Session:
    """A conversation with this provider and these tools."""

    def __init__(
        self, provider: CuttingOllama, tools: ListedTools, *, answers: Sequence[str] = (), **settings: Any
    ) -> None:
        self.provider = provider
        self.tools = tools
        self.person = RecordingPerson(list(answers))
        self.conversation = Conversation(
            lambda name: provider,
            Toolbox([tools]),
            ScriptedGuard(),
            self.person,
            AgentSettings(**{"model": {"ollama": "small"}, **settings}),
            clock=ManualClock(),
        )

    async def run(self, turns: int = TURNS) -> None:
        for number in range(turns):
            outcome = await self.conversation.turn(f"question {number}: what is in the next table?")
            assert outcome.ending is Ending.COMPLETED
            assert is_whole(self.conversation.messages)

    @property
    def losses(self) -> int:
        """The requests in which the model did not see the whole system prompt."""
        return sum(not seen.startswith(SYSTEM) for seen in self.provider.seen)

    def sees_every_tool(self) -> bool:
        return all(
            f'"{tool.name}"' in seen
            for seen, request in zip(self.provider.seen, self.provider.requests, strict=True)
            for tool in request.tools
        )


async def test_forty_tools_and_twenty_turns_lose_neither_system_prompt_nor_tools() -> None:
    session = Session(CuttingOllama(ModelWindow(32_768, chosen=True)), forty())
    await session.run()
    assert session.losses == 0
    assert session.sees_every_tool()
    windows = [request.context_tokens for request in session.provider.requests]
    assert windows == sorted(windows, key=lambda size: size or 0)
    assert len(set(windows)) <= 3, "the model is loaded again only a few times"
    assert session.person.notices == []


async def test_the_same_session_without_a_budget_loses_both() -> None:
    """An agent that sends everything and names no window, as most do."""
    provider, tools = CuttingOllama(None), forty().tools
    messages: list[Message] = [SystemMessage(system_prompt())]
    for number in range(TURNS):
        messages.append(UserMessage(f"question {number}: what is in the next table?"))
        while isinstance(messages[-1], UserMessage | ToolMessage):
            reply = ModelReply()
            await read_reply(provider, ModelRequest("small", messages, tools), reply, None)
            messages.append(AssistantMessage(reply.text, tuple(reply.calls)))
            messages.extend(ToolMessage(Result(one.id, one.name, ROWS)) for one in reply.calls)
    assert sum(not seen.startswith(SYSTEM) for seen in provider.seen) > TURNS
    assert '"table_39"' not in provider.seen[-1]


async def test_a_server_that_tells_no_window_cuts_until_it_is_noticed() -> None:
    session = Session(CuttingOllama(None), forty(SearchableTools))
    await session.run()
    assert 1 <= session.losses <= 3
    assert session.provider.seen[-1].startswith(SYSTEM)


async def test_a_small_model_loses_nothing_either_and_searches_for_its_tools() -> None:
    tools = forty(SearchableTools)
    session = Session(CuttingOllama(ModelWindow(8192, chosen=True)), tools)
    await session.run()
    assert session.losses == 0
    assert session.sees_every_tool()
    assert [tool.name for tool in session.provider.requests[-1].tools] == ["tool_search", "execute_tool"]
    assert tools.calls[0] == ("table_0", {"table": "1"})
    assert session.person.notices[0] == (
        "40 tools take more than 30% of the context: the model searches for them instead (tool_search, execute_tool)"
    )


async def test_without_a_search_the_person_is_told_what_to_do() -> None:
    session = Session(CuttingOllama(ModelWindow(8192, chosen=True)), forty())
    await session.run(3)
    assert session.losses == 0
    assert session.person.notices[0] == (
        "40 tools take more than 30% of the context. Next step: switch some off with /tools NAME off"
    )


async def test_a_conversation_that_no_longer_fits_is_summarised_with_leave() -> None:
    session = Session(
        CuttingOllama(ModelWindow(8192, chosen=True)), forty(SearchableTools), answers=["", "y", "y"]
    )
    await session.run()
    assert session.losses <= 3, "only requests for a summary have another system prompt"
    assert session.person.asked[0].startswith("The conversation no longer fits (context ")
    assert session.person.asked[0].endswith("Summarise its older part? ([y]/n): ")
    first, second = session.conversation.messages[:2]
    assert first == UserMessage("Summary of the conversation so far:\nthey looked at tables")
    assert isinstance(second, AssistantMessage)
    assert session.conversation.messages[-1] == AssistantMessage("the table has rows")


async def test_without_leave_the_model_no_longer_sees_old_turns_but_the_history_keeps_them() -> None:
    session = Session(
        CuttingOllama(ModelWindow(8192, chosen=True)), forty(SearchableTools), answers=["n"] * TURNS
    )
    await session.run()
    assert session.losses == 0
    assert len(session.conversation.messages) == TURNS * 4
    assert any(notice.startswith("the model no longer sees the ") for notice in session.person.notices)
    assert len(session.person.asked) <= TURNS


async def test_a_person_can_have_the_conversation_summarised() -> None:
    session = Session(CuttingOllama(ModelWindow(8192, chosen=True)), forty(SearchableTools))
    await session.run(8)
    assert await session.conversation.summarise()
    assert session.conversation.messages == (
        UserMessage("Summary of the conversation so far:\nthey looked at tables"),
        AssistantMessage("I continue from this summary."),
    )
    session.conversation.clear()
    assert not await session.conversation.summarise()


async def test_a_window_that_is_told_late_is_planned_with_from_then_on() -> None:
    provider = CuttingOllama(None)
    session = Session(provider, forty())
    await session.run(1)
    provider.window = ModelWindow(32_768, chosen=True)
    await session.run(1)
    assert [request.context_tokens for request in provider.requests] == [None, None, 8192, 8192]


async def test_a_server_that_cuts_all_the_same_is_noticed_and_obeyed() -> None:
    """The model's window is smaller than what the server says, or a proxy ignores `num_ctx`."""
    provider = CuttingOllama(ModelWindow(32_768, chosen=True), fixed=8192)
    session = Session(provider, forty())
    await session.run()
    assert sum("it cut the beginning of the request" in notice for notice in session.person.notices) == 1
    assert 1 <= session.losses <= 2, "the cut can only be noticed after it happened"
    assert session.provider.seen[-1].startswith(SYSTEM)


async def test_the_setting_bounds_the_window() -> None:
    session = Session(CuttingOllama(ModelWindow(131_072, chosen=True)), forty(), context_tokens=16_000)
    await session.run()
    assert max(request.context_tokens or 0 for request in session.provider.requests) <= 16_000
    assert session.losses == 0


async def test_one_line_shows_what_the_last_request_cost() -> None:
    session = Session(CuttingOllama(ModelWindow(32_768, chosen=True)), forty())
    await session.run(2)
    shape = r"context \d+(\.\d)?k of 8k: system 0\.\dk, tools \d(\.\d)?k, history \d(\.\d)?k"
    assert re.fullmatch(shape, session.conversation.context_line)
    contexts = [details for kind, details in session.person.events if kind == "context"]
    assert contexts[-1]["line"] == session.conversation.context_line


async def test_another_model_is_planned_for_anew() -> None:
    provider = CuttingOllama(ModelWindow(8192, chosen=True))
    session = Session(provider, forty(SearchableTools))
    await session.run(1)
    assert len(provider.requests[-1].tools) == 2
    provider.window = ModelWindow(32_768, chosen=True)
    session.conversation.choose("ollama", "large")
    await session.run(1)
    assert len(provider.requests[-1].tools) == 40


@pytest.mark.parametrize("kind", [ListedTools, SearchableTools])
async def test_a_large_result_leaves_room_for_what_must_stay(kind: type[ListedTools]) -> None:
    async def flood(name: str, arguments: object) -> Any:
        return text_outcome("line of a log, with words\n" * 40_000)

    tools = forty(kind)
    tools.tools = tools.tools[:4]
    tools._handler = flood
    session = Session(CuttingOllama(ModelWindow(8192, chosen=True)), tools)
    await session.run(5)
    assert session.losses == 0
    result = next(one.result for one in session.conversation.messages if isinstance(one, ToolMessage))
    assert "[truncated: " in result.text
    assert session.conversation.last_result is not None
    assert len(session.conversation.last_result.text) == 1_040_000
