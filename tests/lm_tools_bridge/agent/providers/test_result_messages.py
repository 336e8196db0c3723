"""Results as messages of the user, for models that do not take their provider's own form."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.agent.messages import AssistantMessage, Call, Result, ToolMessage, UserMessage
from lm_tools_bridge.agent.providers.result_messages import as_user_message, bare_name
from support.clients.model_replies import DIALECTS, ask, provider_of, question
from support.servers.models.formats.steps import say
from support.servers.models.model_server import model_server

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
