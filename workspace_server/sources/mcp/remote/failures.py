"""Classifies failures of HTTP requests to a remote server by what the source does about them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Literal

import msgspec

from protocol import jsonrpc
from protocol.errors import Delivered, Reason
from protocol.inbound import UNSUPPORTED_VERSION
from workspace_server.sources.mcp.failures import Unavailable

_PHRASES: Final = {status.value: f" {status.phrase}" for status in HTTPStatus}

Kind = Literal[
    "unreachable",  # no connection: network, DNS, TLS, a forbidden address
    "failing",  # connected, but the exchange broke or the answer was 5xx
    "throttled",  # 429
    "unauthorized",  # 401
    "session_lost",  # the server does not know the session or the revision; the request was not executed
    "rejected",  # the answer is none: another 4xx, a redirect elsewhere, no JSON
    "too_large",
]


class HttpFailure(Unavailable):
    """One request got no answer. `status` is the HTTP status where there was one."""

    def __init__(
        self,
        kind: Kind,
        text: str,
        delivered: Delivered = "no",
        *,
        status: int | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        reason = Reason.RESPONSE_TOO_LARGE if kind == "too_large" else Reason.SOURCE_UNAVAILABLE
        super().__init__(text, delivered, reason, retry_after_ms)
        self.kind = kind
        self.status = status
        self.undecided = status is not None and kind in ("rejected", "session_lost", "failing")


class _Fault(msgspec.Struct):
    code: int
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Fault
    id: msgspec.Raw = msgspec.Raw(b"null")


_error_body: Final = msgspec.json.Decoder(_ErrorBody)


def failure_of(
    status: int,
    body: bytes,
    *,
    request_id: bytes,
    had_session: bool,
    retry_after_s: float | None,
    is_stateless: bool = False,
) -> HttpFailure | None:
    """What an answer with a status of 400 or more means; None where its body is the answer (a JSON-RPC
    error).

    A 404 for a session id means that the session is unknown and nothing was executed; some servers
    say 400 instead. An error that names our request's id is that request's answer whatever the status is.
    A server that was replaced by one of another revision refuses stateless requests with 400, too.

    Args:
        status: the HTTP status.
        body: the body, or as much of it as was read.
        request_id: JSON text of the id of our request, empty for anything else.
        had_session: whether our request named a session.
        retry_after_s: what `Retry-After` says.
        is_stateless: whether our request was one of MCP 2026-07-28, after its handshake.
    """
    said = _read(body)
    named = said is not None and request_id != b"" and jsonrpc.bytes_of(said.id) == request_id
    wait = None if retry_after_s is None else round(retry_after_s * 1000)
    title = f"HTTP {status}{_PHRASES.get(status, '')}"
    if status == 401:
        return HttpFailure("unauthorized", f"does not accept our credentials ({title})", status=status)
    if status == 429:
        text = f"asks to be left alone for a while ({title})"
        return HttpFailure("throttled", text, status=status, retry_after_ms=wait)
    if had_session and (status == 404 or (status == 400 and said is not None and _about_session(said))):
        return HttpFailure("session_lost", f"does not know our session any more ({title})", status=status)
    if is_stateless and status == 400 and said is not None and _about_revision(said, named):
        text = f"no longer speaks the revision that it negotiated ({title})"
        return HttpFailure("session_lost", text, status=status)
    if status >= 500 or status == 408:
        if named:
            return None
        return HttpFailure("failing", f"answered {title}", "unknown", status=status, retry_after_ms=wait)
    if said is not None:
        return None
    return HttpFailure("rejected", f"answered {title}", status=status)


def _read(body: bytes) -> _ErrorBody | None:
    try:
        return _error_body.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _about_session(said: _ErrorBody) -> bool:
    return said.error.code in (-32000, -32001, -32600) and "session" in said.error.message.lower()


def _about_revision(said: _ErrorBody, is_named: bool) -> bool:
    """Whether a server without our revision refused a request as a whole, before it read its parameters."""
    if said.error.code == UNSUPPORTED_VERSION:
        return True
    text = said.error.message.lower()
    return not is_named and ("session" in text or "protocol version" in text)
