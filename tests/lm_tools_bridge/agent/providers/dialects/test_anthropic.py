"""Anthropic's Messages API."""

from __future__ import annotations

import pytest

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ProviderFailure,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)
from support.clients.model_replies import KEY, ask, provider_of, question
from support.servers.models.formats.steps import say, sse
from support.servers.models.model_server import Bytes, model_server

HISTORY = (
    SystemMessage("Be short."),
    UserMessage("Two things."),
    AssistantMessage(
        "Well", (Call("id-1", "weather", {"city": "Ulm"}), Call("id.2", "clock", None, "Error: x"))
    ),
    ToolMessage(Result("id-1", "weather", "rain")),
    ToolMessage(Result("id.2", "clock", "Error: x", is_error=True)),
    AssistantMessage(" \n"),
    UserMessage("And?"),
)


async def test_all_results_of_a_reply_are_blocks_of_one_message_with_is_error() -> None:
    async with model_server(say("ok")) as server, provider_of("anthropic", server) as provider:
        await ask(provider, question(*HISTORY))
    request = server.requests[0]
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    fitting = request.body["messages"][1]["content"][2]["id"]
    assert fitting.isalnum()
    assert request.body == {
        "model": "small",
        "max_tokens": 8192,
        "system": "Be short.",
        "messages": [
            {"role": "user", "content": "Two things."},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Well"},
                    {"type": "tool_use", "id": "id-1", "name": "weather", "input": {"city": "Ulm"}},
                    {"type": "tool_use", "id": fitting, "name": "clock", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "id-1", "content": "rain", "is_error": False},
                    {"type": "tool_result", "tool_use_id": fitting, "content": "Error: x", "is_error": True},
                ],
            },
            {"role": "user", "content": "And?"},
        ],
        "tools": [
            {
                "name": "weather",
                "description": "Tells the weather.",
                "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
            }
        ],
        "stream": True,
    }


async def test_a_picture_of_a_result_is_passed_on() -> None:
    block = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    other = {"type": "audio", "mimeType": "audio/wav", "data": "aGk="}
    result = Result("id-1", "draw", "[image image/png, 2 B]", content=(block, other))
    history = (UserMessage("draw"), AssistantMessage("", (Call("id-1", "draw", {}),)), ToolMessage(result))
    async with model_server(say("ok")) as server, provider_of("anthropic", server) as provider:
        await ask(provider, question(*history))
    assert server.requests[0].body["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": "[image image/png, 2 B]"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    ]


async def test_an_error_event_is_a_failure() -> None:
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error")
    async with model_server(Bytes(error)) as server, provider_of("anthropic", server) as provider:
        with pytest.raises(ProviderFailure, match="anthropic: the server reported an error: Overloaded"):
            await ask(provider)


async def test_tokens_from_the_cache_count_as_prompt() -> None:
    usage = {
        "input_tokens": 2,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 500,
        "output_tokens": 4,
    }
    events = sse({"type": "message_start", "message": {"usage": usage}}) + sse(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}
    )
    async with model_server(Bytes(events)) as server, provider_of("anthropic", server) as provider:
        found = await ask(provider)
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.reply_tokens) == (532, 7)


async def test_a_schema_of_alternatives_becomes_a_plain_object() -> None:
    schema = {
        "type": "object",
        "oneOf": [
            {
                "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
                "required": ["path", "line"],
            },
            {"properties": {"path": {"type": "string"}}, "required": ["path"]},
        ],
    }
    async with model_server(say("ok")) as server, provider_of("anthropic", server) as provider:
        await ask(provider, question(tools=(Tool("find", "Finds.", schema),)))
    assert server.requests[0].body["tools"][0]["input_schema"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
        "required": ["path"],
    }
