"""Decides whether a workspace consists of one unmodified MCP server, which is then passed through. Pure.

`methods/pass_through.py` answers the requests.
"""

from __future__ import annotations

from typing import Final

from workspace_server import naming
from workspace_server.catalog.view import View
from workspace_server.source import Source

_OURS: Final = frozenset({"builtin", "script", "skill", "language-server", "editor"})
"""Kinds of sources that every workspace has, even if they offer nothing."""
_UNREADABLE: Final = ("_MEMBERS_REMOVED", "TOOL_SCHEMA_INVALID", "_NAME_INVALID", "_URI_INVALID")
"""Ends of the codes of issues about entries for which a client would refuse the server's whole list."""


def pass_through_server(view: View) -> Source | None:
    """The only server of a view, if its tools keep their own names and no setting changes what it offers.

    Disabled servers do not count, nor do built-ins and script folders without tools. None if there is no such
    server, or the user has not trusted it yet.
    """
    servers = [one for one in view.snapshot.sources if one.kind not in _OURS and one.state != "disabled"]
    if len(servers) != 1 or not naming.is_bare(servers[0]) or servers[0].state == "pending_trust":
        return None
    (source,) = servers
    alone = not view.snapshot.withheld and all(offered.source is source for offered in view.tools)
    return source if alone and _is_unmodified(view, source) else None


def _is_unmodified(view: View, source: Source) -> bool:
    """Whether clients can read its lists, and no setting hides a tool or changes how it is called."""
    if view.configuration.makes_tasks:
        return False  # tasks that this server makes need its own task methods
    if source.include or source.exclude or source.default != "enabled":
        return False
    if any(issue.code == "TOOL_NAME_RESERVED" or issue.code.endswith(_UNREADABLE) for issue in view.issues):
        return False
    if any(offered.defaults or offered.tool.visibility != "native" for offered in view.tools):
        return False
    decided = {name for name, decision in view.configuration.approvals.items() if decision != "allow"}
    own = [offered.name for offered in view.snapshot.tools if offered.source is source]
    if not own:  # the tools are not known yet, so any setting could concern one of them
        deltas, choices = view.configuration.deltas, view.configuration.visibility
        is_chosen = bool(choices.tools or choices.sources)
        return not (decided or is_chosen or deltas.disabled or deltas.unexposed or deltas.closed)
    return not any(name in decided or name in view.hidden for name in own)
