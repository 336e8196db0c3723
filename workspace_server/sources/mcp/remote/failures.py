"""Classifies failures of HTTP requests to a remote server by what the source does about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Delivered, Reason
from lm_tools_bridge.protocol.inbound import UNSUPPORTED_VERSION
from workspace_server.results import clean_text
from workspace_server.sources.mcp.failures import Unavailable
from workspace_server.tool import RpcError

_PHRASES: Final = {status.value: f" {status.phrase}" for status in HTTPStatus}

Kind = Literal[
    "unreachable",  # no connection: network, DNS, TLS, a forbidden address
    "failing",  # connected, but the exchange broke or the answer was 5xx
    "throttled",  # 429
    "unauthorized",  # 401
    "session_lost",  # the server refused a request before it ran: it may not know the session any more
    "rejected",  # the answer is none: another 4xx, a redirect elsewhere, no JSON
    "too_large",
]


class HttpFailure(Unavailable):
    """One request got no answer.

    Attributes:
        status: the HTTP status where there was one.
        answer: the error by which the server refused the request without naming it.
    """

    def __init__(
        self,
        kind: Kind,
        text: str,
        delivered: Delivered = "no",
        *,
        status: int | None = None,
        retry_after_ms: int | None = None,
        answer: RpcError | None = None,
    ) -> None:
        reason = Reason.RESPONSE_TOO_LARGE if kind == "too_large" else Reason.SOURCE_UNAVAILABLE
        super().__init__(text, delivered, reason, retry_after_ms)
        self.kind = kind
        self.status = status
        self.answer = answer
        self.undecided = kind in ("rejected", "session_lost", "failing", "too_large")


class _Fault(msgspec.Struct):
    code: int
    message: str
    data: msgspec.Raw = msgspec.Raw()


class _ErrorBody(msgspec.Struct):
    error: _Fault
    id: msgspec.Raw = msgspec.Raw(b"null")


_error_body: Final = msgspec.json.Decoder(_ErrorBody)
_WRONG: Final = (
    r"\b(?:no|not|unknown|unrecogni[sz]ed|invalid|bad|missing|required|expired|inactive|stale"
    r"|terminated|closed|gone)\b"
)
_ABOUT_SESSION: Final = re.compile(
    rf"{_WRONG}[^.\n]{{0,40}}session|session[^.\n]{{0,60}}{_WRONG}|\bnot (?:yet )?initiali[sz]ed",
    re.IGNORECASE,
)
_SESSION_CODES: Final = frozenset({-32000, -32001, -32002, -32600})
"""Codes by which servers refuse an unknown session; tools have errors about sessions of their own."""
_LONGEST_REASON: Final = 1_000
"""Characters of a text without JSON that may say why; a longer one is a page, which has any words."""
_MAY_HAVE_RUN: Final = frozenset({408, 499})
"""Gateways say so when the server behind them took too long."""
_OTHER_REASONS: Final = frozenset({403, 413, 429}) | _MAY_HAVE_RUN
"""Refusals that are not about the session."""
_OPTIONAL: Final = frozenset(
    {names.PING, names.PROMPTS_LIST, names.RESOURCES_LIST, names.TEMPLATES_LIST, names.SET_LEVEL,
     names.SUBSCRIBE, names.UNSUBSCRIBE, names.LISTEN}
)  # fmt: skip
"""Methods that many servers lack; one that refuses them has not lost its session for that."""
HANDSHAKE: Final = frozenset({names.INITIALIZE, names.DISCOVER})


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What an HTTP request asks a server for.

    Attributes:
        id: JSON text of its id; empty for a message without an answer.
        method: its JSON-RPC method.
        names_session: whether it named a session.
    """

    id: bytes
    method: str
    names_session: bool

    @property
    def follows_handshake(self) -> bool:
        """Whether the server agreed to such requests before."""
        return self.id != b"" and self.method not in HANDSHAKE


def failure_of(
    status: int, body: bytes, request: SentRequest, retry_after_s: float | None
) -> HttpFailure | None:
    """What an answer with a status of 400 or more means; None where its body is the answer (a JSON-RPC
    error that names the request, whatever the status is).

    A server that was restarted does not know the session, or speaks another revision. It refuses requests
    before they run, with any status below 500 and in any words; some say 500, in words about the session.

    Args:
        status: the HTTP status.
        body: the body, or as much of it as was read.
        request: the request.
        retry_after_s: what `Retry-After` says.
    """
    error_body = _read(body)
    wait = None if retry_after_s is None else round(retry_after_s * 1000)
    title = f"HTTP {status}{_PHRASES.get(status, '')}"
    if _is_refused_as_a_whole(status, body, error_body, request):
        return _refused_before_it_ran(f"answered {title}", error_body, status)
    if status == 401:
        return HttpFailure("unauthorized", f"does not accept our credentials ({title})", status=status)
    if status == 429:
        text = f"asks to be left alone for a while ({title})"
        return HttpFailure("throttled", text, status=status, retry_after_ms=wait)
    if error_body is not None and (
        _names(error_body, request) or (status < 500 and status not in _MAY_HAVE_RUN)
    ):
        return None
    if status >= 500 or status in _MAY_HAVE_RUN:
        return HttpFailure("failing", f"answered {title}", "unknown", status=status, retry_after_ms=wait)
    return HttpFailure("rejected", f"answered {title}", status=status)


def _refused_before_it_ran(
    text: str, error_body: _ErrorBody | None, status: int | None = None
) -> HttpFailure:
    """A request was refused as a whole: another session may be served."""
    error = _error_of(error_body)
    if error is None:
        return HttpFailure("session_lost", text, status=status)
    words = clean_text(error.message[:_LONGEST_REASON])
    is_told = _ABOUT_SESSION.search(words) is not None or error.code == UNSUPPORTED_VERSION
    answer = None if is_told else error  # else it may be what its caller should read
    return HttpFailure("session_lost", f"{text}: {words}", status=status, answer=answer)


def refusal_in(body: bytes, request: SentRequest) -> HttpFailure | None:
    """The refusal in an answer with a good status: an error that names no request."""
    error_body = _read(body)
    if error_body is None or not request.follows_handshake or jsonrpc.bytes_of(error_body.id) != b"null":
        return None
    return _refused_before_it_ran("refused the request", error_body)


def answer_at(status: int, body: bytes) -> HttpFailure:
    """The answer in a body that `failure_of` took for one, where answers do not come as bodies."""
    return HttpFailure("rejected", f"answered HTTP {status}", status=status, answer=_error_of(_read(body)))


def _is_refused_as_a_whole(
    status: int, body: bytes, error_body: _ErrorBody | None, request: SentRequest
) -> bool:
    """Whether the request did not run, and may run in a new session."""
    if not request.follows_handshake or status in _OTHER_REASONS:
        return False
    if error_body is not None and _names(error_body, request):
        return _is_named_refusal(status, error_body.error, request)
    words = error_body.error.message if error_body is not None else body.decode("utf-8", "replace")
    if request.names_session and len(words) <= _LONGEST_REASON and _ABOUT_SESSION.search(words):
        return True
    if status == 401 or status >= 500:
        return False
    return request.method not in _OPTIONAL or (status == 404 and request.names_session)


def _is_named_refusal(status: int, error: _Fault, request: SentRequest) -> bool:
    """Errors that name a request are its answer, but for the session or the revision."""
    if status < 500 and error.code == UNSUPPORTED_VERSION:
        return True
    if not request.names_session or error.code == jsonrpc.METHOD_NOT_FOUND:
        return False
    return status == 404 or (
        error.code in _SESSION_CODES and _ABOUT_SESSION.search(error.message) is not None
    )


def _names(error_body: _ErrorBody, request: SentRequest) -> bool:
    return request.id != b"" and jsonrpc.bytes_of(error_body.id) == request.id


def _error_of(error_body: _ErrorBody | None) -> RpcError | None:
    if error_body is None:
        return None
    data = error_body.error.data
    return RpcError(error_body.error.code, error_body.error.message, data if jsonrpc.bytes_of(data) else None)


def _read(body: bytes) -> _ErrorBody | None:
    try:
        return _error_body.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
