"""Makes the provider of a name: its dialect, address and key, and the text protocol where it is set."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.messages import Provider, ProviderFailure
from lm_tools_bridge.agent.provider_keys import hint_for, wish_for
from lm_tools_bridge.agent.providers.addresses import USUAL, VARIABLES, Deadlines, Endpoint, address, azure
from lm_tools_bridge.agent.providers.configuration import ProviderConfig, merged
from lm_tools_bridge.agent.providers.dialects.anthropic import AnthropicMessages
from lm_tools_bridge.agent.providers.dialects.dialect import Dialect
from lm_tools_bridge.agent.providers.dialects.gemini import GeminiContent
from lm_tools_bridge.agent.providers.dialects.gemini_schema import converted
from lm_tools_bridge.agent.providers.dialects.ollama import OllamaChat
from lm_tools_bridge.agent.providers.dialects.openai import AzureChat, OpenAiChat
from lm_tools_bridge.agent.providers.dialects.schema_changes import Converted, plain_root
from lm_tools_bridge.agent.providers.http_provider import HttpProvider, Retries
from lm_tools_bridge.agent.providers.text_protocol import TextProtocol, UserResults
from lm_tools_bridge.text.near_names import did_you_mean

if TYPE_CHECKING:
    import aiohttp

    from lm_tools_bridge.agent.provider_keys import KeyLookup

_RULES: Final[Mapping[str, Callable[[Mapping[str, Any]], Converted]]] = {
    "gemini": converted, "openai": plain_root, "azure": plain_root, "anthropic": plain_root,
}  # fmt: skip
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _Place(NamedTuple):
    base: str
    dialect: Dialect


def make_provider(
    name: str,
    settings: AgentSettings,
    session: aiohttp.ClientSession,
    keys: KeyLookup,
    *,
    configurations: Mapping[str, ProviderConfig] | None = None,
    environ: Mapping[str, str] = os.environ,
    retries: Retries = Retries(),  # noqa: B008  it is immutable
) -> Provider:
    """The provider with this name, in any case. Nothing is connected.

    Args:
        name: one of the configured or known providers.
        settings: deadlines, and how calls and results are written.
        session: for all its connections.
        keys: where its key is looked up.
        configurations: all providers (`configuration.configured`); by default those of the settings.
        environ: variables that may hold its address.
        retries: how requests are repeated.

    Raises:
        ProviderFailure: there is no such provider, it is disabled, or has no address.
    """
    provider = make_plain_provider(
        name, settings, session, keys, configurations=configurations, environ=environ, retries=retries
    )
    if settings.tool_protocol == "text":
        return TextProtocol(provider)
    if settings.tool_results == "user":
        return UserResults(provider, keeps_calls=provider.dialect.takes_open_calls)
    return provider


def make_plain_provider(
    name: str,
    settings: AgentSettings,
    session: aiohttp.ClientSession,
    keys: KeyLookup,
    *,
    configurations: Mapping[str, ProviderConfig] | None = None,
    environ: Mapping[str, str] = os.environ,
    retries: Retries = Retries(),  # noqa: B008  it is immutable
) -> HttpProvider:
    """The provider without what the settings put around it; as `make_provider` otherwise."""
    configs = configurations if configurations is not None else settings_only(settings)
    config = configs.get(name.lower())
    if config is None or not config.enabled:
        offered = [provider.name for provider in configs.values() if provider.enabled]
        cause = (
            "it is disabled"
            if config is not None
            else f"there is no such provider{did_you_mean(name, offered)}"
        )
        raise ProviderFailure(name, cause, f"choose one of {', '.join(offered)}")
    place = _place(config, environ)
    return HttpProvider(
        _endpoint(config, place.base),
        place.dialect,
        session,
        keys,
        Deadlines(settings.connect_s, settings.first_byte_s, settings.answer_limit(config.kind)),
        retries=retries,
    )


def schema_changes(kind: str, schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What a provider of this dialect changes of a tool's schema, one line each; empty if nothing."""
    rule = _RULES.get(kind)
    return tuple(map(str, rule(schema).changes)) if rule is not None else ()


def settings_only(settings: AgentSettings) -> dict[str, ProviderConfig]:
    """The providers without those of any `providers.json`."""
    return merged(settings, (), (), trusted=False, problems=[])


def _place(config: ProviderConfig, environ: Mapping[str, str]) -> _Place:
    try:
        base = address(config.name, config.kind, config.api_base, environ)
    except ValueError:  # such as a bracket without its pair
        step = f"correct api_base of [agent.providers.{config.name}]"
        raise ProviderFailure(config.name, "its address is no URL", step) from None
    if base is None:
        variable = VARIABLES.get(config.name)
        step = f"set api_base of [agent.providers.{config.name}]{f', or {variable}' if variable else ''}"
        raise ProviderFailure(config.name, "its address is not configured", step)
    match config.kind:
        case "ollama":
            return _Place(base, OllamaChat())
        case "anthropic":
            return _Place(base, AnthropicMessages())
        case "gemini":
            return _Place(base, GeminiContent())
        case "azure":
            azure_address = azure(base, environ)
            return _Place(azure_address.base, AzureChat(azure_address.version, azure_address.deployment))
    is_mistral = config.name == "mistral"
    return _Place(base, OpenAiChat(stream_usage=not is_mistral, short_ids=is_mistral))


def _endpoint(config: ProviderConfig, base: str) -> Endpoint:
    """Where the provider is. A key is required only where it is sure that nothing works without."""
    is_usual = base == USUAL.get(config.name) and config.kind != "ollama"
    needs_key = is_usual or config.kind == "azure"
    may_wait = needs_key or urlsplit(base).hostname not in _LOOPBACK
    wish = replace(wish_for(config.name, config.key_name), may_wait=may_wait)
    return Endpoint(config.name, config.kind, base, wish, needs_key, hint_for(wish))
