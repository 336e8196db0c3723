"""Converts modern responses (2026-07-28) for session clients: drops unknown members, maps error codes.

Everything else stays byte for byte. The workspace server converts in the other direction, for legacy servers.
`manager/sessions/round_trips.py` handles the input requests in a response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import input_requests, jsonrpc, names
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from manager.routing.json import cut, legacy_tools

_Members = Mapping[str, msgspec.Raw]

_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_LARGE: Final = 64 * 1024
"""Size in bytes from which copying a text costs more than finding the positions to cut."""
_CODES: Final[Mapping[int, int]] = {
    MISSING_CAPABILITY: jsonrpc.INVALID_PARAMS,
    HEADER_MISMATCH: jsonrpc.INTERNAL_ERROR,
    UNSUPPORTED_VERSION: jsonrpc.INTERNAL_ERROR,
}
"""Codes that legacy revisions lack. The last two concern headers and a version from the manager."""


def convert_result(members: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the members that only modern results have: type, time to live, cache scope, server info."""
    kept = {name: value for name, value in members.items() if name not in _MODERN_MEMBERS}
    raw = kept.get("_meta", {})
    meta = jsonrpc.members_of(raw) if isinstance(raw, msgspec.Raw) else raw
    if names.META_SERVER in meta:
        kept["_meta"] = {name: value for name, value in meta.items() if name != names.META_SERVER}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def convert_response(method: str, body: bytes, envelope: _Members, outcome: _Members | None = None) -> bytes:
    """Convert a whole response.

    Args:
        method: the method of the request.
        body: the response; returned as it is if nothing changes.
        envelope: the members of the response.
        outcome: the members of the result, if they were decoded already.
    """
    if "error" in envelope:
        changed: dict[str, Any] | None = _error(method, jsonrpc.members_of(envelope["error"]))
        return body if changed is None else jsonrpc.dumps({**envelope, "error": changed})
    members = jsonrpc.members_of(envelope["result"]) if outcome is None else outcome
    converted = _convert_tools(method, members)
    if converted is not members:
        return jsonrpc.dumps({**envelope, "result": convert_result(converted)})
    meta = jsonrpc.members_of(members["_meta"]) if "_meta" in members else {}
    if members.keys().isdisjoint(_MODERN_MEMBERS) and names.META_SERVER not in meta:
        return body
    is_compact = (
        len(body) < _LARGE
        and cut.is_compact(len(body), envelope)
        and cut.is_compact(memoryview(envelope["result"]).nbytes, members)
        and (not meta or cut.is_compact(memoryview(members["_meta"]).nbytes, meta))
    )
    trimmed = None if is_compact else _cut(body, envelope, members, meta)
    return jsonrpc.dumps({**envelope, "result": convert_result(members)}) if trimmed is None else trimmed


def _convert_tools(method: str, members: _Members) -> Mapping[str, Any]:
    """The members with tools and tool results converted; `members` itself if nothing changes."""
    if method == names.TOOLS_CALL:
        return legacy_tools.convert_result(members)
    if method != names.TOOLS_LIST or "tools" not in members:
        return members
    try:
        tools = msgspec.json.decode(members["tools"], type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return members
    converted = legacy_tools.convert_definitions(tools)
    changed = any(one is not other for one, other in zip(tools, converted, strict=True))
    return {**members, "tools": converted} if changed else members


def _cut(body: bytes, envelope: _Members, members: _Members, meta: _Members) -> bytes | None:
    """Cut the modern members out of the response; None if their positions cannot be found."""
    outer = cut.member_spans(body, 0, envelope)
    inner = None if outer is None else cut.member_spans(body, outer["result"].value, members)
    if inner is None:
        return None
    dropped = set(_MODERN_MEMBERS)
    ranges: list[cut.Range] = []
    if names.META_SERVER in meta:
        if len(meta) == 1:
            dropped.add("_meta")
        else:
            where = cut.member_spans(body, inner["_meta"].value, meta)
            if where is None:
                return None
            ranges = cut.ranges_to_cut(where, {names.META_SERVER})
    return cut.remove_ranges(body, [*ranges, *cut.ranges_to_cut(inner, dropped)])


def _error(method: str, error: _Members) -> dict[str, Any] | None:
    """The error with the legacy code; None if nothing changes."""
    try:
        code = msgspec.json.decode(error.get("code", b"0"), type=int)
    except msgspec.DecodeError:
        return None
    data = jsonrpc.members_of(error.get("data", b"{}"))
    if code == jsonrpc.INVALID_PARAMS and method == names.RESOURCES_READ and "uri" in data:
        return {**error, "code": jsonrpc.RESOURCE_NOT_FOUND}
    if code not in _CODES:
        return None
    changed: dict[str, Any] = {**error, "code": _CODES[code]}
    if code == MISSING_CAPABILITY:
        changed["message"] = _with_capabilities(error, data)
    return changed


def _with_capabilities(error: _Members, data: _Members) -> str:
    """The message with the capabilities that the client did not declare."""
    message = jsonrpc.text_of(error.get("message", b'""')) or "a client capability is missing"
    required = jsonrpc.members_of(data.get("requiredCapabilities", b"{}"))
    missing = input_requests.format_capabilities(
        {name: jsonrpc.members_of(parts) for name, parts in required.items()}
    )
    return f"{message} (this client did not declare: {missing})" if missing else message
