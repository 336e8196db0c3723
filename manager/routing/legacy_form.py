"""How a modern response reads in the era of sessions: members it does not know go, codes are the older ones.

Everything else stays as the bytes that came. The other direction, for legacy servers, is settled where those
are spoken to, in the workspace server. What a response *asks for* is `manager/legacy/rounds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protocol import asking, jsonrpc, names
from protocol.inbound import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION

RESOURCE_NOT_FOUND: Final = -32002
_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_CODES: Final[Mapping[int, int]] = {
    MISSING_CAPABILITY: jsonrpc.INVALID_PARAMS,
    HEADER_MISMATCH: jsonrpc.INTERNAL_ERROR,
    UNSUPPORTED_VERSION: jsonrpc.INTERNAL_ERROR,
}
"""Codes that older revisions do not know. The last two are about headers and a version that *we* wrote."""


def result(members: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what only the modern era has (M9 to M11): type, time to live, who answered."""
    kept = {name: value for name, value in members.items() if name not in _MODERN_MEMBERS}
    raw = kept.get("_meta", {})
    meta = jsonrpc.members_of(raw) if isinstance(raw, msgspec.Raw) else raw
    if names.META_SERVER in meta:
        kept["_meta"] = {name: value for name, value in meta.items() if name != names.META_SERVER}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def response(method: str, body: bytes, envelope: Mapping[str, msgspec.Raw]) -> bytes:
    """The whole response.

    Args:
        method: what was asked.
        body: the response as it came; returned itself where nothing is to be changed.
        envelope: its members.
    """
    if "error" in envelope:
        changed: dict[str, Any] | None = _error(method, jsonrpc.members_of(envelope["error"]))
        return body if changed is None else jsonrpc.dumps({**envelope, "error": changed})
    members = jsonrpc.members_of(envelope["result"])
    kept = result(members)
    if len(kept) == len(members) and kept.get("_meta") is members.get("_meta"):
        return body
    return jsonrpc.dumps({**envelope, "result": kept})


def _error(method: str, error: Mapping[str, msgspec.Raw]) -> dict[str, Any] | None:
    """An error with the older code, None where it stays as it is."""
    try:
        code = msgspec.json.decode(error.get("code", b"0"), type=int)
    except msgspec.DecodeError:
        return None
    data = jsonrpc.members_of(error.get("data", b"{}"))
    if code == jsonrpc.INVALID_PARAMS and method == names.RESOURCES_READ and "uri" in data:
        return {**error, "code": RESOURCE_NOT_FOUND}
    if code not in _CODES:
        return None
    changed: dict[str, Any] = {**error, "code": _CODES[code]}
    if code == MISSING_CAPABILITY:
        changed["message"] = _with_capabilities(error, data)
    return changed


def _with_capabilities(error: Mapping[str, msgspec.Raw], data: Mapping[str, msgspec.Raw]) -> str:
    """The message, with the capabilities in it that the client would have had to declare."""
    message = jsonrpc.text_of(error.get("message", b'""')) or "a client capability is missing"
    required = jsonrpc.members_of(data.get("requiredCapabilities", b"{}"))
    missing = asking.spelt({name: jsonrpc.members_of(parts) for name, parts in required.items()})
    return f"{message} (this client did not declare: {missing})" if missing else message
