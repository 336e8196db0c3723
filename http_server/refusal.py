"""Refusals as values: what a server answers instead of serving a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from protocol import jsonrpc


@dataclass(frozen=True, slots=True)
class AdmissionRefusal:
    """A response given instead of serving.

    Attributes:
        status: of HTTP.
        reason: a sentence that says what is wrong and what to do.
        headers: further header fields.
        code: the JSON-RPC error code, for requests that expect one.
    """

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...] = ()
    code: int = jsonrpc.INVALID_REQUEST


HEAD_TIMEOUT: Final = AdmissionRefusal(408, "the request's head did not arrive in time; send it at once")
BODY_TIMEOUT: Final = AdmissionRefusal(408, "the body did not arrive in time; send it at once")
TOO_MANY_CONNECTIONS: Final = AdmissionRefusal(
    503, "too many open connections; close idle ones, then retry", (("Retry-After", "1"),)
)


def body_too_large(cap: int) -> AdmissionRefusal:
    """The refusal of a body over `cap` bytes."""
    return AdmissionRefusal(413, f"the body is larger than {cap:,} bytes; send less at once")
