"""Admission rules of the manager's port: Host, Origin, method, size and era of a request head. Pure.

One set of rules for `ClientHeadReader` and for the middleware in front of aiohttp. Not here: who the peer is
(`manager/listener/peer_identity.py`), the grammar of heads (`lm_tools_bridge/http_server/request_head.py`),
and what a body must look like (`manager/routing/json/scan.py`, re-exported).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.http_server.refusal import AdmissionRefusal, body_too_large
from lm_tools_bridge.http_server.request_head import RequestHead, refuse_framing
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason
from manager.configuration.budgets import MAX_REQUEST_HEAD
from manager.routing.json.scan import check_json

__all__ = [
    "ANSWER_HEADERS",
    "HEADER_MISMATCH",
    "AdmissionRefusal",
    "AdmissionRules",
    "RequestHead",
    "body_too_large",
    "check_json",
    "is_mcp_target",
    "refusal_body",
    "refuse",
]

TUNNEL_HOST: Final = b"localhost:0"
"""The `Host` of requests from managers on other hosts."""
HEADER_MISMATCH: Final = -32020
"""JSON-RPC code of the 2026-07-28 revision for headers that contradict each other or the body."""

ANSWER_HEADERS: Final[tuple[tuple[str, str], ...]] = (
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""On every response. A handler may set its own `Cache-Control` or policy; none sets CORS fields."""

_MODERN_ROUTING: Final = frozenset({b"mcp-protocol-version", b"mcp-method", b"mcp-name"})
_SINGLETONS: Final = _MODERN_ROUTING | {
    b"authorization",
    b"content-length",
    b"content-type",
    b"host",
    b"mcp-session-id",
    b"x-workspace-cwd",
}


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What is admitted.

    Attributes:
        hosts: values of `Host`, in lower case.
        origins: values of `Origin`, in lower case.
        body_cap: the most bytes of a body.
        head_cap: the most bytes of a head.
        field_cap: the most header fields.
        from_managers: whether requests come from managers on other hosts, whose internal headers cross.
    """

    hosts: frozenset[bytes]
    origins: frozenset[bytes]
    body_cap: int = 16 * 1024 * 1024
    head_cap: int = MAX_REQUEST_HEAD
    field_cap: int = 100
    from_managers: bool = False

    @classmethod
    def for_managers(cls, *, body_cap: int) -> AdmissionRules:
        """Make the rules of the socket that managers on other hosts use: no page of a browser reaches it."""
        return cls(frozenset({TUNNEL_HOST}), frozenset(), body_cap=body_cap, from_managers=True)

    @classmethod
    def for_ports(cls, ports: Iterable[int], *, body_cap: int = 16 * 1024 * 1024) -> AdmissionRules:
        """Make the rules of a manager that listens on these loopback ports.

        Only the manager's own pages are admitted as origins, for all methods: browsers send `Origin` with a
        same-origin POST too. A page of another local port is refused like one from the internet.
        """
        names = ("127.0.0.1", "localhost", "[::1]")
        hosts = {f"{name}:{port}" for name in names for port in ports}
        hosts |= {name for name in names if 80 in set(ports)}
        encoded = frozenset(host.encode() for host in hosts)
        return cls(encoded, frozenset(b"http://" + host for host in encoded), body_cap=body_cap)

    @property
    def head_too_large(self) -> AdmissionRefusal:
        """The refusal of a head over either cap."""
        limit = f"{self.head_cap // 1024} KiB or {self.field_cap} fields"
        return AdmissionRefusal(
            431, f"the request's head is larger than {limit}, a fixed limit; send fewer or shorter headers"
        )


@dataclass(slots=True)
class _Head:
    parsed: RequestHead
    fields: dict[bytes, bytes]
    duplicates: list[bytes]
    size: int
    count: int


def refuse(parsed: RequestHead, rules: AdmissionRules) -> AdmissionRefusal | None:
    """Return the refusal of the first rule that is broken; None if none is."""
    head = _read(parsed)
    for rule in _RULES:
        refusal = rule(head, rules)
        if refusal is not None:
            return refusal
    return None


def is_mcp_target(target: str) -> bool:
    """Return whether a request target is an MCP route."""
    path = target.partition("?")[0].rstrip("/")
    return path == "/mcp" or (path.startswith("/w/") and path.endswith("/mcp"))


def refusal_body(refusal: AdmissionRefusal, method: str, target: str) -> bytes:
    """Render the body: a JSON-RPC error without an id for a POST to an MCP route, else `{"error": text}`."""
    if method == "POST" and is_mcp_target(target):
        wait_ms = refusal.retry_after_ms
        data = None if wait_ms is None else {"reason": Reason.OVERLOADED.word, "retryAfterMs": wait_ms}
        return jsonrpc.error(None, refusal.code, refusal.reason, data)
    return json.dumps({"error": refusal.reason}).encode()


def _read(parsed: RequestHead) -> _Head:
    fields: dict[bytes, bytes] = {}
    duplicates: list[bytes] = []
    size = len(parsed.method) + len(parsed.target) + 14
    count = 0
    for name, value in parsed.headers:
        key = name.lower()
        size += len(name) + len(value) + 4
        count += 1
        if key in fields:
            duplicates.append(key)
            # Joined with commas, so that a second Origin cannot hide behind a good one.
            fields[key] = fields[key] + b", " + value
        else:
            fields[key] = value
    return _Head(parsed, fields, duplicates, size, count)


def _target(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    if head.parsed.method == "CONNECT" or not head.parsed.target.startswith("/"):
        return AdmissionRefusal(400, "this is not a proxy; send the path alone as the request target")
    return None


def _host(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    host = head.fields.get(b"host")
    if host is None or b"host" in head.duplicates:
        return AdmissionRefusal(400, "send exactly one Host header")
    if host.lower() not in rules.hosts:
        return AdmissionRefusal(
            421, "unknown Host; address this server as 127.0.0.1 or localhost with its port"
        )
    return None


def _origin(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    origin = head.fields.get(b"origin")
    if origin is not None and origin.lower() not in rules.origins:
        return AdmissionRefusal(403, "requests from web pages are refused; send no Origin header")
    return None


def _referer(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    referer = head.fields.get(b"referer")
    if referer is None:
        return None
    origin = b"/".join(referer.lower().split(b"/", 3)[:3]).partition(b"?")[0]
    if origin not in rules.origins or b"referer" in head.duplicates:
        return AdmissionRefusal(
            403, "requests that come from another page are refused; send no Referer header"
        )
    return None


def _fetch_site(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    if head.fields.get(b"sec-fetch-site", b"none").lower() not in (b"none", b"same-origin"):
        return AdmissionRefusal(403, "cross-site requests are refused; open this address directly")
    return None


def _duplicates(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    for name in head.duplicates:
        if name in _SINGLETONS:
            code = HEADER_MISMATCH if name in _MODERN_ROUTING else jsonrpc.INVALID_REQUEST
            return AdmissionRefusal(400, f"send the header {name.decode()} once", code=code)
    return None


def _head_size(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    if head.size > rules.head_cap or head.count > rules.field_cap:
        return rules.head_too_large
    return None


def _content_type(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    if head.parsed.method != "POST" or head.fields.get(b"content-type") == b"application/json":
        return None
    kind, *parameters = head.fields.get(b"content-type", b"").lower().split(b";")
    charsets = {parameter.strip().replace(b'"', b"") for parameter in parameters}
    if kind.strip() != b"application/json" or charsets - {b"charset=utf-8"}:
        return AdmissionRefusal(415, "send the body as Content-Type: application/json in UTF-8")
    return None


def _content_encoding(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    if head.fields.get(b"content-encoding", b"identity").lower() != b"identity":
        return AdmissionRefusal(415, "send the body uncompressed, without Content-Encoding")
    return None


def _framing(head: _Head, rules: AdmissionRules) -> AdmissionRefusal | None:
    return refuse_framing(head.fields, rules.body_cap)


_RULES: Final[tuple[Callable[[_Head, AdmissionRules], AdmissionRefusal | None], ...]] = (
    _target,
    _host,
    _origin,
    _referer,
    _fetch_site,
    _duplicates,
    _head_size,
    _content_type,
    _content_encoding,
    _framing,
)
