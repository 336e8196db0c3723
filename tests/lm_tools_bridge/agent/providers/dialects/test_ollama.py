"""Ollama's native API."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ModelWindow,
    ProviderFailure,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    WindowSource,
)
from support.clients.model_replies import ask, keys, provider_of, question
from support.servers.models.formats.steps import say
from support.servers.models.model_server import Bytes, model_server


async def test_the_request_of_a_simple_question_has_four_members() -> None:
    """As a program that knows nothing but chat and tools would send it."""
    tool = Tool(
        "filesystem_list_directory",
        "List files in a directory",
        {"type": "object", "properties": {"path": {"type": "string"}}},
    )
    messages = (SystemMessage("You are a powerful terminal assistant."), UserMessage("What files are there?"))
    async with model_server(say("ok")) as server, provider_of("ollama", server, keys()) as provider:
        await ask(provider, question(*messages, tools=(tool,), stream=False, model="functiongemma"))
    assert server.requests[0].path == "/api/chat"
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].body == {
        "model": "functiongemma",
        "messages": [
            {"role": "system", "content": "You are a powerful terminal assistant."},
            {"role": "user", "content": "What files are there?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "filesystem_list_directory",
                    "description": "List files in a directory",
                    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                },
            }
        ],
        "stream": False,
    }


async def test_calls_are_objects_and_results_name_their_tool() -> None:
    history = (
        UserMessage("go"),
        AssistantMessage("", (Call("x", "weather", {"city": "Ulm"}),)),
        ToolMessage(Result("x", "weather", "rain")),
    )
    async with model_server(say("ok")) as server, provider_of("ollama", server) as provider:
        await ask(provider, question(*history))
    assert server.requests[0].body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Ulm"}}}],
        },
        {"role": "tool", "tool_name": "weather", "content": "rain"},
    ]


async def test_the_context_window_is_chosen_by_the_request() -> None:
    async with model_server(say("ok")) as server, provider_of("ollama", server) as provider:
        found = await ask(provider, question(context_tokens=16_384))
    assert server.requests[0].body["options"] == {"num_ctx": 16_384}
    assert found.usage is not None
    assert found.usage.prompt_tokens is not None
    assert 20 < found.usage.prompt_tokens < 16_384


async def test_the_count_of_the_prompt_shows_that_the_server_cut_it() -> None:
    long = question(SystemMessage("Never forget me."), UserMessage("word " * 4000), context_tokens=256)
    async with model_server(say("ok")) as server, provider_of("ollama", server) as provider:
        found = await ask(provider, long)
    assert found.usage is not None
    assert found.usage.prompt_tokens == 256
    assert "Never forget me." not in server.requests[0].seen


async def test_the_largest_window_of_a_model_is_asked_once() -> None:
    async with model_server() as server, provider_of("ollama", server) as provider:
        assert isinstance(provider, WindowSource)
        assert await provider.context_window("small") == ModelWindow(32_768, chosen=True)
        server.window = 1
        assert await provider.context_window("small") == ModelWindow(32_768, chosen=True)


async def test_a_server_that_is_not_there_tells_no_window() -> None:
    async with provider_of("ollama", "http://127.0.0.1:9") as provider:
        assert isinstance(provider, WindowSource)
        assert await provider.context_window("small") is None


async def test_an_error_inside_of_the_stream_is_a_failure() -> None:
    content = b'{"message": {"content": "so"}, "done": false}\n{"error": "out of memory"}\n'
    async with model_server(Bytes(content)) as server, provider_of("ollama", server) as provider:
        with pytest.raises(ProviderFailure, match="ollama: the server reported an error: out of memory"):
            await ask(provider)


async def test_a_reply_without_its_last_line_feed_is_complete() -> None:
    lines = [
        {"message": {"content": "so"}, "done": False},
        {"message": {"content": "!"}, "done": True, "done_reason": "stop"},
    ]
    content = "\n\n".join(json.dumps(line) for line in lines).encode()
    async with model_server(Bytes(content)) as server, provider_of("ollama", server) as provider:
        assert (await ask(provider, question())).text == "so!"
