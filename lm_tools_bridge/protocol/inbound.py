"""Classifies one POSTed message: its MCP era, and whether envelope, `_meta` and headers are valid.

The body decides, and the headers must agree (MCP 2026-07-28, Transports). Checks in order, the first failure
is
reported: JSON, message shape, era, `_meta` complete, headers equal the body, supported version. Admission
(Host, Origin, sizes) comes earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.jsonrpc import Malformed, Notification, Request, Response
from lm_tools_bridge.protocol.names import LATEST_MODERN, LEGACY_REVISIONS, MODERN_REVISIONS, Era, era_of

# Error codes of MCP 2026-07-28.
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022


class Inbound(msgspec.Struct, frozen=True, gc=False):
    """A classified message.

    Attributes:
        revision: the modern revision, or the `MCP-Protocol-Version` header of a legacy message, if any.
        params: the members of the parameters as JSON text, byte for byte.
        meta: the members of `params._meta`, likewise.
        name: the tool, prompt, URI or task that the request names, if its method has one.
    """

    era: Era
    message: Request | Notification | Response
    revision: str | None = None
    params: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    meta: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    name: str | None = None


class Rejection(msgspec.Struct, frozen=True):
    """An invalid message: HTTP status, JSON-RPC code and text. `id` is JSON text, None if unreadable."""

    status: int
    code: int
    message: str
    id: bytes | None = None
    data: Any = None

    def body(self) -> bytes:
        """The JSON-RPC error body."""
        return jsonrpc.error(self.id, self.code, self.message, self.data)


def classify(header: Mapping[str, str], body: bytes) -> Inbound | Rejection:
    """Classify one POST body.

    Args:
        header: request headers, a case-insensitive mapping without duplicates.
        body: the complete body.
    """
    message = jsonrpc.parse(body)
    if isinstance(message, Malformed):
        return Rejection(400, message.code, message.message, message.id)
    version = header.get(headers.VERSION)
    has_modern_header = version is not None and version not in LEGACY_REVISIONS
    if isinstance(message, Response):
        if has_modern_header:
            text = "responses are not accepted; put the answer into inputResponses and repeat the request"
            return Rejection(400, jsonrpc.INVALID_REQUEST, text, message.id)
        return Inbound(Era.LEGACY, message, version)
    if isinstance(message, Notification):
        era = Era.MODERN if has_modern_header and era_of(version or "") is Era.MODERN else Era.LEGACY
        return Inbound(era, message, version, jsonrpc.members_of(message.params))
    return _request(header, message, version, has_modern_header)


def _request(
    header: Mapping[str, str], message: Request, version: str | None, has_modern_header: bool
) -> Inbound | Rejection:
    params = jsonrpc.members_of(message.params) if message.params else {}
    meta = jsonrpc.members_of(params["_meta"]) if "_meta" in params else {}
    name = _name(message.method, params)
    if names.META_VERSION not in meta:
        if has_modern_header:
            return _missing_meta(header, message, version)
        return Inbound(Era.LEGACY, message, version, params, meta, name)
    declared = jsonrpc.text_of(meta[names.META_VERSION])
    problem = _meta_problem(message, meta, declared) or _header_problem(header, message, declared, name)
    if problem is not None:
        return problem
    if declared not in MODERN_REVISIONS:
        data = {"supported": list(MODERN_REVISIONS), "requested": declared}
        return Rejection(
            400, UNSUPPORTED_VERSION, f"protocol version {declared} is not supported", message.id, data
        )
    return Inbound(Era.MODERN, message, declared, params, meta, name)


def _missing_meta(header: Mapping[str, str], message: Request, version: str | None) -> Rejection:
    """The rejection of a request whose header names a non-legacy revision, but whose body names none."""
    if message.method == names.INITIALIZE:
        text = f"{headers.VERSION} says {version}, but initialize belongs to the revisions before it"
        return Rejection(400, HEADER_MISMATCH, text, message.id)
    if headers.SESSION in header and version not in MODERN_REVISIONS:
        text = (
            f"{headers.VERSION} {version} is not a known revision; use one of {', '.join(LEGACY_REVISIONS)}"
        )
        return Rejection(400, jsonrpc.INVALID_REQUEST, text, message.id)
    text = f"params._meta must hold {names.META_VERSION} and {names.META_CAPABILITIES}"
    return Rejection(400, jsonrpc.INVALID_PARAMS, text, message.id)


def _meta_problem(
    message: Request, meta: Mapping[str, msgspec.Raw], declared: str | None
) -> Rejection | None:
    if declared is None:
        return Rejection(400, jsonrpc.INVALID_PARAMS, f"{names.META_VERSION} must be a string", message.id)
    capabilities = meta.get(names.META_CAPABILITIES)
    if capabilities is None or jsonrpc.bytes_of(capabilities)[:1] != b"{":
        text = f"params._meta must hold {names.META_CAPABILITIES} (an object)"
        return Rejection(400, jsonrpc.INVALID_PARAMS, text, message.id)
    client = meta.get(names.META_CLIENT)
    if client is not None and jsonrpc.bytes_of(client)[:1] != b"{":
        return Rejection(400, jsonrpc.INVALID_PARAMS, f"{names.META_CLIENT} must be an object", message.id)
    return None


def _header_problem(
    header: Mapping[str, str], message: Request, declared: str | None, name: str | None
) -> Rejection | None:
    version = header.get(headers.VERSION)
    if version is None or version.strip() != declared:
        return _mismatch(message, headers.VERSION, version, declared)
    method = header.get(headers.METHOD)
    if method is None or method.strip() != message.method:
        return _mismatch(message, headers.METHOD, method, message.method)
    if message.method in names.NAMED_PARAM:
        if name is None:
            text = f"params.{names.NAMED_PARAM[message.method]} must be a string"
            return Rejection(400, jsonrpc.INVALID_PARAMS, text, message.id)
        sent = header.get(headers.NAME)
        if sent is None or headers.decode_value(sent) != name:
            return _mismatch(message, headers.NAME, sent, name)
    return None


def _mismatch(message: Request, header: str, sent: str | None, expected: str | None) -> Rejection:
    text = f"header {header} is {'missing' if sent is None else repr(sent)}; the body says {expected!r}"
    return Rejection(400, HEADER_MISMATCH, text, message.id)


def _name(method: str, params: Mapping[str, msgspec.Raw]) -> str | None:
    member = names.NAMED_PARAM.get(method)
    return jsonrpc.text_of(params[member]) if member is not None and member in params else None


def modern_meta(capabilities: msgspec.Raw, client: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    """The `_meta` members (version, capabilities, client) of the manager's requests to a workspace server."""
    meta = {
        names.META_VERSION: jsonrpc.raw(LATEST_MODERN),
        names.META_CAPABILITIES: capabilities,
    }
    if client is not None:
        meta[names.META_CLIENT] = client
    return meta
