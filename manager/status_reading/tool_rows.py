"""Says in words how a tool of a project is listed, and who chose that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

VISIBILITIES: Final = ("native", "ondemand", "always", "default")
"""What can be chosen for a tool or a source; `default` takes the choice back."""
_YOURS: Final = {"yours": "yours", "yours_for_source": "yours, for its source"}


def listing(row: Mapping[str, Any]) -> str:
    """How clients get a tool that can be called, such as `listed` or `on demand (yours)`.

    Args:
        row: the tool, as its server describes it.
    """
    words = "on demand"
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
