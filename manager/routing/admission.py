"""Admission rules of the manager's port: which request heads and bodies it takes, and its refusals. Pure.

One set of rules (Host, Origin, method, size, era) for `ClientHeadReader` and for the middleware in front of
aiohttp. Not here: who the peer is (`manager/listener/peer_identity.py`), and the grammar of heads
(`lm_tools_bridge/http_server/request_head.py`).

The check of a body (encoding, nesting depth, number of values) makes parsing safe; it does not validate. The
parser refuses NaN, trailing bytes and broken syntax (`lm_tools_bridge/protocol/jsonrpc.py`). A cheap upper
bound comes first: a body with at most 128 opening brackets is at most 128 levels deep. Only above the bound
are brackets outside of strings counted. The cost is linear, because all passes run in C: 1 to 2 µs for a
message of 300 bytes, 7 ms per MiB of source code in strings, 20 ms per MiB of small objects (2 cores,
Python 3.11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final

import msgspec

from lm_tools_bridge.http_server import response_head
from lm_tools_bridge.http_server.refusal import AdmissionRefusal, body_too_large
from lm_tools_bridge.http_server.request_head import (
    Framing,
    HeadReader,
    ReadHead,
    RefusedHead,
    RequestHead,
    framing,
    refuse_framing,
)
from lm_tools_bridge.protocol import headers, jsonrpc, trace_context
from lm_tools_bridge.protocol.errors import Reason
from manager.configuration.budgets import MAX_REQUEST_HEAD
from manager.routing.request_metadata import RequestMetadata, read_metadata

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
    "refuse_request",
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


class AdmissionRules(msgspec.Struct, frozen=True):
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


class _Head(msgspec.Struct):
    parsed: RequestHead
    fields: dict[bytes, bytes]
    duplicates: list[bytes]
    size: int
    count: int


def refuse_request(parsed: RequestHead, rules: AdmissionRules) -> AdmissionRefusal | None:
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


# -- bodies --------------------------------------------------------------------------------------------------

MAX_DEPTH: Final = 128
"""Levels of a body. The parsers that read it later give up on deeper ones: pydantic at 200, msgspec at
1,000."""
MAX_NODES: Final = 200_000
"""Values in a body. So many small ones become 12 to 19 MB of objects in Python, and take 31 to 50 ms of the
event loop (measured with strings, empty objects and objects of one number)."""

_BOM: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_STRUCTURE: Final = b",[]{}"
_EVERYTHING_ELSE: Final = bytes(byte for byte in range(256) if byte not in _STRUCTURE)
_SIGNED: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_STRIDE: Final = 65_536
"""Bytes whose depths are computed at a time. Larger strides are not faster, and this one needs 1.2 MB, not 30
MB for a body of 3.6 MB (measured with strides of 4 KiB to the whole body: 170 to 198 ms)."""
_LARGE: Final = 16 * 1024
"""Size in bytes from which searching for a few brackets is faster than counting them."""
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def check_json(body: bytes) -> str | None:
    """What is wrong with the body, as a message for the client; None if it may be parsed.

    Refuses a byte order mark, invalid UTF-8, lone surrogate escapes, more than 128 levels and more than
    200,000 values. Values are counted as commas and opening brackets outside of strings, which
    only counts empty containers twice. Where the syntax is broken the count holds up to the break, so that a
    parser, which stops there, never goes deeper than was allowed here.
    """
    return _text_problem(body) or _shape_problem(body)


def _text_problem(body: bytes) -> str | None:
    if body.startswith(_BOM):
        return "the body begins with a byte order mark; send plain UTF-8 without one"
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            return f"the body is not valid UTF-8 at byte {error.start}; send UTF-8"
    # one byte first: searching for it runs at memory speed
    if b"\\" in body and b"\\u" in body and _has_lone_surrogate(body):
        return "a string holds half of a surrogate pair; send whole characters"
    return None


def _has_lone_surrogate(body: bytes) -> bool:
    if b"\\ud" not in body and b"\\uD" not in body:
        return False
    without_escaped_backslashes = body.replace(b"\\\\", b"  ")
    return _SURROGATE.search(_SURROGATE_PAIR.sub(b" ", without_escaped_backslashes)) is not None


def _shape_problem(body: bytes) -> str | None:
    brackets = _brackets(body)
    nodes = brackets + body.count(b",") if len(body) >= MAX_NODES else 0
    if brackets <= MAX_DEPTH and nodes < MAX_NODES:
        return None
    structure = _outside_strings(body)
    if structure is None or len(structure) - structure.count(b"]") - structure.count(b"}") >= MAX_NODES:
        return f"the body has more than {MAX_NODES:,} values; send less at once"
    if _is_too_deep(structure.translate(_SIGNED, b",")):
        return f"the body is nested more than {MAX_DEPTH} levels deep; send flatter arguments"
    return None


def _brackets(body: bytes) -> int:
    """The number of opening brackets. In a large body, they are counted only above `MAX_DEPTH`."""
    if len(body) < _LARGE:
        return body.count(b"[") + body.count(b"{")
    found = 0
    for bracket in (b"[", b"{"):
        position = body.find(bracket)
        while position >= 0:
            found += 1
            if found > MAX_DEPTH:
                return body.count(b"[") + body.count(b"{")
            position = body.find(bracket, position + 1)
    return found


def _outside_strings(body: bytes) -> bytes | None:
    """The structural bytes outside of strings; None if there are more strings than allowed values.

    Every string is a value or the key of one, so more than four quotes per allowed value decide; without
    that, splitting a body made of quotes alone would cost many times its size.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 4 * MAX_NODES:
        return None
    return b"".join(body.split(b'"')[::2]).translate(None, _EVERYTHING_ELSE)


def _is_too_deep(signed: bytes) -> bool:
    depth = 0
    for start in range(0, len(signed), _STRIDE):
        depths = list(accumulate(memoryview(signed[start : start + _STRIDE]).cast("b"), initial=depth))
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False


SESSION_FIELD: Final = re.compile(rb"\r\n[Mm]cp-[Ss]ession-[Ii]d: ([!-~]{1,128})(?=\r\n)")
"""A session id: no rule of admission depends on which visible characters it has."""

_TRACE: Final = b"\r\n%b: " % trace_context.NAME.encode()
_END: Final = b"\r\n\r\n"
_TRACE_SIZE: Final = len(_TRACE) + len(trace_context.make_traceparent(1)) + len(_END)


class ClientHead(msgspec.Struct, frozen=True):
    """An admitted head.

    Attributes:
        parsed: method, target and header fields.
        framing: how the connection goes on behind the head.
        metadata: what it says at an MCP route, without the session id; None for other routes.
    """

    parsed: RequestHead
    framing: Framing
    metadata: RequestMetadata | None


class ClientHeadReader(HeadReader[ClientHead]):
    """The heads of the manager's port, under its rules of admission."""

    def __init__(self, rules: AdmissionRules) -> None:
        super().__init__(rules.head_cap, rules.head_too_large, rules.body_cap, SESSION_FIELD)
        self._rules = rules

    def read(self, raw: bytes) -> ReadHead[ClientHead] | RefusedHead:
        """See `HeadReader`. A trace context that another manager made is cut off before: it is new in each
        head, and that manager writes it last."""
        if not self._rules.from_managers or not raw.startswith(_TRACE, len(raw) - _TRACE_SIZE):
            return super().read(raw)
        trace = raw[len(_TRACE) - _TRACE_SIZE : -len(_END)].decode("latin-1")
        if not trace_context.is_made(trace):
            return super().read(raw)
        read = super().read(without_trace(raw))
        return read if isinstance(read, RefusedHead) else read._replace(trace=trace)

    def admit(self, raw: bytes, parsed: RequestHead) -> ClientHead | AdmissionRefusal:
        """Apply the rules of admission, and read the metadata of a request at an MCP route."""
        refusal = refuse_request(parsed, self._rules)
        if refusal is not None:
            return refusal
        metadata = read_metadata(parsed, from_manager=self._rules.from_managers)
        return ClientHead(parsed, framing(raw, parsed), metadata)

    def session_of(self, head: ClientHead) -> str | None:
        """Return the session id as the client spells it, which may be malformed."""
        return None if head.metadata is None else head.metadata.fields.get(headers.SESSION)


def without_trace(raw: bytes) -> bytes:
    """A head without the trace context at its end."""
    return raw[:-_TRACE_SIZE] + _END


def render_refusal(refusal: AdmissionRefusal, head: RequestHead | None) -> bytes:
    """Render a refusal as a whole response that closes the connection; without a body for HEAD."""
    method, target = (head.method, head.target) if head else ("", "")
    body = refusal_body(refusal, method, target)
    fields = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        *refusal.headers,
    ]
    rendered = render_head(refusal.status, fields)
    return rendered if method == "HEAD" else rendered + body


def render_head(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    """Render a head with the fields of every response.

    Raises:
        ValueError: a field has CR, LF or NUL in it.
    """
    return response_head.render_head(status, (*fields, *ANSWER_HEADERS))
