"""Admission rules of a workspace server: decides from a head alone whether a request is served. Pure.

The same rules hold for all routes. `lm_tools_bridge.protocol.inbound` checks the JSON-RPC body later.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from lm_tools_bridge.http_server.parsing.framing import refuse_framing
from lm_tools_bridge.http_server.parsing.head import RequestHead
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.protocol import headers, names

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
    given = sent.encode(errors="surrogateescape") if isinstance(sent, str) else sent or b""
    return hmac.compare_digest(given, secret.encode())


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
