"""Defines every setting of the agent: the members of the table `[agent]`, with bounds and descriptions.

A test checks the table in `docs/agent.md` against this model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from lm_tools_bridge.protocol.names import USUAL_PORT

KINDS: Final = ("ollama", "openai", "azure", "anthropic", "gemini")
"""The dialects of model servers."""
KNOWN_PROVIDERS: Final = (*KINDS, "mistral", "openrouter")
"""Providers that need no entry in `[agent.providers]`."""
MANUAL: Final = "manual"
"""Stands in the place of a provider where the person calls tools without a model."""

_ANSWER_S: Final = 300.0
"""Models of providers may think for minutes before the first word."""
_ANSWER_LOCAL_S: Final = 120.0
"""A model on this machine is loaded within a minute or two, or does not fit into memory."""


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[agent.providers.NAME]`: a model server, or changes to a known one.

    `kind` is its dialect; without it the one of its name, or `openai`. `key_name` is the name of the variable
    or secret that holds its key.
    """

    kind: Literal["ollama", "openai", "azure", "anthropic", "gemini"] | None = None
    api_base: str | None = None
    key_name: str | None = None
    disabled: bool = False


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the agent. Times are in seconds."""

    default_provider: Annotated[
        str, Meta(min_length=1, description="Provider at the start; `manual` means none.")
    ] = "ollama"
    model: Annotated[
        Mapping[str, str], Meta(description='Model of each provider: `[agent.model]`, `ollama = "…"`.')
    ] = {}
    human_in_loop: Annotated[bool, Meta(description="Ask before a tool runs that can change something.")] = (
        True
    )
    loop_limit: Annotated[int, Meta(ge=1, le=1000, description="Most replies of the model in one turn.")] = 20
    tool_results: Annotated[
        Literal["native", "user"],
        Meta(description="How results reach the model: as the provider does it, or as a user's message."),
    ] = "native"
    tool_protocol: Annotated[
        Literal["native", "text"],
        Meta(description="How the model calls tools: as the provider does it, or by `<tool>` in its text."),
    ] = "native"
    repeatable: Annotated[
        tuple[str, ...], Meta(description="Tools that may be called twice with the same arguments in a turn.")
    ] = ()
    command_variables: Annotated[
        tuple[str, ...],
        Meta(description="Variables that shell commands get beside those that are known to be no secrets."),
    ] = ()
    sudo: Annotated[
        Literal["refuse", "askpass"],
        Meta(description="Commands with sudo: refused, or run after the password was asked for."),
    ] = "refuse"
    local_tools: Annotated[bool, Meta(description="Offer the agent's own tools, `os_assistant_…`.")] = True
    endpoint: Annotated[
        str,
        Meta(
            pattern="^https?://",
            description="Address of the manager's MCP endpoint; by default at your http_port.",
        ),
    ] = f"http://127.0.0.1:{USUAL_PORT}/mcp"
    stream: Annotated[bool, Meta(description="Show replies while they arrive.")] = True
    key_sources: Annotated[
        tuple[Literal["environment", "dotenv", "store"], ...],
        Meta(description="Where keys are looked for, in order; `dotenv` is the `.env` of a trusted project."),
    ] = ("environment", "store")
    providers: Annotated[
        Mapping[str, ProviderEntry],
        Meta(description="More model servers: `[agent.providers.NAME]`."),
    ] = {}
    connect_s: Annotated[float, Meta(gt=0, le=600, description="Longest time to connect to a model.")] = 5
    first_byte_s: Annotated[float, Meta(gt=0, le=3600, description="Longest time until a reply begins.")] = 60
    answer_s: Annotated[
        float | None,
        Meta(description="Longest time of a whole reply; automatic means 300, and 120 for Ollama."),
    ] = None
    tool_s: Annotated[float, Meta(gt=0, le=7200, description="Longest time of a tool call.")] = 120
    context_tokens: Annotated[
        int | None,
        Meta(description="Size of the model's context window, in tokens; automatic asks the provider."),
    ] = None
    debug: Annotated[
        bool, Meta(description="Log sizes, times and outcomes of requests to `logs/agent-debug.log`.")
    ] = False
    tools_share: Annotated[
        float,
        Meta(
            gt=0, le=1, description="Most of the context that tools may take before the model has to search."
        ),
    ] = 0.3

    def answer_limit(self, kind: str) -> float:
        """Seconds that a whole reply of a provider of this kind may take."""
        if self.answer_s is not None:
            return self.answer_s
        return _ANSWER_LOCAL_S if kind == "ollama" else _ANSWER_S

    def provider_names(self) -> tuple[str, ...]:
        """The providers that can be chosen, known ones first."""
        names = dict.fromkeys((*KNOWN_PROVIDERS, *self.providers))
        return tuple(
            name for name in names if name not in self.providers or not self.providers[name].disabled
        )


FIELDS: Final[Mapping[str, msgspec.structs.FieldInfo]] = {
    field.name: field for field in msgspec.structs.fields(AgentSettings)
}
"""Name -> type with bounds and description, and default."""


def description(name: str) -> str:
    """What a setting does, in one line."""
    meta: Meta = FIELDS[name].type.__metadata__[0]
    return meta.description or ""


def default(name: str) -> Any:
    """The value of a setting that is not in the file."""
    return getattr(AgentSettings(), name)
