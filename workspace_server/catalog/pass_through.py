"""Whether a workspace offers one server of somebody else, as it is, and nothing beside it. Pure.

At the pure addresses of such a workspace clients meet that server itself: `methods/pass_through.py`.
"""

from __future__ import annotations

from typing import Final

from workspace_server import naming
from workspace_server.catalog.view import View
from workspace_server.source import Source

_OURS: Final = frozenset({"builtin", "script"})
"""Kinds of sources that are there whether they offer anything or not."""


def pass_through_server(view: View) -> Source | None:
    """The only server of a view, if its tools keep their names and nobody changed what it offers.

    Servers that are switched off do not count, and neither do built-ins and folders of scripts that offer
    nothing. None where there is no such server, or the user has not trusted it yet.
    """
    servers = [one for one in view.snapshot.sources if one.kind not in _OURS and one.state != "disabled"]
    if len(servers) != 1 or not naming.is_bare(servers[0]) or servers[0].state == "pending_trust":
        return None
    (source,) = servers
    alone = not view.snapshot.withheld and all(offered.source is source for offered in view.tools)
    return source if alone and _is_as_it_came(view, source) else None


def _is_as_it_came(view: View, source: Source) -> bool:
    """Whether neither the entry nor the policy hides a tool, gives it a default, or asks before it runs."""
    if view.configuration.makes_tasks:
        return False  # those tasks are ours, and so are requests about them
    if source.include or source.exclude or source.default != "enabled":
        return False
    if any(issue.code == "TOOL_NAME_RESERVED" for issue in view.issues):
        return False
    if any(offered.defaults or offered.tool.visibility != "native" for offered in view.tools):
        return False
    decided = {name for name, decision in view.configuration.approvals.items() if decision != "allow"}
    own = [offered.name for offered in view.snapshot.tools if offered.source is source]
    if not own:  # what is said of tools that are not known yet may be said of its own
        deltas = view.configuration.deltas
        return not (decided or deltas.disabled or deltas.unexposed)
    return not any(name in decided or name in view.hidden for name in own)
