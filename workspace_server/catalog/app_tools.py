"""Finds the tools of apps among the tools of a view (MCP Apps, SEP-1865). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lm_tools_bridge.protocol import apps_extension as apps
from workspace_server.catalog.registry import OfferedTool

APPS_ONLY = "only apps of its server call it"
"""Why a tool is hidden from models, and from clients that show no apps."""


class AppTools:
    """The tools of one view that belong to apps.

    Attributes:
        app_only: offered names of the tools that models must not see.
    """

    def __init__(self, tools: Iterable[OfferedTool]) -> None:
        self._tools = {
            offered.name: (offered, ui)
            for offered in tools
            if "_meta" in offered.definition and (ui := apps.tool_ui(offered.definition)) is not None
        }
        self.app_only = frozenset(name for name, (_, ui) in self._tools.items() if ui.is_app_only)

    def __bool__(self) -> bool:
        return bool(self._tools)


def app_tools(tools: Iterable[OfferedTool]) -> AppTools | None:
    """The tools of apps among these; None if there are none, so that nothing has to be asked of them."""
    return AppTools(tools) or None
