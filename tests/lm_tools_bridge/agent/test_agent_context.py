"""The agent's context budget with the real adapter for Ollama, against a server that cuts prompts without a word."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings, ProviderEntry
from lm_tools_bridge.agent.conversation.conversation import Conversation
from lm_tools_bridge.agent.conversation.model_reply import ModelReply, read_reply
from lm_tools_bridge.agent.conversation.toolbox import Toolbox
from lm_tools_bridge.agent.conversation.turn import Ending
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Message,
    ModelRequest,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.agent.provider_keys import KeyLookup
from lm_tools_bridge.agent.providers.factory import make_provider
from lm_tools_bridge.agent.tool_source import Outcome
from support.agent_doubles import ListedTools, RecordingPerson, ScriptedGuard, SearchableTools, text_outcome
from support.agent_scene import is_whole
from support.clock import ManualClock
from support.servers.models.formats.steps import Reply, call, say
from support.servers.models.model_server import ModelServer, RecordedRequest, model_server

TURNS = 20
SYSTEM = "You are a powerful terminal assistant."
ROWS = "alpha, beta, gamma and delta; " * 50


async def rows(name: str, arguments: Mapping[str, Any]) -> Outcome:
    return text_outcome(ROWS)


def forty(kind: type[ListedTools]) -> ListedTools:
    """Forty tools, about 3,500 tokens."""
    schema = {
        "type": "object",
        "properties": {
            "table": {"type": "string", "description": "Name of the table to look at, as listed by tables."},
            "limit": {"type": "integer", "description": "Most rows that are wanted.", "default": 100},
        },
        "required": ["table"],
    }
    tools = kind(handler=rows, name="manager")
    tools.tools = [
        Tool(f"table_{at}", "Shows rows of a table of the project. " * 2, schema) for at in range(40)
    ]
    return tools


def looks_at_a_table(request: RecordedRequest) -> Reply:
    """Calls a tool for each question, then says something."""
    if request.body["messages"][-1]["role"] != "user":
        return say("the table has rows")
    arguments: dict[str, Any] = {"table": str(len(request.body["messages"]))}
    if "execute_tool" in request.tools:
        return call("execute_tool", {"name": "table_0", "arguments": arguments})
    return call("table_0", arguments)


@pytest.fixture
async def ollama() -> AsyncIterator[ModelServer]:
    async with model_server(*[looks_at_a_table] * (TURNS * 2)) as server:
        yield server


async def talk(
    server: ModelServer, tools: ListedTools, **settings: Any
) -> tuple[Conversation, RecordingPerson]:
    """A session of twenty turns."""
    entry = ProviderEntry(kind="ollama", api_base=server.base("ollama"))
    chosen = AgentSettings(**{"model": {"ollama": "small"}, "providers": {"ollama": entry}, **settings})
    person = RecordingPerson()
    async with aiohttp.ClientSession() as session:
        provider = make_provider("ollama", chosen, session, KeyLookup(()))
        conversation = Conversation(
            lambda name: provider, Toolbox([tools]), ScriptedGuard(), person, chosen, clock=ManualClock()
        )
        for number in range(TURNS):
            outcome = await conversation.turn(f"question {number}: what is in the next table?")
            assert outcome.ending is Ending.COMPLETED, outcome
            assert is_whole(conversation.messages)
    return conversation, person


def losses(server: ModelServer) -> int:
    """The requests of which the model did not see the beginning."""
    return sum(not request.seen.startswith(SYSTEM) for request in server.requests)


@pytest.mark.parametrize("stream", [True, False])
async def test_forty_tools_and_twenty_turns_lose_neither_system_prompt_nor_tools(
    ollama: ModelServer, stream: bool
) -> None:
    conversation, person = await talk(ollama, forty(ListedTools), stream=stream)
    assert len(ollama.requests) == TURNS * 2
    assert losses(ollama) == 0
    assert all(f'"{name}"' in request.seen for request in ollama.requests for name in request.tools)
    windows = [request.body["options"]["num_ctx"] for request in ollama.requests]
    assert windows == sorted(windows)
    assert set(windows) <= {4096, 8192, 16_384}, "the model is loaded again only a few times"
    assert person.notices == []
    assert " of 16k: " in conversation.context_line


async def test_a_small_model_searches_for_its_tools_and_loses_nothing(ollama: ModelServer) -> None:
    ollama.window = 8192
    tools = forty(SearchableTools)
    conversation, _ = await talk(ollama, tools)
    assert losses(ollama) == 0
    assert ollama.requests[-1].tools == ["tool_search", "execute_tool"]
    assert len(tools.calls) == TURNS
    assert max(request.body["options"]["num_ctx"] for request in ollama.requests) == 8192
    assert "older messages left out" in conversation.context_line


async def test_the_same_session_without_a_budget_loses_both(ollama: ModelServer) -> None:
    """An agent that sends everything through the same adapter and names no window, as most do."""
    entry = ProviderEntry(kind="ollama", api_base=ollama.base("ollama"))
    settings = AgentSettings(model={"ollama": "small"}, providers={"ollama": entry})
    tools, messages = forty(ListedTools).tools, list[Message]([SystemMessage(SYSTEM)])
    async with aiohttp.ClientSession() as session:
        provider = make_provider("ollama", settings, session, KeyLookup(()))
        for number in range(TURNS):
            messages.append(UserMessage(f"question {number}: what is in the next table?"))
            while isinstance(messages[-1], UserMessage | ToolMessage):
                reply = ModelReply()
                await read_reply(provider, ModelRequest("small", messages, tools), reply, None)
                messages.append(AssistantMessage(reply.text, tuple(reply.calls)))
                messages.extend(ToolMessage(Result(one.id, one.name, ROWS)) for one in reply.calls)
    assert losses(ollama) > TURNS
    assert '"table_39"' not in ollama.requests[-1].seen
