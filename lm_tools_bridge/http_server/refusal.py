"""Refusals as values: what a server answers instead of serving a request."""

from __future__ import annotations

from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason


class AdmissionRefusal(msgspec.Struct, frozen=True):
    """A response given instead of serving.

    Attributes:
        status: of HTTP.
        reason: a sentence that says what is wrong and what to do.
        headers: further header fields.
        code: the JSON-RPC error code, for requests that expect one.
        retry_after_ms: time to wait before a retry, in milliseconds.
    """

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    code: int = jsonrpc.INVALID_REQUEST
    retry_after_ms: int | None = None


HEAD_TIMEOUT: Final = AdmissionRefusal(
    408, "the request's head did not arrive in time (header_timeout_s); send it at once"
)
BODY_TIMEOUT: Final = AdmissionRefusal(
    408, "the body did not arrive in time (body_timeout_s); send it at once"
)
NO_ROOM: Final = AdmissionRefusal(
    503,
    "overloaded: other large requests and responses fill buffer_limit; wait 5 s, then retry",
    (("Retry-After", "5"),),
    Reason.OVERLOADED.code,
    5000,
)
STOPPED_READING: Final = AdmissionRefusal(
    408, "the client read nothing of its response for client_read_timeout_s; its connection is closed"
)
TOO_MANY_CONNECTIONS: Final = AdmissionRefusal(
    503,
    "too many open connections (connection_limit, or the limit of open files); close idle ones, then retry",
    (("Retry-After", "1"),),
)


def body_too_large(cap: int) -> AdmissionRefusal:
    """The refusal of a body over `cap` bytes."""
    return AdmissionRefusal(413, f"the body is larger than {cap:,} bytes (body_limit); send less at once")
