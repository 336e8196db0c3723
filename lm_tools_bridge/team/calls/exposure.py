"""Decides what of a workspace an offer exposes: its methods, and how members' requests are made anew. Pure.

Only known parameters of a request are taken, and `clientInfo` names the caller. It has no capabilities: a
question of the server, such as whether a call is approved, must not be answered by the caller itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import members_of
from lm_tools_bridge.protocol.names import LATEST_MODERN
from lm_tools_bridge.team.registry.entry import Kind, Policy

METHODS: Final = frozenset({names.DISCOVER, names.TOOLS_LIST, names.TOOLS_CALL})
"""The methods that members may use. What resources, prompts and completions name is not compared with lists:
by them a member would reach through this host what others offer to its user alone."""
_PARAMETERS: Final = frozenset({"name", "arguments", "cursor"})
_OF_META: Final = frozenset({"progressToken", "traceparent", "tracestate"})


@dataclass(frozen=True, slots=True)
class Scope:
    """What an offer exposes of a workspace.

    Attributes:
        kind: the whole workspace, or one server.
        policy: `read-only` exposes tools that say so; `all` everything that the workspace's list has.
        prefix: of the names of the server's tools; "" for a workspace.
        include: patterns (`fnmatch`, case-sensitive) of the names that members use; empty for all.
        exclude: patterns of those that are left out.
    """

    kind: Kind
    policy: Policy
    prefix: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def names(self, tool: str) -> bool:
        """Whether its patterns let a tool through.

        Args:
            tool: its name as members use it.
        """
        if any(fnmatchcase(tool, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(fnmatchcase(tool, pattern) for pattern in self.include)


def parameter(request: jsonrpc.Request, name: str) -> str:
    """A parameter that is a text; "" if there is none."""
    return jsonrpc.text_of(members_of(request.params).get(name, b"")) or ""


def own_request(request: jsonrpc.Request, scope: Scope, caller: str, version: str) -> bytes:
    """The request as this manager sends it to its own workspace, on behalf of a caller."""
    members = members_of(request.params)
    params: dict[str, Any] = {key: value for key, value in members.items() if key in _PARAMETERS}
    if request.method == names.TOOLS_CALL:
        params["name"] = scope.prefix + parameter(request, "name")
    meta = members_of(members.get("_meta", msgspec.Raw(b"{}")))
    params["_meta"] = {
        **{key: value for key, value in meta.items() if key in _OF_META},
        names.META_VERSION: LATEST_MODERN,
        names.META_CAPABILITIES: {},
        names.META_CLIENT: {"name": f"team:{caller}", "version": version},
    }
    return jsonrpc.request(request.id, request.method, params)
