"""Chat Completions: what is sent, and what servers that only resemble OpenAI's send back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ModelWindow,
    ProviderFailure,
    Result,
    SystemMessage,
    ToolMessage,
    UserMessage,
    WindowSource,
)
from support.clients.model_replies import KEY, ask, keys, provider_of, question
from support.servers.models.formats.steps import say
from support.servers.models.model_server import Bytes, model_server

HISTORY = (
    SystemMessage("Be short."),
    UserMessage("Two things."),
    AssistantMessage(
        "Well", (Call("id-1", "weather", {"city": "Ulm"}), Call("id-2", "clock", None, "Error: x"))
    ),
    ToolMessage(Result("id-1", "weather", "rain")),
    ToolMessage(Result("id-2", "clock", "Error: x", is_error=True)),
)


def stream(*chunks: dict[str, Any]) -> Bytes:
    """A streamed reply of these chunks."""
    events = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return Bytes(events + b"data: [DONE]\n\n")


def delta(reason: str | None = None, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": reason}]}


async def test_calls_and_results_keep_their_ids_in_the_request() -> None:
    async with model_server(say("ok")) as server, provider_of("openai", server) as provider:
        await ask(provider, question(*HISTORY))
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].body == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Two things."},
            {
                "role": "assistant",
                "content": "Well",
                "tool_calls": [
                    {
                        "id": "id-1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Ulm"}'},
                    },
                    {"id": "id-2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "id-1", "content": "rain"},
            {"role": "tool", "tool_call_id": "id-2", "content": "Error: x"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "Tells the weather.",
                    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                },
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_mistral_gets_no_stream_options_and_ids_of_nine_characters() -> None:
    async with model_server(say("ok")) as server, provider_of("mistral", server) as provider:
        await ask(provider, question(*HISTORY))
    body = server.requests[0].body
    assert "stream_options" not in body
    first, second = (one["id"] for one in body["messages"][2]["tool_calls"])
    assert all(len(one) == 9 and one.isalnum() for one in (first, second))
    assert [one["tool_call_id"] for one in body["messages"][3:]] == [first, second]


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/openai/deployments/small/chat/completions?api-version=2024-10-21"),
        ("/?api-version=2025-01-01", "/openai/deployments/small/chat/completions?api-version=2025-01-01"),
        (
            "/openai/deployments/mine/chat/completions?api-version=2025-01-01",
            "/openai/deployments/mine/chat/completions?api-version=2025-01-01",
        ),
        ("/openai/v1/", "/openai/v1/chat/completions"),
    ],
    ids=["resource", "version", "deployment", "version-less"],
)
async def test_azure_names_deployment_and_version_and_has_a_header_of_its_own(base: str, path: str) -> None:
    async with model_server(say("ok")) as server, provider_of("azure", server.url + base) as provider:
        if "v1" in base:  # the scripted server has no such path; its refusal shows what was asked
            with pytest.raises(ProviderFailure, match="was not found"):
                await ask(provider)
            assert server.unknown == [f"POST {path}"]
            return
        assert (await ask(provider)).text == "ok"
    assert server.requests[0].path == path
    assert server.requests[0].headers["api-key"] == KEY
    assert "authorization" not in server.requests[0].headers


async def test_a_local_server_needs_no_key() -> None:
    async with model_server(say("ok")) as server, provider_of("vllm", server, keys()) as provider:
        assert (await ask(provider)).text == "ok"
    assert "authorization" not in server.requests[0].headers


async def test_deltas_of_calls_are_joined_by_index_and_only_the_first_has_the_id() -> None:
    reply = stream(
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "weather", "arguments": ""}}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "clock", "arguments": '{"z'}}]),
        delta(
            tool_calls=[
                {"index": 0, "function": {"arguments": '{"city":'}},
                {"index": 1, "function": {"arguments": 'one": 1}'}},
            ]
        ),
        delta("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": '"Ulm"}'}}]),
    )
    async with model_server(reply) as server, provider_of("openai", server) as provider:
        found = await ask(provider)
    assert [(one.id, one.name, one.arguments) for one in found.calls] == [
        ("a", "weather", {"city": "Ulm"}),
        ("b", "clock", {"zone": 1}),
    ]


async def test_calls_that_all_have_the_index_zero_are_told_apart_by_their_ids() -> None:
    reply = stream(
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "weather", "arguments": "{}"}}]),
        delta("stop", tool_calls=[{"index": 0, "id": "b", "function": {"name": "clock", "arguments": "{}"}}]),
    )
    async with model_server(reply) as server, provider_of("openai", server) as provider:
        found = await ask(provider)
    assert [(one.id, one.name) for one in found.calls] == [("a", "weather"), ("b", "clock")]
    assert found.finish == "calls"


async def test_calls_without_an_index_begin_with_their_names() -> None:
    reply = stream(
        delta(tool_calls=[{"id": "a", "function": {"name": "weather", "arguments": '{"city"'}}]),
        delta(tool_calls=[{"function": {"arguments": ': "Ulm"}'}}]),
        delta(
            "tool_calls", tool_calls=[{"id": "b", "function": {"name": "clock", "arguments": {"zone": 1}}}]
        ),
    )
    async with model_server(reply) as server, provider_of("openai", server) as provider:
        found = await ask(provider)
    assert [(one.name, one.arguments) for one in found.calls] == [
        ("weather", {"city": "Ulm"}),
        ("clock", {"zone": 1}),
    ]


async def test_comments_roles_and_empty_choices_are_passed_over() -> None:
    content = b': OPENROUTER PROCESSING\n\ndata: {"choices": []}\n\nevent: x\r\ndata: {"choices": [{"delta": {"role": "assistant"}}]}\r\n\r\n'
    reply = Bytes(content + stream(delta(reasoning="hm"), delta("stop", content="ok")).content)
    async with model_server(reply) as server, provider_of("openai", server) as provider:
        found = await ask(provider)
    assert (found.text, found.thinking, found.finish, found.usage) == ("ok", "hm", "complete", None)


async def test_content_in_parts_is_text_and_thinking() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "ok"},
    ]
    async with (
        model_server(stream(delta("stop", content=parts))) as server,
        provider_of("mistral", server) as provider,
    ):
        found = await ask(provider)
    assert (found.text, found.thinking) == ("ok", "hm")


async def test_a_refusal_in_words_is_shown_and_is_one() -> None:
    async with (
        model_server(stream(delta("stop", refusal="I will not."))) as server,
        provider_of("openai", server) as provider,
    ):
        found = await ask(provider)
    assert (found.text, found.finish) == ("I will not.", "refused")


async def test_an_error_inside_of_the_stream_is_a_failure() -> None:
    reply = stream(delta(content="so"), {"error": {"message": "the model fell over"}})
    async with model_server(reply) as server, provider_of("openai", server) as provider:
        with pytest.raises(
            ProviderFailure, match="openai: the server reported an error: the model fell over; try again"
        ):
            await ask(provider)


async def test_a_server_that_does_not_stream_answers_whole() -> None:
    whole = {"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}]}
    async with (
        model_server(Bytes(json.dumps(whole).encode(), "application/json")) as server,
        provider_of("lmstudio", server) as provider,
    ):
        assert (await ask(provider, question(stream=True))).text == "all at once"


async def test_what_a_server_wants_back_with_a_call_is_sent_back() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    made = {"index": 0, "id": "a", "function": {"name": "weather", "arguments": "{}"}, "extra_content": extra}
    async with (
        model_server(stream(delta("tool_calls", tool_calls=[made])), say("ok")) as server,
        provider_of("openai", server) as provider,
    ):
        [found] = (await ask(provider)).calls
        await ask(
            provider,
            question(
                UserMessage("x"), AssistantMessage("", (found,)), ToolMessage(Result("a", "weather", "rain"))
            ),
        )
    assert server.requests[1].body["messages"][1]["tool_calls"][0]["extra_content"] == extra


async def test_the_window_of_a_model_is_in_the_list_of_models() -> None:
    from aiohttp import web

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "other"}, {"id": "small", "max_model_len": 8192}]})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with provider_of("vllm", f"http://{host}:{port}") as provider:
            assert isinstance(provider, WindowSource)
            assert await provider.context_window("small") == ModelWindow(8192)
            assert await provider.context_window("other") == ModelWindow(None)
    finally:
        await runner.cleanup()
