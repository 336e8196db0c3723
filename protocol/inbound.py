"""Which era one POSTed message belongs to, and whether its envelope is in order.

The body decides, the headers are the cross-check (2026-07-28, transports). Rungs in
order, the first that fails wins: JSON, shape, era, `_meta` complete, headers equal the body, version
served. Whether the *caller* may come in at all (Host, Origin, sizes) was settled before, at the door.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from protocol import headers, jsonrpc, names
from protocol.jsonrpc import Malformed, Notification, Request, Response
from protocol.versions import LATEST_MODERN, LEGACY_REVISIONS, MODERN_REVISIONS, Era, era_of

HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022


class Inbound(msgspec.Struct, frozen=True, gc=False):
    """A message with its era.

    `revision` is the modern revision, or the legacy version header where one was sent. `params` holds the
    members of the parameters as the bytes that came, `meta` those of `params._meta`. `name` is the tool,
    prompt, URI or task the request is about, where its method has one.
    """

    era: Era
    message: Request | Notification | Response
    revision: str | None = None
    params: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    meta: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A message that goes no further: HTTP status, JSON-RPC code and text; `id` as JSON text if readable."""

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
        header: request headers; names are looked up as spelt in `protocol.headers` (a case-insensitive
            mapping, duplicates already refused).
        body: the whole body.
    """
    message = jsonrpc.parse(body)
    if isinstance(message, Malformed):
        return Rejection(400, message.code, message.message, message.id)
    version = header.get(headers.VERSION)
    claims_modern = version is not None and version not in LEGACY_REVISIONS
    if isinstance(message, Response):
        if claims_modern:
            text = "responses are not accepted; answer in inputResponses of the retried request"
            return Rejection(400, jsonrpc.INVALID_REQUEST, text, message.id)
        return Inbound(Era.LEGACY, message, version)
    if isinstance(message, Notification):
        era = Era.MODERN if claims_modern and era_of(version or "") is Era.MODERN else Era.LEGACY
        return Inbound(era, message, version, jsonrpc.members_of(message.params))
    return _request(header, message, version, claims_modern)


def _request(
    header: Mapping[str, str], message: Request, version: str | None, claims_modern: bool
) -> Inbound | Rejection:
    params = jsonrpc.members_of(message.params) if message.params else {}
    meta = jsonrpc.members_of(params["_meta"]) if "_meta" in params else {}
    name = _name(message.method, params)
    if names.META_VERSION not in meta:
        if claims_modern:
            return _claim_without_meta(header, message, version)
        return Inbound(Era.LEGACY, message, version, params, meta, name)
    stated = jsonrpc.text_of(meta[names.META_VERSION])
    problem = _meta_problem(message, meta, stated) or _header_problem(header, message, stated, name)
    if problem is not None:
        return problem
    if stated not in MODERN_REVISIONS:
        data = {"supported": list(MODERN_REVISIONS), "requested": stated}
        return Rejection(
            400, UNSUPPORTED_VERSION, f"protocol version {stated} is not supported", message.id, data
        )
    return Inbound(Era.MODERN, message, stated, params, meta, name)


def _claim_without_meta(header: Mapping[str, str], message: Request, version: str | None) -> Rejection:
    """A header names a revision that is not legacy, but the body carries no version."""
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


def _meta_problem(message: Request, meta: Mapping[str, msgspec.Raw], stated: str | None) -> Rejection | None:
    if stated is None:
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
    header: Mapping[str, str], message: Request, stated: str | None, name: str | None
) -> Rejection | None:
    version = header.get(headers.VERSION)
    if version is None or version.strip() != stated:
        return _mismatch(message, headers.VERSION, version, stated)
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
    """The `_meta` triple a request of ours carries towards a workspace server."""
    meta = {
        names.META_VERSION: jsonrpc.raw(LATEST_MODERN),
        names.META_CAPABILITIES: capabilities,
    }
    if client is not None:
        meta[names.META_CLIENT] = client
    return meta
