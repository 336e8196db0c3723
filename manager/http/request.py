"""One request at an MCP route with its response, and the requests that are being answered.

What the request means is decided by `endpoints/`; how a response travels, by `relay/`. Every way of answering
begins and ends its requests in `OpenRequests`: the count for a stop, the mark of a session, and whether
another one may begin.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Callable
from typing import Final, Protocol

from lm_tools_bridge.http_server.deadline import Deadline
from lm_tools_bridge.http_server.request import BaseRequest, ResponseConnection
from lm_tools_bridge.http_server.request_head import Framing, RequestHead
from lm_tools_bridge.http_server.response_head import fixed_lines
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.http.open_streams import KeepAlives
from manager.log import logger
from manager.routing.admission import ANSWER_HEADERS
from manager.routing.request_metadata import RequestMetadata
from manager.routing.state.clients import Peer
from manager.routing.state.session_table import Session

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


_log = logger()


def log_fault(fault: BaseException, method: str | None = None) -> None:
    """Log an exception without its message, which may quote a body or a secret."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(fault.__traceback__)]
    _log.error("request failed", method=method, error=type(fault).__name__, at=places[-3:])


_STOPPING: Final = Refusal(
    Reason.OVERLOADED, "the manager is stopping", "retry in a moment", delivered="no", retry_after_ms=1000
)


class OpenRequests:
    """The requests that are being answered, on any path.

    Requests of a session are known by `jsonrpc.id_key`. The session keeps them, each with the function that
    cancels it.

    Attributes:
        is_draining: whether the manager is stopping, so that no request may begin; nothing else says so.
    """

    __slots__ = ("_count", "_idle", "is_draining")

    def __init__(self) -> None:
        self.is_draining = False
        self._count = 0
        self._idle: asyncio.Event | None = None

    def refuse_when_draining(self, http_request: HttpRequest, identity: bytes | None) -> bool:
        """Refuse a request with 503 if the manager is stopping; return whether it was refused.

        Args:
            identity: the id of the request as JSON text; None if it has none.
        """
        if self.is_draining:
            http_request.respond(503, _STOPPING.as_error(identity), {"Retry-After": "1"})
        return self.is_draining

    def may_begin(self, session: Session | None, key: bytes) -> bool:
        """Whether a request may begin: no stop, and no open request of its session with the same id."""
        # as `is_open`, without a call of a function: every call of the fast path asks
        return not self.is_draining and (session is None or key not in session.in_flight)

    def is_open(self, session: Session | None, key: bytes) -> bool:
        """Whether a request with this id is being answered in a session."""
        return session is not None and key in session.in_flight

    def begin(self, session: Session | None, key: bytes, cancel: Callable[[], object]) -> None:
        """Count a request that begins, and mark it in its session with the function that cancels it."""
        self._count += 1
        if session is not None:
            session.in_flight.add(key, cancel)

    def end(self, session: Session | None, key: bytes) -> None:
        """Count a request that has ended: answered, abandoned, or about to begin on another path."""
        self._count -= 1
        if session is not None:
            session.in_flight.remove(key)
        if not self._count and self._idle is not None:
            self._idle.set()

    async def drained(self, seconds: float) -> bool:
        """Wait at most `seconds` until no request is open; return whether none is."""
        self._idle = self._idle or asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._count:
                    self._idle.clear()
                    await self._idle.wait()
        return not self._count
