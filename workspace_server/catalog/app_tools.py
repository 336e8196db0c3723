"""Finds the tools of apps among the tools of a view (MCP Apps, SEP-1865). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lm_tools_bridge.protocol import apps_extension as apps
from workspace_server.catalog.registry import OfferedTool

APPS_ONLY = "only apps of its server call it"
"""Why a tool is hidden from models, and from clients that show no apps."""


class AppTools:
    """The tools of one view that belong to apps.

    Attributes:
        app_only: offered names of the tools that models must not see.
        pages: the addresses of their pages, as clients know them.
    """

    def __init__(self, tools: Iterable[OfferedTool]) -> None:
        self._tools = {
            offered.name: (offered, ui)
            for offered in tools
            if "_meta" in offered.definition and (ui := apps.tool_ui(offered.definition)) is not None
        }
        self.app_only = frozenset(name for name, (_, ui) in self._tools.items() if ui.is_app_only)
        self.pages = frozenset(ui.page for _, ui in self._tools.values() if ui.page is not None)
        self._by_own_name: dict[str, list[OfferedTool]] = {}
        self._by_identity: dict[str, list[OfferedTool]] = {}
        for offered, ui in self._tools.values():
            if ui.for_app:
                self._by_own_name.setdefault(offered.tool.name, []).append(offered)
                if (identity := apps.identity(offered.definition)) is not None:
                    self._by_identity.setdefault(identity, []).append(offered)

    def __bool__(self) -> bool:
        return bool(self._tools)

    def has_page(self, name: str) -> bool:
        """Whether a page shows the results of the tool with this offered name."""
        return name in self._tools and self._tools[name][1].page is not None

    def meant(self, name: str) -> Sequence[OfferedTool]:
        """The tools that an app can mean by a name that is no offered one.

        Apps call tools by the names that their servers gave them; those of FastMCP by the tool's identity.
        Tools that do not belong to an app are never meant: a name that a model misspelt must run nothing.
        """
        if (identity := apps.named_identity(name)) is not None and identity in self._by_identity:
            return self._by_identity[identity]
        return self._by_own_name.get(name, ())


def app_tools(tools: Iterable[OfferedTool]) -> AppTools | None:
    """The tools of apps among these; None if there are none, so that nothing has to be asked of them."""
    return AppTools(tools) or None
