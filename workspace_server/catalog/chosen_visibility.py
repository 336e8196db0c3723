"""Applies the visibilities that the user chose for tools and sources of a workspace. Pure.

`config/` reads the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from workspace_server.catalog.registry import OfferedTool
from workspace_server.config.model import VisibilityChoices
from workspace_server.tool import Visibility

Origin = Literal["source", "yours", "yours_for_source"]
"""Who says which visibility a tool has: its source, or the user for it or for all tools of its source."""


def apply(tools: Sequence[OfferedTool], choices: VisibilityChoices) -> Sequence[OfferedTool]:
    """The tools with the chosen visibilities; the same objects where nothing is chosen."""
    if not (choices.tools or choices.sources):
        return tools
    return [_applied(offered, choices.choice(offered.name, offered.source.id)) for offered in tools]


def _applied(offered: OfferedTool, chosen: Visibility | None) -> OfferedTool:
    if chosen is None or (chosen == offered.tool.visibility and not offered.tool.unlisted):
        return offered
    return replace(offered, tool=replace(offered.tool, visibility=chosen, unlisted=""))


def origin(offered: OfferedTool, choices: VisibilityChoices) -> Origin:
    """Who says which visibility a tool has."""
    if offered.name in choices.tools:
        return "yours"
    return "yours_for_source" if offered.source.id in choices.sources else "source"
