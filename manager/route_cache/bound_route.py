"""Binds a cached route to a session: writes the heads of its requests and answers once, for reuse.

The bytes of the heads, and the rules for bodies, come from the route (`cached_route.py`). Heads that differ
only in the length of their body and the id of their session say the same, so later ones are compared with the
pattern of the first.
"""

from __future__ import annotations

import re
from typing import Final

from lm_tools_bridge.http_server.request_head import PLAIN_LENGTH
from lm_tools_bridge.protocol.call_pattern import PatternValues
from lm_tools_bridge.protocol.trace_context import BEGIN, END
from manager.route_cache.cached_route import CachedRoute
from manager.routing.admission import SESSION_FIELD
from manager.routing.state.session_table import Session
from manager.upstream.pool import TRACE_BEGIN

_LONGEST: Final = 128
"""Characters of what differs: the id of a session is the longer of the two."""
_LONGEST_LENGTH: Final = 7
"""Digits of a `Content-Length` that are read: bodies of 10 MB and more do not arrive in one read anyway."""
_CR: Final = ord("\r")
_is_id: Final = re.compile(rb"[!-~]+").fullmatch


class HeadPattern:
    """The pattern of one admitted head."""

    __slots__ = ("_begin", "_behind", "_digits", "_longest", "_named")

    def __init__(self, head: bytes, longest: int) -> None:
        """Args:
        head: as it came. Where it has no plain length nothing matches.
        longest: the most bytes of a body.
        """
        digits, named = PLAIN_LENGTH.search(head), SESSION_FIELD.search(head)
        spans = sorted(one.span(1) for one in (digits, named) if one is not None)
        ends = [*(start for start, _ in spans), len(head)]
        self._longest = longest
        self._begin = head[: ends[0]]
        self._behind = [head[stop:end] for (_, stop), end in zip(spans, ends[1:], strict=True)]
        self._digits = -1 if digits is None else spans.index(digits.span(1))
        self._named = -1 if named is None else spans.index(named.span(1))

    def match(self, data: bytes) -> tuple[int, bytes] | None:
        """Where in a whole request the body begins, and the id of the session that it names.

        The id is empty only where heads of this pattern differ in none. None where the head is another one,
        or the request is not whole or not alone.
        """
        if self._digits < 0 or not data.startswith(self._begin):
            return None
        start, values = len(self._begin), []
        for behind in self._behind:
            stop = data.find(_CR, start, start + _LONGEST + 1)
            if stop < 0 or not data.startswith(behind, stop):
                return None
            values.append(data[start:stop])
            start = stop + len(behind)
        named = b"" if self._named < 0 else values[self._named]
        if self._named >= 0 and _is_id(named) is None:
            return None
        return (start, named) if self._is_length(values[self._digits], len(data) - start) else None

    def _is_length(self, digits: bytes, size: int) -> bool:
        is_plain = digits.isdigit() and len(digits) <= _LONGEST_LENGTH
        return is_plain and int(digits) == size <= self._longest


_BEGIN: Final = TRACE_BEGIN + BEGIN
_END: Final = END + b"\r\n\r\n"


class BoundRoute:
    """A cached route for the calls of one session, or of all stateless clients.

    Attributes:
        route: the route.
        session: the session; None for stateless clients.
        session_id: its id.
        heads: the pattern that the heads of these calls match.
    """

    __slots__ = (
        "_answer_begin",
        "_answer_head",
        "_answer_length",
        "_date",
        "_last_head",
        "_last_size",
        "_request_begin",
        "_request_head",
        "_request_length",
        "_request_pattern",
        "heads",
        "route",
        "session",
        "session_id",
    )

    def __init__(self, route: CachedRoute, session: Session | None, heads: HeadPattern) -> None:
        self.route = route
        self.session = session
        self.session_id = None if session is None else session.id
        self.heads = heads
        self._last_head = b""  # of the last request, whose size follows
        self._last_size = -1
        self._request_pattern = route.written
        self._request_begin = route.request_begin(session)
        self._answer_begin = route.answer_begin(session)
        self._request_head = self._answer_head = self._date = b""
        self._request_length = self._answer_length = -1

    def body_at(self, data: bytes) -> int:
        """The offset of the body in a request with the head and size of the last one; -1 for any other."""
        is_same = len(data) == self._last_size and data.startswith(self._last_head)
        return len(self._last_head) if is_same else -1

    def remember_request(self, data: bytes, start: int) -> None:
        """Remember the head and size of a request whose body begins at `start`."""
        self._last_head, self._last_size = data[:start], len(data)

    def request(self, body: bytes, values: PatternValues, made_trace: int = 0) -> bytes:
        """Build the request to the workspace server.

        Args:
            body: the client's body.
            values: the values that the route's `match` returned for it.
            made_trace: the number of the trace context to send with it; 0 for none.
        """
        sent = body if self._request_pattern is None else self._request_pattern.fill(values)
        if len(sent) != self._request_length:
            self._request_length = len(sent)
            self._request_head = b"%b%d\r\n" % (self._request_begin, len(sent))
        if made_trace:
            # as `make_traceparent` does, joined at once: half the time
            span = made_trace.to_bytes(8, "big").hex().encode()
            return b"".join((self._request_head, _BEGIN, span[::-1], span, b"-", span, _END, sent))
        return b"%b\r\n%b" % (self._request_head, sent)

    def answer(self, data: bytes, identity: bytes, date: bytes) -> bytes | None:
        """Build the response to the client; None if the direct relay has to process the server's response.

        Args:
            data: the first bytes of the server's response.
            identity: the id of the call as JSON text.
            date: the `Date` header line.
        """
        route = self.route
        body = route.response_body(data, identity)
        if body is None:
            return None
        if route.is_streamed:
            return route.stream_begin + date + body
        if len(body) != self._answer_length or date is not self._date:
            self._answer_length, self._date = len(body), date
            self._answer_head = b"%b%d%b" % (self._answer_begin, len(body), date)
        return self._answer_head + body
