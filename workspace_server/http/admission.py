"""Who may come in: what every head must say before anything behind it is read. Pure.

One door for all routes. What a JSON-RPC body says is judged later, in `protocol.inbound`; heads are read and
remembered in `head_reader.py`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from http_server.framing import refuse_framing
from http_server.head import RequestHead
from http_server.refusal import AdmissionRefusal
from protocol import headers, names

MAX_BODY: Final = 16 * 1024 * 1024
ROUTES: Final[Mapping[str, str]] = {
    names.MCP_PATH: "POST",
    names.HEALTH_PATH: "GET",
    names.LIFELINE_PATH: "GET",
    names.INSPECT_PATH: "GET",
    names.REFRESH_PATH: "POST",
}
"""The paths there are, each with its method."""
_BROWSERS_SEND: Final = (b"origin", b"referer", b"sec-fetch-site")
_SECRET: Final = headers.SECRET.lower().encode()
_STRANGER: Final = AdmissionRefusal(403, "the Host header must be the address of this server")
_BROWSER: Final = AdmissionRefusal(403, "requests of web pages are not served")
_NOT_THE_MANAGER: Final = AdmissionRefusal(401, "this server works for its manager only")
_UNREADABLE: Final = AdmissionRefusal(415, "send the body as application/json, not compressed")
_NOTHING_HERE: Final = AdmissionRefusal(404, "there is nothing here")


class Admission:
    """The door of one instance.

    Args:
        port: where it listens on 127.0.0.1.
        secret: opens it; health is open to everybody on this machine.
    """

    def __init__(self, port: int, secret: str) -> None:
        self._host = f"127.0.0.1:{port}".encode()
        self._secret = secret.encode()

    def refuse(self, facts: RequestHead) -> AdmissionRefusal | None:
        """The first rule this request breaks, or None when it may go on."""
        fields: dict[bytes, bytes] = {}
        for name, value in facts.headers:
            key = name.lower()
            # joined as HTTP joins lists: a second value can then never hide behind a good one
            fields[key] = value if key not in fields else fields[key] + b", " + value
        path = facts.target.partition("?")[0]
        return (
            self._stranger(fields)
            or self._unauthorized(path, fields)
            or _unreadable(facts.method, fields)
            or _misdirected(facts.method, path)
            or refuse_framing(fields, MAX_BODY)
        )

    def _stranger(self, fields: Mapping[bytes, bytes]) -> AdmissionRefusal | None:
        """A browser, or a name that was made to point at this machine."""
        if fields.get(b"host") != self._host:
            return _STRANGER
        return _BROWSER if any(name in fields for name in _BROWSERS_SEND) else None

    def _unauthorized(self, path: str, fields: Mapping[bytes, bytes]) -> AdmissionRefusal | None:
        if path == names.HEALTH_PATH:
            return None
        is_known = hmac.compare_digest(fields.get(_SECRET, b""), self._secret)
        return None if is_known else _NOT_THE_MANAGER


def _unreadable(method: str, fields: Mapping[bytes, bytes]) -> AdmissionRefusal | None:
    if method != "POST":
        return None
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return None if kind == b"application/json" and b"content-encoding" not in fields else _UNREADABLE


def _misdirected(method: str, path: str) -> AdmissionRefusal | None:
    allowed = ROUTES.get(path)
    if allowed is None:
        return _NOTHING_HERE
    if method != allowed:
        return AdmissionRefusal(405, f"{method} is not allowed here; use {allowed}", (("Allow", allowed),))
    return None
