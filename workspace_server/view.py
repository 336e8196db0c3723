"""Which tools one request sees in its list: the mode it asks for, what the mode shows (T-32 to T-35). Pure.

It decides about lists only; a tool that is not listed can still be called by its name. Discovery mode
is not offered: its list would consist of a search tool that does not exist here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from workspace_server.registry import Offered
from workspace_server.source import Visibility

SHOW_ALL_HEADER: Final = "X-MCP-Show-All"
SHOW_ALL_QUERY: Final = "show_all"


class Mode(Enum):
    """What a request wants listed."""

    NORMAL = "normal"
    SHOW_ALL = "show-all"


_SHOWN: Final[Mapping[Mode, frozenset[Visibility]]] = {
    Mode.NORMAL: frozenset({"native", "always"}),
    Mode.SHOW_ALL: frozenset({"native", "always", "ondemand"}),
}


def mode_of(header: Mapping[str, str], query: Mapping[str, str]) -> Mode:
    """The mode of one request: a header that is present hides its query member (T-33, T-34).

    Args:
        header: the request's headers, case-insensitive.
        query: the decoded query members.
    """
    show_all = header[SHOW_ALL_HEADER] if SHOW_ALL_HEADER in header else query.get(SHOW_ALL_QUERY, "")
    return Mode.SHOW_ALL if show_all.strip().lower() == "true" else Mode.NORMAL


def listed(tools: Sequence[Offered], mode: Mode) -> list[Offered]:
    """The tools that `tools/list` shows in this mode, in their order."""
    shown = _SHOWN[mode]
    return [offered for offered in tools if offered.tool.visibility in shown]
