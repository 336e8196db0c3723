"""How a modern response reads in the era of sessions: members it does not know go, codes are the older ones.

Everything else stays as the bytes that came. The other direction, for legacy servers, is settled where those
are spoken to, in the workspace server. What a response *asks for* is `manager/sessions/round_trips.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manager.routing.json import cut as json_cut
from manager.routing.json import legacy_tools
from protocol import input_requests, jsonrpc, names
from protocol.inbound import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION

_Members = Mapping[str, msgspec.Raw]

_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_LARGE: Final = 64 * 1024
"""Bytes from which on a copy of a text costs more than looking for the places where it is cut."""
_CODES: Final[Mapping[int, int]] = {
    MISSING_CAPABILITY: jsonrpc.INVALID_PARAMS,
    HEADER_MISMATCH: jsonrpc.INTERNAL_ERROR,
    UNSUPPORTED_VERSION: jsonrpc.INTERNAL_ERROR,
}
"""Codes that older revisions do not know. The last two are about headers and a version that *we* wrote."""


def convert_result(members: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what only the modern era has: type, time to live, who answered."""
    kept = {name: value for name, value in members.items() if name not in _MODERN_MEMBERS}
    raw = kept.get("_meta", {})
    meta = jsonrpc.members_of(raw) if isinstance(raw, msgspec.Raw) else raw
    if names.META_SERVER in meta:
        kept["_meta"] = {name: value for name, value in meta.items() if name != names.META_SERVER}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def convert_response(method: str, body: bytes, envelope: _Members, outcome: _Members | None = None) -> bytes:
    """The whole response.

    Args:
        method: what was asked.
        body: the response as it came; returned itself where nothing is to be changed.
        envelope: its members.
        outcome: those of its result, where they are known already.
    """
    if "error" in envelope:
        changed: dict[str, Any] | None = _error(method, jsonrpc.members_of(envelope["error"]))
        return body if changed is None else jsonrpc.dumps({**envelope, "error": changed})
    members = jsonrpc.members_of(envelope["result"]) if outcome is None else outcome
    fitting = _fitting(method, members)
    if fitting is not members:
        return jsonrpc.dumps({**envelope, "result": convert_result(fitting)})
    meta = jsonrpc.members_of(members["_meta"]) if "_meta" in members else {}
    if members.keys().isdisjoint(_MODERN_MEMBERS) and names.META_SERVER not in meta:
        return body
    is_compact = (
        len(body) < _LARGE
        and json_cut.is_compact(len(body), envelope)
        and json_cut.is_compact(memoryview(envelope["result"]).nbytes, members)
        and (not meta or json_cut.is_compact(memoryview(members["_meta"]).nbytes, meta))
    )
    cut = None if is_compact else _cut(body, envelope, members, meta)
    return jsonrpc.dumps({**envelope, "result": convert_result(members)}) if cut is None else cut


def _fitting(method: str, members: _Members) -> Mapping[str, Any]:
    """The members, with tools and what they answered as this era allows them; the same where they are."""
    if method == names.TOOLS_CALL:
        return legacy_tools.convert_result(members)
    if method != names.TOOLS_LIST or "tools" not in members:
        return members
    try:
        tools = msgspec.json.decode(members["tools"], type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return members
    fitting = legacy_tools.convert_definitions(tools)
    changed = any(one is not other for one, other in zip(tools, fitting, strict=True))
    return {**members, "tools": fitting} if changed else members


def _cut(body: bytes, envelope: _Members, members: _Members, meta: _Members) -> bytes | None:
    """The response with the members cut out; None where they cannot be found in its bytes."""
    outer = json_cut.places(body, 0, envelope)
    inner = None if outer is None else json_cut.places(body, outer["result"].value, members)
    if inner is None:
        return None
    gone = set(_MODERN_MEMBERS)
    cuts: list[json_cut.Cut] = []
    if names.META_SERVER in meta:
        if len(meta) == 1:
            gone.add("_meta")
        else:
            where = json_cut.places(body, inner["_meta"].value, meta)
            if where is None:
                return None
            cuts = json_cut.cuts(where, {names.META_SERVER})
    return json_cut.without(body, [*cuts, *json_cut.cuts(inner, gone)])


def _error(method: str, error: _Members) -> dict[str, Any] | None:
    """An error with the older code, None where it stays as it is."""
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
    """The message, with the capabilities in it that the client would have had to declare."""
    message = jsonrpc.text_of(error.get("message", b'""')) or "a client capability is missing"
    required = jsonrpc.members_of(data.get("requiredCapabilities", b"{}"))
    missing = input_requests.format_capabilities(
        {name: jsonrpc.members_of(parts) for name, parts in required.items()}
    )
    return f"{message} (this client did not declare: {missing})" if missing else message
