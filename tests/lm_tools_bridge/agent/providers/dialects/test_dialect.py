"""Tests the list of a provider's models, in each dialect."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings, ProviderEntry
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.providers.dialects.dialect import model_names
from lm_tools_bridge.agent.providers.factory import make_plain_provider
from support.clients.model_replies import all_keys
from support.servers.models.model_server import model_server


@pytest.mark.parametrize(
    ("kind", "document", "names"),
    [
        ("ollama", {"models": [{"name": "qwen3:8b"}, {"name": "a"}]}, ("qwen3:8b", "a")),
        ("openai", {"data": [{"id": "gpt"}, {"id": "gpt"}, {"id": 3}, 5, {"id": "\x1b[2J"}]}, ("gpt",)),
        ("anthropic", {"data": [{"id": "claude"}]}, ("claude",)),
        (
            "gemini",
            {
                "models": [
                    {"name": "models/flash", "supportedGenerationMethods": ["generateContent"]},
                    {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
                ]
            },
            ("flash",),
        ),
        ("openai", ["nothing"], ()),
        ("ollama", {"models": "none"}, ()),
    ],
)
def test_names_are_read_in_every_dialect(kind: str, document: Any, names: tuple[str, ...]) -> None:
    assert model_names(kind, document) == names


async def listed(kind: str, base: str) -> tuple[str, ...]:
    settings = AgentSettings(providers={kind: ProviderEntry(api_base=base)})
    async with aiohttp.ClientSession() as session:
        return await make_plain_provider(kind, settings, session, all_keys(), environ={}).models()


@pytest.mark.parametrize("kind", ["ollama", "openai"])
async def test_a_server_is_asked_for_its_models(kind: str) -> None:
    async with model_server() as server:
        server.listed = ["one", "two"]
        assert await listed(kind, server.base(kind)) == ("one", "two")
        server.listed = None
        assert await listed(kind, server.base(kind)) == ()


async def test_no_server_is_told_with_how_to_get_one() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        base = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ProviderFailure, match=r"ollama serve .*ollama\.com/download.*--provider"):
            await listed("ollama", base)
