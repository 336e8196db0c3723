"""Says in words how a tool of a project is listed, who chose that, and what the tools cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lm_tools_bridge.text.text_tokens import text_tokens
from manager.routing.client_needs import ENTRY_NAME
from manager.routing.client_profiles import ClientProfile

_BEGINNING: Final = 160
"""Characters of a description in Qwen Code's first request."""
_SERVER_LINE: Final = 65
"""Tokens of the 250 characters in which Codex describes a server."""
VISIBILITIES: Final = ("native", "ondemand", "always", "default")
"""What can be chosen for a tool or a source; `default` takes the choice back."""
EFFECTS: Final[Mapping[str, str]] = {
    "enable": "is enabled",
    "disable": "is disabled: clients can no longer see, find or call it",
    "expose": "is exposed: it can be enabled",
    "unexpose": "is no longer exposed: clients cannot see, find or call it, and nobody can enable it",
    "allow": "runs without asking",
    "ask": "asks a person before every call",
    "deny": "never runs",
}
"""What a change of a tool does, as the end of a sentence."""
LISTED: Final[Mapping[str, str]] = {
    "native": "is listed as usual",
    "ondemand": "is not listed, but found with tool_search",
    "always": "is always listed, also in discovery mode",
    "default": "is listed as its source says",
}
"""What the choice of a visibility does, likewise."""
_YOURS: Final = {"yours": "yours", "yours_for_source": "yours, for its source"}


def listing(row: Mapping[str, Any]) -> str:
    """How clients get a tool that can be called, such as `listed`, `unlisted` or `on demand (yours)`.

    Args:
        row: the tool, as its server describes it.
    """
    words = "unlisted" if row.get("unlisted") else "on demand"
    if row.get("listed"):
        words = "always listed" if row.get("visibility") == "always" else "listed"
    origin = _YOURS.get(str(row.get("visibilityOrigin")))
    return words if origin is None else f"{words} ({origin})"


def origin(row: Mapping[str, Any]) -> str:
    """Who says which visibility a tool has, as the end of a sentence."""
    source, visibility = row.get("source"), row.get("visibility")
    match row.get("visibilityOrigin"):
        case "yours":
            return f"you chose {visibility} for it"
        case "yours_for_source":
            return f"you chose {visibility} for all tools of {source}"
        case _:
            return f"{source} says {visibility}"


def context_cost(rows: Iterable[Mapping[str, Any]]) -> int:
    """The tokens that listed tools, meta-tools and instructions take in a model's context, about."""
    counts = (row.get("tokens") for row in rows)
    return sum(count for count in counts if isinstance(count, int))


def first_request_cost(
    profile: ClientProfile, tools: Iterable[Mapping[str, Any]], instructions: Mapping[str, Any]
) -> int:
    """The tokens of ours in the first request of a client that defers tools, about.

    Args:
        profile: the client.
        tools: the listed tools and meta-tools.
        instructions: what their server says of them, with their `tokens`.
    """
    if profile.deferred_as == "nothing":
        return min(context_cost([instructions]), _SERVER_LINE)
    prefix = profile.name_prefix.format(ENTRY_NAME)
    cut = _BEGINNING if profile.deferred_as == "beginnings" else 0
    lines = (f"{prefix}{row.get('name')}\n{str(row.get('description') or '')[:cut]}" for row in tools)
    return round(context_cost([instructions]) + sum(map(text_tokens, lines)))
