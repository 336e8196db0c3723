"""Makes the view of one MCP server under its own names: for clients at the address of that server. Pure.

Inside, its tools keep their offered names, so that the same settings, approvals and records hold for them.
"""

from __future__ import annotations

from dataclasses import replace

from lm_tools_bridge.protocol import apps_extension as apps
from workspace_server.catalog import offerings
from workspace_server.catalog.app_addresses import NO_ADDRESSES, server_name
from workspace_server.catalog.client_names import ServerNames
from workspace_server.catalog.registry import OfferedTool, Snapshot
from workspace_server.catalog.view import View, app_tools
from workspace_server.source import Source

_SERVERS = ("stdio", "remote")
"""Kinds of sources that have an address."""


def find_server(view: View, name: str) -> Source | None:
    """The server of this name; None if the workspace has none."""
    servers = (source for source in view.snapshot.sources if source.kind in _SERVERS)
    return next((source for source in servers if server_name(source.id) == name), None)


def view_of_server(view: View, name: str) -> View:
    """What a server of a view has, under its own names; nothing if there is no such server."""
    if view.server_names is not None:
        return view
    server_view = view.server_views.get(name)
    if server_view is None:
        source = find_server(view, name)
        server_view = View(server_names=ServerNames(())) if source is None else _view_of(view, source)
        if source is not None:  # anybody can ask for any name
            view.server_views[name] = server_view
    return server_view


def _view_of(view: View, source: Source) -> View:
    tools = tuple(_as_written(offered) for offered in view.tools if offered.source is source)
    snapshot = Snapshot(
        tools=tools,
        sources=(source,),
        issues=view.snapshot.issues,
        filtered={name: owner for name, owner in view.snapshot.filtered.items() if owner is source},
        by_name={offered.name: offered for offered in tools},
        awaited=view.snapshot.awaited & {source.id},
        offerings=offerings.of_server(source),
        addresses=NO_ADDRESSES,
    )
    return replace(
        view,
        snapshot=snapshot,
        tools=tools,
        by_name=snapshot.by_name,
        apps=app_tools(tools),
        server_names=ServerNames(tools),
    )


def _as_written(offered: OfferedTool) -> OfferedTool:
    """The tool with the address of its page that its server wrote."""
    ui, offered_ui = apps.tool_ui(offered.tool.definition), apps.tool_ui(offered.definition)
    if ui is None or ui.page is None or ui == offered_ui:
        return offered
    return replace(offered, definition=apps.with_page(offered.definition, ui.page))
