"""What all dialects have in common: the same replies become the same events, streamed or not, cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ModelEvent,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    Usage,
    UserMessage,
)
from lm_tools_bridge.agent.providers.dialects.anthropic import AnthropicMessages
from lm_tools_bridge.agent.providers.dialects.dialect import CallIds, Dialect
from lm_tools_bridge.agent.providers.dialects.gemini import GeminiContent
from lm_tools_bridge.agent.providers.dialects.ollama import OllamaChat
from lm_tools_bridge.agent.providers.dialects.openai import OpenAiChat
from lm_tools_bridge.agent.providers.framing import Documents
from support.clients.model_replies import DIALECTS, ask, provider_of, question
from support.examples import examples
from support.servers.models.formats.steps import Reply, ReplyCall, call, say
from support.servers.models.model_server import DIALECTS as FORMATS
from support.servers.models.model_server import model_server

MAKERS: dict[str, Callable[[], Dialect]] = {
    "ollama": OllamaChat, "openai": OpenAiChat, "anthropic": AnthropicMessages, "gemini": GeminiContent,
}  # fmt: skip
HARD = 'line\n\ttab \u2028 "quote" \\ } </tool> \U0001f389 \\'
FULL = Reply(
    text=("Höre ", "zu: ", "\U0001f389 ok\n"),
    thinking=("hm, ", "nun"),
    calls=(ReplyCall("weather", {"city": HARD}, "id-one"), ReplyCall("clock", {}, "id-two"), ReplyCall("weather", {"n": 1}, "id-three")),
    prompt_tokens=12,
    reply_tokens=34,
    interleaved=True,
)  # fmt: skip
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
streamed_or_not = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def decoded(dialect: str, pieces: list[bytes]) -> list[ModelEvent]:
    """The events of a streamed reply that arrives in these pieces."""
    spoken = MAKERS[dialect]()
    documents, reader = Documents(spoken.framing), spoken.reader(CallIds(()))
    events = [
        event for piece in pieces for document in documents.feed(piece) for event in reader.read(document)
    ]
    events += [event for document in documents.end() for event in reader.read(document)]
    return events + reader.end()


@every_dialect
@streamed_or_not
async def test_text_thinking_calls_usage_and_end_arrive(dialect: str, stream: bool) -> None:
    async with model_server(FULL, piece=7) as server, provider_of(dialect, server) as provider:
        found = await ask(provider, question(stream=stream))
    assert found.text == "Höre zu: \U0001f389 ok\n"
    assert found.thinking == "hm, nun"
    assert [(one.name, one.arguments, one.problem) for one in found.calls] == [
        ("weather", {"city": HARD}, None),
        ("clock", {}, None),
        ("weather", {"n": 1}, None),
    ]
    assert found.usage == Usage(12, 34)
    assert found.finish == "calls"


@every_dialect
@examples(60)
@given(data=st.data())
def test_any_split_of_the_bytes_gives_the_same_events(dialect: str, data: st.DataObject) -> None:
    whole = b"".join(FORMATS[dialect].stream(FULL, 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert decoded(dialect, pieces) == decoded(dialect, [whole])


@every_dialect
def test_one_byte_at_a_time_gives_the_same_events(dialect: str) -> None:
    whole = b"".join(FORMATS[dialect].stream(FULL, 1))
    assert decoded(dialect, [bytes([one]) for one in whole]) == decoded(dialect, [whole])


@every_dialect
@streamed_or_not
async def test_a_reply_of_text_completes(dialect: str, stream: bool) -> None:
    async with model_server(say("fine")) as server, provider_of(dialect, server) as provider:
        found = await ask(provider, question(stream=stream))
    assert (found.text, found.calls, found.finish) == ("fine", [], "complete")


@every_dialect
@streamed_or_not
async def test_a_reply_at_its_limit_of_length_is_cut(dialect: str, stream: bool) -> None:
    reason = {"ollama": "length", "openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}[
        dialect
    ]
    reply = Reply(("half a sen",), reason=reason)
    async with model_server(reply) as server, provider_of(dialect, server) as provider:
        found = await ask(provider, question(stream=stream))
    assert (found.text, found.finish) == ("half a sen", "cut")


@pytest.mark.parametrize(
    ("dialect", "reason"), [("openai", "content_filter"), ("anthropic", "refusal"), ("gemini", "SAFETY")]
)
async def test_a_filtered_reply_is_refused(dialect: str, reason: str) -> None:
    async with (
        model_server(Reply(("no",), reason=reason)) as server,
        provider_of(dialect, server) as provider,
    ):
        assert (await ask(provider)).finish == "refused"


@pytest.mark.parametrize("dialect", ["ollama", "openai", "anthropic"])
@pytest.mark.parametrize(
    ("arguments", "read", "problem"),
    [
        ('{"city": "Ulm"}', {"city": "Ulm"}, None),
        ("", {}, None),
        ('{"city": ', None, "Error: arguments are not valid JSON at character 10"),
        ('["Ulm"]', None, "Error: arguments must be an object"),
    ],
)
async def test_arguments_as_text_are_read_or_the_model_is_told(
    dialect: str, arguments: str, read: object, problem: str | None
) -> None:
    async with model_server(call("weather", arguments)) as server, provider_of(dialect, server) as provider:
        [found] = (await ask(provider)).calls
    assert (found.name, found.arguments, found.problem) == ("weather", read, problem)


@every_dialect
async def test_missing_and_doubled_ids_become_unique_in_the_conversation(dialect: str) -> None:
    history = (
        UserMessage("go"),
        AssistantMessage("", (Call("call00001", "clock", {}),)),
        ToolMessage(Result("call00001", "clock", "12:00")),
    )
    reply = Reply(
        calls=tuple(
            ReplyCall("weather", {"n": n}, name) for n, name in enumerate(("same", "same", "", "call00001"))
        )
    )
    async with model_server(reply) as server, provider_of(dialect, server) as provider:
        calls = (await ask(provider, question(*history))).calls
    assert [one.arguments for one in calls] == [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}]
    ids = [one.id for one in calls]
    assert len({*ids, "call00001"}) == 5
    assert ids[0] == "same"


@every_dialect
async def test_arguments_of_a_mebibyte_arrive_byte_by_byte(dialect: str) -> None:
    text = (HARD * (1024 * 1024 // len(HARD.encode()) + 1))[: 1024 * 1024]
    async with (
        model_server(call("weather", {"city": text}), piece=60_000) as server,
        provider_of(dialect, server) as provider,
    ):
        [found] = (await ask(provider)).calls
    assert found.arguments == {"city": text}


@every_dialect
async def test_a_schema_without_members_and_description_is_completed(dialect: str) -> None:
    async with model_server(say("ok")) as server, provider_of(dialect, server) as provider:
        await ask(provider, question(tools=(Tool("clock", "", {}),)))
    [tool] = server.requests[0].body["tools"]
    form = {
        "ollama": lambda: (tool["function"]["description"], tool["function"]["parameters"]),
        "openai": lambda: (tool["function"]["description"], tool["function"]["parameters"]),
        "anthropic": lambda: (tool["description"], tool["input_schema"]),
        "gemini": lambda: (
            tool["functionDeclarations"][0]["description"],
            tool["functionDeclarations"][0].get("parameters"),
        ),
    }[dialect]()
    empty = None if dialect == "gemini" else {"type": "object", "properties": {}, "required": []}
    assert form == ("No description provided", empty)


@pytest.mark.parametrize("dialect", ["ollama", "openai", "anthropic"])
async def test_a_schema_reaches_the_model_unchanged(dialect: str) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "where": {
                "type": "object",
                "additionalProperties": {"type": "string", "description": 'a "}" in text \\'},
            },
            "kind": {"const": 3},
        },
        "additionalProperties": False,
    }
    async with model_server(say("ok")) as server, provider_of(dialect, server) as provider:
        await ask(provider, question(tools=(Tool("find", "Finds.", schema),)))
    [tool] = server.requests[0].body["tools"]
    sent = tool["input_schema"] if dialect == "anthropic" else tool["function"]["parameters"]
    assert json.dumps(sent) == json.dumps(schema)


@every_dialect
async def test_without_tools_none_are_mentioned(dialect: str) -> None:
    async with model_server(say("ok")) as server, provider_of(dialect, server) as provider:
        await ask(provider, question(tools=()))
    assert "tools" not in server.requests[0].body


@every_dialect
async def test_what_a_person_pasted_in_half_a_character_does_not_stop_the_request(dialect: str) -> None:
    async with model_server(say("ok")) as server, provider_of(dialect, server) as provider:
        await ask(provider, question(SystemMessage("s"), UserMessage("broken \udce4 text")))
    assert "broken ? text" in json.dumps(server.requests[0].body)


@every_dialect
async def test_closing_the_reply_ends_the_request_at_the_server(dialect: str) -> None:
    from support.servers.models.model_server import Broken

    reply = Reply(tuple("piece " for _ in range(50)))
    async with model_server(Broken(reply, 900, "silent")) as server, provider_of(dialect, server) as provider:
        events = provider.reply(question())
        await anext(events)
        await events.aclose()
        await server.left.wait()
