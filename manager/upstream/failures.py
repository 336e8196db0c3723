"""Failures of a request to a workspace server, and whether the server may have read the request."""

from __future__ import annotations

from enum import Enum, auto


class Blame(Enum):
    """Whether the server may have read the request. Only a request that was not delivered may be retried."""

    NOT_DELIVERED = auto()
    MAYBE_DELIVERED = auto()


class UpstreamFailure(Exception):
    """A request got no complete response.

    Attributes:
        cause: connection_refused, connect_failed, timeout, identity_mismatch, unhealthy, connection_lost,
            truncated_response, malformed_response, head_too_large, pool_closed, line_cut (to another host) or
            abandoned (by the caller).
    """

    def __init__(self, blame: Blame, cause: str) -> None:
        super().__init__(f"{cause} ({blame.name.lower()})")
        self.blame = blame
        self.cause = cause


class ResponseTooLarge(Exception):
    """The body is longer than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"response body exceeds {limit} bytes")
        self.limit = limit


class LineCut(ConnectionError):
    """The line to another host, which carried the connection, was cut."""
