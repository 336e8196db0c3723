"""A real model calls a tool and uses its result. Opt-in: `OLLAMA_HOST` or `OPENAI_BASE_URL` names the server."""

from __future__ import annotations

import os
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.key_sources import EnvironmentKeys
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Provider,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.agent.provider_keys import KeyLookup
from lm_tools_bridge.agent.providers.addresses import address
from lm_tools_bridge.agent.providers.factory import make_provider
from support.clients.model_replies import ask, question

SERVERS = {
    "ollama": ("OLLAMA_HOST", "OLLAMA_MODEL", "/api/tags"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_MODEL", "/models"),
}
TOOL = Tool(
    "temperature",
    "Tells the temperature in a city in degrees Celsius.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
HISTORY = (
    SystemMessage("Use the tool to find out temperatures. Answer with the number only."),
    UserMessage("How warm is it in Ulm?"),
)


def opted_in(name: str) -> str:
    variable = SERVERS[name][0]
    if not os.environ.get(variable):
        pytest.skip(f"set {variable} to the address of a real model server to run this")
    base = address(name, name, None, os.environ)
    assert base is not None
    return base


async def model_of(name: str, session: aiohttp.ClientSession, base: str) -> str:
    """The model of the variable, or the first that the server has."""
    _, variable, path = SERVERS[name]
    if model := os.environ.get(variable):
        return model
    key = os.environ.get("OPENAI_API_KEY", "none")
    async with session.get(base + path, headers={"Authorization": f"Bearer {key}"}) as response:
        listed: dict[str, Any] = await response.json()
    return str(listed["models"][0]["name"] if name == "ollama" else listed["data"][0]["id"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", SERVERS)
async def test_a_real_model_replies_and_counts_its_tokens(name: str, stream: bool) -> None:
    """For models that are too small to call tools as well."""
    base = opted_in(name)
    settings = AgentSettings(first_byte_s=300, answer_s=300)
    async with aiohttp.ClientSession() as session:
        model = await model_of(name, session, base)
        provider = make_provider(name, settings, session, KeyLookup([EnvironmentKeys(os.environ)]))
        messages = (SystemMessage("You answer in one short sentence."), UserMessage("Say hello."))
        reply = await ask(provider, question(*messages, tools=(), model=model, stream=stream))
    assert reply.text.strip()
    assert reply.finish == "complete"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens or 0) > 5


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("protocol", ["native", "text"])
@pytest.mark.parametrize("name", SERVERS)
async def test_a_real_model_calls_the_tool_and_tells_its_result(
    name: str, protocol: str, stream: bool
) -> None:
    base = opted_in(name)
    settings = AgentSettings(tool_protocol=protocol, first_byte_s=300, answer_s=300)
    async with aiohttp.ClientSession() as session:
        model = await model_of(name, session, base)
        keys = KeyLookup([EnvironmentKeys(os.environ)])
        provider: Provider = make_provider(name, settings, session, keys)
        asked: dict[str, Any] = {"tools": (TOOL,), "model": model, "stream": stream, "context_tokens": 4096}
        first = await ask(provider, question(*HISTORY, **asked))
        assert first.finish == "calls"
        call = first.calls[0]
        assert call.name == "temperature"
        assert call.arguments is not None
        assert "ulm" in str(call.arguments["city"]).lower()
        results = (ToolMessage(Result(one.id, one.name, "17")) for one in first.calls)
        history = (*HISTORY, AssistantMessage(first.text, tuple(first.calls)), *results)
        assert "17" in (await ask(provider, question(*history, **asked))).text
