"""Reads and admits request heads: decides from a head alone whether a request is served. Pure.

The same rules hold for all routes. `lm_tools_bridge.protocol.inbound` checks the JSON-RPC body later.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import (
    Framing,
    HeadReader,
    ReadHead,
    RefusedHead,
    RequestHead,
    framing,
    refuse_framing,
)
from lm_tools_bridge.protocol import headers, names, trace_context

# As the manager's (`manager/routing/admission.py`): it has refused larger bodies before.
MAX_BODY: Final = 16 * 1024 * 1024
ROUTES: Final[Mapping[str, str]] = {
    names.MCP_PATH: "POST",
    names.HEALTH_PATH: "GET",
    names.LIFELINE_PATH: "GET",
    names.INSPECT_PATH: "GET",
    names.CALLS_PATH: "GET",
    names.REFRESH_PATH: "POST",
    names.RESTART_PATH: "POST",
    names.STOP_CALL_PATH: "POST",
    names.ANSWER_APPROVAL_PATH: "POST",
}
"""The paths that are served, each with its method."""
_BROWSERS_SEND: Final = (b"origin", b"referer", b"sec-fetch-site")
_SECRET: Final = headers.SECRET.lower().encode()
_WRONG_HOST: Final = AdmissionRefusal(403, "the Host header must be the address of this server")
_FROM_BROWSER: Final = AdmissionRefusal(403, "requests of web pages are not served")
_NO_SECRET: Final = AdmissionRefusal(401, "this server works for its manager only")
_NOT_JSON: Final = AdmissionRefusal(415, "send the body as application/json, not compressed")
_NO_SUCH_PATH: Final = AdmissionRefusal(404, "there is nothing here")


class Admission:
    """The rules of one instance.

    Args:
        port: on 127.0.0.1, which `Host` must name.
        secret: of the instance; all routes but health require it. Health tells more to those who know it.
    """

    def __init__(self, port: int, secret: str) -> None:
        self._host = f"127.0.0.1:{port}".encode()
        self._secret = secret

    def refuse(self, head: RequestHead) -> AdmissionRefusal | None:
        """Return the refusal of the first rule that is broken; None if none is."""
        fields: dict[bytes, bytes] = {}
        for name, value in head.headers:
            key = name.lower()
            # joined with commas, so that a second value cannot hide behind a good one
            fields[key] = value if key not in fields else fields[key] + b", " + value
        path = head.target.partition("?")[0]
        return (
            self._check_host(fields)
            or self._check_secret(path, fields)
            or _check_content_type(head.method, fields)
            or _check_route(head.method, path)
            or refuse_framing(fields, MAX_BODY)
        )

    def _check_host(self, fields: Mapping[bytes, bytes]) -> AdmissionRefusal | None:
        """Refuse browsers, and host names that were made to resolve to this machine (DNS rebinding)."""
        if fields.get(b"host") != self._host:
            return _WRONG_HOST
        return _FROM_BROWSER if any(name in fields for name in _BROWSERS_SEND) else None

    def _check_secret(self, path: str, fields: Mapping[bytes, bytes]) -> AdmissionRefusal | None:
        if path == names.HEALTH_PATH:
            return None
        return None if knows_secret(fields.get(_SECRET), self._secret) else _NO_SECRET


def knows_secret(sent: bytes | str | None, secret: str) -> bool:
    """Whether the secret that a request carries is the one of the instance. Takes the same time for all."""
    sent_secret = sent.encode(errors="surrogateescape") if isinstance(sent, str) else sent or b""
    return hmac.compare_digest(sent_secret, secret.encode())


def _check_content_type(method: str, fields: Mapping[bytes, bytes]) -> AdmissionRefusal | None:
    if method != "POST":
        return None
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return None if kind == b"application/json" and b"content-encoding" not in fields else _NOT_JSON


def _check_route(method: str, path: str) -> AdmissionRefusal | None:
    allowed = ROUTES.get(path)
    if allowed is None:
        return _NO_SUCH_PATH
    if method != allowed:
        return AdmissionRefusal(405, f"{method} is not allowed here; use {allowed}", (("Allow", allowed),))
    return None


MAX_HEAD: Final = 64 * 1024
"""Bytes; the manager admits smaller heads, and adds little."""
_TOO_LARGE: Final = AdmissionRefusal(431, f"the head is larger than {MAX_HEAD} bytes")
_TRACE: Final = b"\r\n%b: " % trace_context.NAME.encode()
_TRACE_VALUE: Final = len(trace_context.make_traceparent(1))
_END: Final = b"\r\n\r\n"
_TRACE_SIZE: Final = len(_TRACE) + _TRACE_VALUE + len(_END)
_SINGLE: Final = frozenset({headers.VERSION.lower(), headers.METHOD.lower(), headers.NAME.lower()})


class Fields(Mapping[str, str]):
    """Header fields by case-insensitive name; `by_name` has the names in lower case."""

    __slots__ = ("_by_name",)

    def __init__(self, by_name: Mapping[str, str]) -> None:
        self._by_name = by_name

    def __getitem__(self, name: str) -> str:
        return self._by_name[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def get(self, name: str, default: Any = None) -> Any:
        """The same as `Mapping.get`, without raising an exception on the way."""
        return self._by_name.get(name.lower(), default)


@dataclass(frozen=True, slots=True, eq=False)
class ManagerHead:
    """An admitted head; the same object for all that differ in `Content-Length` alone.

    Attributes:
        parsed: method, target and header fields in order.
        path: one of `admission.ROUTES`.
        fields: header fields; of a repeated one the first value.
        query: members of the query; of a repeated one the first value.
        repeated: what is wrong where a header field of MCP routing is repeated.
        framing: how the connection goes on behind the head.
    """

    parsed: RequestHead
    path: str
    fields: Fields
    query: Mapping[str, str]
    repeated: str | None
    framing: Framing


class ManagerHeadReader(HeadReader[ManagerHead]):
    """The heads of one instance."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(MAX_HEAD, _TOO_LARGE, MAX_BODY)
        self._admission = admission

    def read(self, raw: bytes) -> ReadHead[ManagerHead] | RefusedHead:
        """See `HeadReader`. A trace context at the end is new in each head, so it is cut off before."""
        end = len(raw) - _TRACE_SIZE
        if raw.startswith(_TRACE, end):
            raw = raw[:end] + _END
        return self._by_bytes.get(raw) or self._read(raw)

    def admit(self, raw: bytes, parsed: RequestHead) -> ManagerHead | AdmissionRefusal:
        """Apply the rules of admission, and decode the head."""
        return self._admission.refuse(parsed) or _decoded(raw, parsed)


def trace_of(raw: bytes) -> str:
    """The trace context that the manager made and wrote at the end of a head; empty for none."""
    end = len(raw) - _TRACE_SIZE
    if not raw.startswith(_TRACE, end):
        return ""
    return raw[end + len(_TRACE) : -len(_END)].decode("latin-1")


def _decoded(raw: bytes, parsed: RequestHead) -> ManagerHead:
    sent = [
        (name.decode().lower(), value.decode("utf-8", "surrogateescape")) for name, value in parsed.headers
    ]
    path, _, query = parsed.target.partition("?")
    return ManagerHead(
        parsed,
        path,
        Fields(dict(reversed(sent))),
        dict(reversed(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))),
        _repeated([name for name, _ in sent]),
        framing(raw, parsed),
    )


def _repeated(sent: list[str]) -> str | None:
    for name, count in Counter(sent).items():
        if count > 1 and (name in _SINGLE or name.startswith(headers.PARAM_PREFIX)):
            return f"header {name} is sent {count} times"
    return None
