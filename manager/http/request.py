"""One request at an MCP route, with what its head says, and its response.

What the request means is decided by `endpoints/`; how a response travels, by `relay/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from lm_tools_bridge.http_server.deadline import Deadline
from lm_tools_bridge.http_server.request import BaseRequest, ResponseConnection
from lm_tools_bridge.http_server.request_head import Framing, RequestHead
from lm_tools_bridge.http_server.response_head import fixed_lines
from manager.http.keep_alives import KeepAlives
from manager.routing.request_heads.admission import ANSWER_HEADERS
from manager.routing.request_heads.request_metadata import RequestMetadata
from manager.routing.state.peer import Peer

fixed_head_lines: Final = fixed_lines(ANSWER_HEADERS)
"""Renders the lines of a head that equal responses share, with the fields of every response."""

_RELEASED: Final = RequestMetadata(RequestHead("GET", "/", ()), None)


class RequestConnection(ResponseConnection, Protocol):
    """The connection, as far as a request needs it.

    Attributes:
        deadline: its deadline; while a request is being answered, that of the request.
    """

    deadline: Deadline

    @property
    def keep_alives(self) -> KeepAlives:
        """Sends comments on event streams that are silent."""

    async def is_from_own_child(self) -> bool:
        """Whether a program that we started sends on it, which must not decide for the user."""

    def peer(self) -> Peer | None:
        """The client's end of the connection, always the same; None if it did not connect over TCP."""


class HttpRequest(BaseRequest):
    """A request and its response.

    Attributes:
        is_from_own_child: whether a program that we started sent it, which must not decide for the user.
        keep_alives: sends comments on the response where that is an event stream.
        made_trace: the number of the trace context that a manager on another host made for it; 0 for none.
        metadata: what the head says.
        peer: returns the client's end of the connection, as `RequestConnection.peer` does.
        received_at: when the request was complete (monotonic).
        session: the session id that it names.
    """

    __slots__ = (
        "_deadline", "is_from_own_child", "keep_alives", "made_trace", "metadata", "peer", "received_at",
        "session",
    )  # fmt: skip

    fixed_lines = staticmethod(fixed_head_lines)

    def __init__(
        self,
        connection: RequestConnection,
        metadata: RequestMetadata,
        session: str | None,
        framing: Framing,
        body: bytes,
    ) -> None:
        super().__init__(connection, framing, body)
        self.received_at = time.monotonic()
        self.metadata = metadata
        self.session = session
        self.is_from_own_child = connection.is_from_own_child
        self.peer = connection.peer
        self.made_trace = 0
        self.keep_alives = connection.keep_alives
        self._deadline = connection.deadline

    def release_input(self) -> None:
        """Free head and body, which nobody reads any more: the response will take long."""
        self.metadata, self.body = _RELEASED, b""

    @property
    def is_repeatable(self) -> bool:
        """Whether equal requests may follow on the connection: kept alive, of known length, HTTP/1.1."""
        framing = self._framing
        is_plain = framing.length is not None and framing.allows_chunked
        return is_plain and not framing.is_last and not framing.expects_continue

    def set_deadline(self, seconds: float, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` unless the response is complete within so many seconds."""
        if not self.is_disconnected:
            self._deadline.set(seconds, on_timeout)

    def clear_deadline(self) -> None:
        """Call nothing any more."""
        if not self.is_disconnected:
            self._deadline.clear()
