"""Decides what of a workspace an offer exposes: its methods, and how members' requests are made anew. Pure.

Only known parameters of a request are taken, and `clientInfo` names the caller. It has no capabilities: a
question of the server, such as whether a call is approved, must not be answered by the caller itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from manager.team.registry.entry import Kind, Policy
from protocol import jsonrpc, names
from protocol.jsonrpc import members_of
from protocol.versions import LATEST_MODERN

_OF_TOOLS: Final = frozenset({names.DISCOVER, names.TOOLS_LIST, names.TOOLS_CALL})
_OF_ALL: Final = _OF_TOOLS | {
    names.RESOURCES_LIST, names.TEMPLATES_LIST, names.RESOURCES_READ, names.PROMPTS_LIST, names.PROMPTS_GET,
    names.COMPLETE,
}  # fmt: skip
_PARAMETERS: Final = frozenset({"name", "arguments", "cursor", "uri", "ref", "argument", "context"})
_OF_META: Final = frozenset({"progressToken", "traceparent", "tracestate"})


@dataclass(frozen=True, slots=True)
class Scope:
    """What an offer exposes of a workspace.

    Attributes:
        kind: the whole workspace, or one server.
        policy: `read-only` exposes tools that say so; `all` everything that the workspace's list has.
        prefix: of the names of the server's tools; "" for a workspace.
    """

    kind: Kind
    policy: Policy
    prefix: str = ""

    @property
    def methods(self) -> frozenset[str]:
        """The methods that members may use."""
        return _OF_ALL if self.kind == "workspace" and self.policy == "all" else _OF_TOOLS


def parameter(request: jsonrpc.Request, name: str) -> str:
    """A parameter that is a text; "" if there is none."""
    return jsonrpc.text_of(members_of(request.params).get(name, b"")) or ""


def own_request(request: jsonrpc.Request, scope: Scope, caller: str, version: str) -> bytes:
    """The request as this manager sends it to its own workspace, on behalf of a caller."""
    given = members_of(request.params)
    params: dict[str, Any] = {key: value for key, value in given.items() if key in _PARAMETERS}
    if request.method == names.TOOLS_CALL:
        params["name"] = scope.prefix + parameter(request, "name")
    meta = members_of(given.get("_meta", msgspec.Raw(b"{}")))
    params["_meta"] = {
        **{key: value for key, value in meta.items() if key in _OF_META},
        names.META_VERSION: LATEST_MODERN,
        names.META_CAPABILITIES: {},
        names.META_CLIENT: {"name": f"team:{caller}", "version": version},
    }
    return jsonrpc.request(request.id, request.method, params)
