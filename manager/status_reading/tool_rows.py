"""Says in words how a tool of a project is listed, and who chose that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

VISIBILITIES: Final = ("native", "ondemand", "always", "default")
"""What can be chosen for a tool or a source; `default` takes the choice back."""
EFFECTS: Final[Mapping[str, str]] = {
    "enable": "is enabled",
    "disable": "is disabled: clients can no longer see, find or call it",
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
    chosen = _YOURS.get(str(row.get("visibilityOrigin")))
    return words if chosen is None else f"{words} ({chosen})"


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


def context_cost(listed: Iterable[Mapping[str, Any]], meta: Iterable[Mapping[str, Any]]) -> int:
    """The tokens that the listed tools and meta-tools take in a model's context, about."""
    found = (row.get("tokens") for row in (*listed, *meta))
    return sum(one for one in found if isinstance(one, int))
