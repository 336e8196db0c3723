"""Decides what of a workspace an offer exposes: methods, requests of members, and lists. Pure.

Only known parameters of a request are taken, and `clientInfo` names the caller. It has no capabilities: a
question of the server, such as whether a call is approved, must not be answered by the caller itself. What
lists contain is marked as what came from a team.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import members_of
from lm_tools_bridge.protocol.names import LATEST_MODERN
from lm_tools_bridge.team.registry.entry import Kind, Policy

MAX_LIST_BYTES: Final = 16 * 1024 * 1024
"""Of the answer to a list, which is read whole, and marked: a project with thousands of tools stays below."""
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


META_TEAM: Final = "lm-tools-bridge/team"
"""Member of `_meta` of everything that came over a team. It is not offered on: lists would grow for ever."""
_INDIRECT: Final = frozenset({"tool_search", "search_project_tools", "execute_tool", "execute_code"})
"""Tools by which others can be called or found, also those of a server; they would evade the policy."""
_NONE: Final = msgspec.Raw(b"{}")
_array_decoder: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ListedTool(msgspec.Struct, frozen=True, rename="camel"):
    """What is looked at in a listed tool."""

    name: str
    annotations: Mapping[str, Any] | None = None
    input_schema: msgspec.Raw = _NONE
    meta: Mapping[str, msgspec.Raw] | None = msgspec.field(default=None, name="_meta")

    @property
    def is_read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        return self._says("readOnlyHint")

    @property
    def may_repeat(self) -> bool:
        """Whether it says that a second call does no harm."""
        return self.is_read_only or self._says("idempotentHint")

    def _says(self, hint: str) -> bool:
        return bool(self.annotations) and (self.annotations or {}).get(hint) is True


_tool_decoder: Final = msgspec.json.Decoder(ListedTool)


def exposed_answer(method: str, answer: bytes, scope: Scope) -> bytes | None:
    """The answer to `server/discover` or to a list, reduced to what is exposed.

    Returns:
        The JSON-RPC response; None if the answer cannot be read.
    """
    message = members_of(answer)
    if "error" in message:
        return answer
    result = members_of(message.get("result", _NONE))
    if not result:
        return None
    if method == names.DISCOVER:
        result.pop("instructions", None)
        result["capabilities"] = jsonrpc.raw({"tools": {}})  # without changes, which are a stream
    elif method == names.TOOLS_LIST:
        result.pop("_meta", None)  # its issues name folders and other servers
        result["tools"] = jsonrpc.raw(list(_exposed_tools(_array(result.get("tools")), scope)))
    return jsonrpc.dumps({**message, "result": result})


def listed_tools(answer: bytes) -> dict[str, ListedTool] | None:
    """The tools of an answer to `tools/list`, by name; None if it has no list."""
    result = members_of(members_of(answer).get("result", _NONE))
    if "tools" not in result:
        return None
    tools = map(_tool, _array(result["tools"]))
    return {tool.name: tool for tool in tools if tool is not None}


def next_cursor(answer: bytes) -> str | None:
    """Where a list continues."""
    result = members_of(members_of(answer).get("result", _NONE))
    return jsonrpc.text_of(result.get("nextCursor", b""))


def digest_of(tools: Mapping[str, ListedTool]) -> str:
    """A digest of tools: equal if they have the same names and parameters."""
    digest = hashlib.sha256()
    for name in sorted(tools):
        try:
            schema = msgspec.json.decode(tools[name].input_schema)
        except (msgspec.DecodeError, RecursionError):
            schema = None
        digest.update(msgspec.json.encode([name, schema], order="deterministic"))
    return digest.hexdigest()[:16]


def marked(method: str, answer: bytes, host: str, offer: str) -> bytes:
    """The answer to a list with a mark on every entry, which says where it came from."""
    message = members_of(answer)
    result = members_of(message.get("result", _NONE))
    if method != names.TOOLS_LIST or "tools" not in result:
        return answer
    items = list(map(members_of, _array(result["tools"])))
    mark = jsonrpc.raw({"host": host, "offer": offer})
    for item in items:
        item["_meta"] = jsonrpc.raw({**members_of(item.get("_meta", _NONE)), META_TEAM: mark})
    return jsonrpc.dumps({**message, "result": {**result, "tools": items}})


def _exposed_tools(items: list[msgspec.Raw], scope: Scope) -> Iterator[dict[str, msgspec.Raw]]:
    for item in items:
        tool = _tool(item)
        if tool is not None and _is_exposed(tool, item, scope):
            yield {**members_of(item), "name": jsonrpc.raw(tool.name.removeprefix(scope.prefix))}


def _is_exposed(tool: ListedTool, item: msgspec.Raw, scope: Scope) -> bool:
    if not tool.name.startswith(scope.prefix) or META_TEAM in (tool.meta or {}):
        return False
    if not scope.names(tool.name.removeprefix(scope.prefix)):
        return False
    # headers that repeat a parameter do not travel
    if tool.name.rpartition("__")[2] in _INDIRECT or b'"x-mcp-header"' in bytes(item):
        return False
    return scope.policy == "all" or tool.is_read_only


def _tool(item: msgspec.Raw) -> ListedTool | None:
    try:
        return _tool_decoder.decode(item)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _array(value: msgspec.Raw | None) -> list[msgspec.Raw]:
    try:
        return _array_decoder.decode(value) if value is not None else []
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
