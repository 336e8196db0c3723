"""Binds a cached route to a session: writes the heads of its requests and answers once, for reuse.

Joins bytes; what they say is the route's (`cached_route.py`).
"""

from __future__ import annotations

from manager.route_cache.cached_route import CachedRoute
from manager.routing.request_heads.pattern import HeadPattern
from manager.routing.state.session_table import Session
from protocol.call_pattern import PatternValues


class BoundRoute:
    """A route as one session takes it, or everybody in the era without.

    Attributes:
        route: the route.
        session: whose calls these are, None in the era without.
        heads: what those have in common that they come with.
    """

    __slots__ = (
        "_answer_begin",
        "_answer_head",
        "_date",
        "_head",
        "_length",
        "_request_begin",
        "_request_head",
        "_request_length",
        "_size",
        "_written",
        "heads",
        "route",
        "session",
    )

    def __init__(self, route: CachedRoute, session: Session | None, heads: HeadPattern) -> None:
        self.route = route
        self.session = session
        self.heads = heads
        self._head = b""  # the last one that came, of a request of this size
        self._size = -1
        self._written = route.written
        self._request_begin = route.request_begin(session)
        self._answer_begin = route.answer_begin(session)
        self._request_head = self._answer_head = self._date = b""
        self._request_length = self._length = -1

    def body_at(self, data: bytes) -> int:
        """Where the body begins in a whole request with the last one's head and size; -1 in any other."""
        is_same = len(data) == self._size and data.startswith(self._head)
        return len(self._head) if is_same else -1

    def remember_request(self, data: bytes, start: int) -> None:
        """A request came whose body begins there."""
        self._head, self._size = data[:start], len(data)

    def request(self, body: bytes, found: PatternValues) -> bytes:
        """The request for the workspace server."""
        sent = body if self._written is None else self._written.fill(found)
        if len(sent) != self._request_length:
            self._request_length = len(sent)
            self._request_head = b"%b%d\r\n\r\n" % (self._request_begin, len(sent))
        return self._request_head + sent

    def answer(self, data: bytes, identity: bytes, date: bytes) -> bytes | None:
        """The answer to the client, where the data are a whole answer of the server that needs no thought.

        Args:
            identity: the id of the call as JSON text.
            date: the line of the head that tells it.
        """
        route = self.route
        body = route.response_body(data, identity)
        if body is None:
            return None
        if route.is_streamed:
            return route.stream_begin + date + body
        if len(body) != self._length or date is not self._date:
            self._length, self._date = len(body), date
            self._answer_head = b"%b%d%b" % (self._answer_begin, len(body), date)
        return self._answer_head + body
