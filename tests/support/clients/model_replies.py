"""Asks providers of the agent for replies, and sums up what came."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from lm_tools_bridge.agent.agent_settings import AgentSettings, ProviderEntry
from lm_tools_bridge.agent.key_sources import EnvironmentKeys
from lm_tools_bridge.agent.messages import (
    Call,
    CallPart,
    Finish,
    Message,
    ModelEvent,
    ModelRequest,
    Provider,
    SystemMessage,
    TextPart,
    ThinkingPart,
    Tool,
    Usage,
    UserMessage,
)
from lm_tools_bridge.agent.provider_keys import KeyLookup
from lm_tools_bridge.agent.providers.factory import make_provider
from lm_tools_bridge.agent.providers.http_provider import Retries
from support.servers.models.model_server import ModelServer

KEY = "sk-canary-5e1d5e1d5e1d5e1d5e1d"
DIALECTS = ("ollama", "openai", "anthropic", "gemini")
QUESTION = (SystemMessage("Be short."), UserMessage("What is up?"))
WEATHER = Tool(
    "weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}
)


@dataclass
class Summary:
    """One reply."""

    text: str = ""
    thinking: str = ""
    calls: list[Call] = field(default_factory=list)
    usage: Usage | None = None
    finish: str = ""

    def add(self, event: ModelEvent) -> None:
        assert not self.finish, f"{event} came after the end"
        match event:
            case TextPart():
                self.text += event.text
            case ThinkingPart():
                self.thinking += event.text
            case CallPart():
                self.calls.append(event.call)
            case Usage():
                self.usage = event
            case Finish():
                self.finish = event.reason


def summary_of(events: Iterable[ModelEvent]) -> Summary:
    """What these events amount to."""
    summary = Summary()
    for event in events:
        summary.add(event)
    return summary


def question(*messages: Message, **members: Any) -> ModelRequest:
    """A request, by default with a short question, one tool and streaming."""
    return ModelRequest(
        **{"model": "small", "messages": messages or QUESTION, "tools": (WEATHER,), **members}
    )


async def ask(provider: Provider, request: ModelRequest | None = None) -> Summary:
    """The whole reply."""
    summary = Summary()
    async for event in provider.reply(request or question()):
        summary.add(event)
    return summary


def keys(**variables: str) -> KeyLookup:
    """Keys in these variables only."""
    return KeyLookup([EnvironmentKeys(variables)])


def all_keys(value: str = KEY) -> KeyLookup:
    """The same key for each provider."""
    names = ("OLLAMA", "OPENAI", "ANTHROPIC", "GEMINI", "AZURE", "MISTRAL", "OPENROUTER")
    return keys(**{f"{name}_API_KEY": value for name in names})


@contextlib.asynccontextmanager
async def provider_of(
    name: str,
    server: ModelServer | str,
    lookup: KeyLookup | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    pauses: list[float] | None = None,
    on_wait: Callable[[str], None] = lambda _: None,
    **settings: Any,
) -> AsyncIterator[Provider]:
    """A provider at a scripted server, or at an address.

    Args:
        name: the provider's.
        server: where it is.
        lookup: its keys.
        environ: variables that may hold its address.
        pauses: gets the pauses between attempts, which take no time then and do not vary.
        on_wait: is told why there is a pause.
        settings: others than the defaults.
    """
    dialect = name if name in DIALECTS else "openai"
    base = server if isinstance(server, str) else server.base(dialect)
    entry = ProviderEntry(api_base=base) if base else ProviderEntry()
    values = msgspec.structs.replace(AgentSettings(providers={name: entry}), **settings)
    retries = Retries(on_wait)
    if pauses is not None:
        retries = Retries(on_wait, sleep=_noting(pauses), chance=lambda: 0.5)
    async with aiohttp.ClientSession() as session:
        yield make_provider(
            name, values, session, lookup or all_keys(), environ=environ or {}, retries=retries
        )


def _noting(pauses: list[float]) -> Callable[[float], Awaitable[None]]:
    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    return sleep
