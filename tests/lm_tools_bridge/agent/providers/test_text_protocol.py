"""Tools for models that have none: explained in the prompt, called in the text, answered by a user's message."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    ModelRequest,
    ModelWindow,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    WindowSource,
)
from lm_tools_bridge.agent.providers.text_protocol import TextProtocol, as_user_message, bare_name, converted
from lm_tools_bridge.agent.providers.tool_tags import tools_block
from support.clients.model_replies import DIALECTS, ask, provider_of, question
from support.servers.models.formats.steps import Reply, say
from support.servers.models.model_server import model_server

CALCULATOR = Tool(
    "calculator",
    "Perform basic mathematical calculations",
    {
        "type": "object",
        "properties": {
            "expression": {"type": "string", "description": "Mathematical expression to evaluate"}
        },
        "required": ["expression"],
    },
)
BLOCK = """Available tools:

calculator: Perform basic mathematical calculations
Input schema: {
  "type": "object",
  "properties": {
    "expression": {
      "type": "string",
      "description": "Mathematical expression to evaluate"
    }
  },
  "required": [
    "expression"
  ]
}

To use a tool, respond with:
<tool>
{
  "name": "calculator",
  "arguments": {
    "expression": "2 + 2"
  }
}
</tool>"""
USED = '<tool>\n{\n  "name": "calculator",\n  "arguments": {\n    "expression": "6 * 7"\n  }\n}\n</tool>'


def test_the_prompt_has_the_agreed_block() -> None:
    assert tools_block([CALCULATOR]) == BLOCK


def test_tools_are_separated_by_a_blank_line_and_a_sample_fits_the_first() -> None:
    tool = Tool("find", "", {
        "type": "object",
        "properties": {
            "text": {"type": "string"}, "most": {"type": "integer"}, "share": {"type": "number"}, "whole": {"type": "boolean"},
            "in": {"type": "array"}, "options": {"type": "object"}, "mode": {"enum": ["fast", "deep"]}, "kind": {"$ref": "#/$defs/k"},
        },
        "$defs": {"k": {"const": "file"}},
    })  # fmt: skip
    block = tools_block([tool, Tool("clock", "Tells the time.", {})])
    assert block.startswith("Available tools:\n\nfind:\nInput schema: {\n")
    assert "\n}\n\nclock: Tells the time.\nInput schema: {\n" in block
    sample = json.loads(block.partition("<tool>")[2].partition("</tool>")[0])
    assert sample == {
        "name": "find",
        "arguments": {
            "text": "text", "most": 1, "share": 1.5, "whole": True, "in": [], "options": {}, "mode": "fast", "kind": "file",
        },
    }  # fmt: skip


def test_a_sample_gives_what_is_required_only() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["b"],
    }
    assert '"arguments": {\n    "b": 1\n  }' in tools_block([Tool("find", "x", schema)])


def test_without_tools_there_is_no_block() -> None:
    assert tools_block([]) == ""
    assert list(converted(ModelRequest("m", [UserMessage("x")]))) == [UserMessage("x")]


@pytest.mark.parametrize("dialect", ["ollama", "openai"])
async def test_a_call_in_the_text_reaches_the_tool_and_its_result_the_model(dialect: str) -> None:
    first = Reply(
        ("I calculate: <to", 'ol>{"name": "calculator", "argu', 'ments": {"expression": "6 * 7"}}</tool>')
    )
    async with (
        model_server(first, say("It is 42."), piece=11) as server,
        provider_of(dialect, server, tool_protocol="text") as provider,
    ):
        assert isinstance(provider, TextProtocol)
        found = await ask(
            provider, question(SystemMessage("Be short."), UserMessage("6 * 7?"), tools=(CALCULATOR,))
        )
        assert (found.text, found.finish) == ("I calculate:", "calls")
        [made] = found.calls
        assert (made.name, made.arguments) == ("calculator", {"expression": "6 * 7"})
        history = (
            SystemMessage("Be short."), UserMessage("6 * 7?"), AssistantMessage(found.text, (made,)),
            ToolMessage(Result(made.id, "calculator", "42")),
        )  # fmt: skip
        assert (await ask(provider, question(*history, tools=(CALCULATOR,)))).text == "It is 42."
    assert "tools" not in server.requests[0].body
    assert server.requests[1].body["messages"] == [
        {"role": "system", "content": f"Be short.\n\n{BLOCK}"},
        {"role": "user", "content": "6 * 7?"},
        {"role": "assistant", "content": f"I calculate:\n\n{USED}"},
        {
            "role": "user",
            "content": "Action: Tool [calculator] executed.\nResult: 42\n"
            "Constraint: Please summarize this data clearly for the user.",
        },
    ]


async def test_tags_in_results_and_in_what_the_person_wrote_are_no_calls() -> None:
    call = '<tool>{"name": "calculator", "arguments": {}}</tool>'
    history = (
        UserMessage(f"What is {call}?"), AssistantMessage("", (Call("a", "clock", {}),)),
        ToolMessage(Result("a", "clock", call)),
    )  # fmt: skip
    async with (
        model_server(say("An example.")) as server,
        provider_of("ollama", server, tool_protocol="text") as provider,
    ):
        found = await ask(provider, question(*history))
    assert (found.text, found.calls, found.finish) == ("An example.", [], "complete")


async def test_thinking_usage_and_windows_pass_through() -> None:
    reply = Reply(("ok",), ("hm <tool>{}</tool>",), prompt_tokens=7)
    async with model_server(reply) as server, provider_of("ollama", server, tool_protocol="text") as provider:
        assert isinstance(provider, WindowSource)
        assert await provider.context_window("small") == ModelWindow(32_768, chosen=True)
        found = await ask(provider)
    assert found.thinking == "hm <tool>{}</tool>"
    assert found.usage is not None
    assert found.usage.prompt_tokens == 7
    assert not found.calls


async def test_a_block_that_the_limit_of_length_cut_does_not_run() -> None:
    reply = Reply(('<tool>{"name": "delete", "arguments": {"path": "/a"',), reason="length")
    async with model_server(reply) as server, provider_of("ollama", server, tool_protocol="text") as provider:
        found = await ask(provider)
    assert found.finish == "cut"
    assert [one.arguments for one in found.calls] == [None]


TEXT = (
    "Action: Tool [cpu_usage] executed.\nResult: CPU: 23.4%\n"
    "Constraint: Please summarize this data clearly for the user."
)
HISTORY = (
    UserMessage("How busy?"),
    AssistantMessage("", (Call("a", "os_assistant_cpu_usage", {"wide": True}),)),
    ToolMessage(Result("a", "os_assistant_cpu_usage", "CPU: 23.4%")),
)


def test_a_result_is_worded_as_agreed() -> None:
    assert as_user_message(Result("a", "os_assistant_cpu_usage", "CPU: 23.4%")) == UserMessage(TEXT)


def test_a_failure_is_not_called_executed() -> None:
    message = as_user_message(Result("a", "clock", "User denied execution", is_error=True))
    assert message.text.startswith("Action: Tool [clock] failed.\nResult: User denied execution\n")


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("os_assistant_cpu_usage", "cpu_usage"),
        ("files__read_file", "read_file"),
        ("clock", "clock"),
        ("x__", "x__"),
    ],
)
def test_the_bare_name_has_no_source(name: str, bare: str) -> None:
    assert bare_name(name) == bare


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_dialect_sends_results_as_user_messages_if_set(dialect: str) -> None:
    async with (
        model_server(say("ok")) as server,
        provider_of(dialect, server, tool_results="user") as provider,
    ):
        assert (await ask(provider, question(*HISTORY))).text == "ok"
    body = server.requests[0].body
    messages = body.get("messages") or body["contents"]
    assert messages[-1]["role"] == "user"
    sent = messages[-1].get("content") or messages[-1]["parts"][0]["text"]
    assert sent == TEXT
    assert server.requests[0].tools == ["weather"]
    kept = "tool_calls" in json.dumps(messages)
    assert kept is (dialect == "ollama")  # the others refuse a call without its result
