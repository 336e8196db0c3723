"""The seam of the fast path: what the general way of a call offers it, and what it does for a connection.

`manager/route_cache/` is the fast path; `manager/assembly.py` makes it. Without both, every call takes the
general way, with the same answers (`tests/test_fast_path.py` deletes them).
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from lm_tools_bridge.http_server.deadline import Deadline
from manager.answers.upstream_request import PreparedCall
from manager.http.request import HttpRequest
from manager.routing.request_metadata import RequestMetadata


class ClientConnection(Protocol):
    """A client's connection, as the fast path uses it.

    Attributes:
        deadline: the timer of the connection, which the fast path sets while a call waits for its response.
    """

    deadline: Deadline

    def begin(self, metadata: RequestMetadata, session: str | None, body: bytes) -> HttpRequest:
        """Make the request object for a call that continues on the general way."""

    def fast_call_answered(self, now: float) -> None:
        """Prepare for the next request, after an answer was written at monotonic time `now`."""


class FastCalls(Protocol):
    """The calls of one client connection on the fast path, one after the other.

    Attributes:
        is_under_way: whether a call was sent and is not answered yet.
    """

    is_under_way: bool

    def send_similar(self, data: bytes) -> bool:
        """Send an unparsed request; False if it has to be parsed.

        Args:
            data: the bytes that were received, from the beginning of the request.
        """

    def send_parsed(self, match: Any, head: bytes, body: bytes, trace: int) -> bool:
        """Send a request whose head was parsed; False if it takes the general way.

        Args:
            match: what `FastPath.find` returned for it.
            trace: the number of the trace context that it brings along; 0 for none.
        """

    def fall_back(self) -> None:
        """Let the call that is under way continue on the general way."""


class FastPath(Protocol):
    """Answers calls that are like earlier ones."""

    def find(self, metadata: RequestMetadata, session: str | None) -> Any | None:
        """What is remembered of calls with this head in a session; None if nothing is."""

    def connect(self, client: ClientConnection, transport: asyncio.Transport) -> FastCalls:
        """The calls of a connection; made before its first one."""

    def offer(self, http_request: HttpRequest, call: PreparedCall) -> None:
        """Remember a call whose response is about to be written, if others may be like it."""
