"""Holds a cached route: matches the bodies of its calls, and rewrites requests and responses.

Where they go, how they are known, how they are worded in both directions: bytes that were written once, for
reuse. What a call means was decided when the route was made (`route_cache.py`), and whether that still holds
is asked there for every call. What one session adds is `bound_route.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from manager.answers.exchange import Exchange, Located
from manager.answers.new_exchange import sent_cwd
from manager.answers.upstream_request import caller_header
from manager.forwarding.answer import COLLECTED
from manager.http.event_response import STREAM_FIELDS
from manager.http.request import fixed_head_lines
from manager.routing.json import forwardable_result
from manager.routing.request_heads.request_metadata import EVENTS, JSON, RequestMetadata
from manager.routing.state.clients import Client, RequestRecord
from manager.routing.state.session_table import Session
from manager.supervision.instance import Instance
from manager.upstream import header_cache
from protocol import headers, sse
from protocol.call_pattern import Pattern, PatternValues
from protocol.internal.result_trim import ResultTrim

RECORD_INTERVAL_S: Final = 0.01
"""Of calls in quick succession one in this time is noted for the table of clients."""
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_LAST: Final = b"\r\n0\r\n\r\n"
"""What follows the only chunk of a body."""
_EVENT_END: Final = sse.EVENT_END + _LAST
_LONGEST_SIZE: Final = 10
"""Bytes of the line that tells the size of a chunk."""


class SessionProfile(msgspec.Struct, frozen=True, gc=False):
    """What of a session has a part in where its calls go, and in how they are worded.

    The first three may change (`is_still`).
    """

    workspace: str | None
    roots: tuple[str, ...] | None
    log_level: str | None
    revision: str
    client_name: str | None
    client_version: str | None
    capabilities: bytes
    mode: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, session: Session) -> SessionProfile:
        """What is so now."""
        return cls(
            session.workspace,
            session.roots,
            session.log_level,
            session.revision,
            session.client_name,
            session.client_version,
            session.capabilities,
            session.mode,
        )

    def is_current(self, session: Session) -> bool:
        """Whether a session that said this says it now."""
        return (
            session.workspace == self.workspace
            and session.roots == self.roots
            and session.log_level == self.log_level
        )


class CachedRoute:
    """The way of such calls.

    Attributes:
        metadata: what their head says.
        located: their workspace, and how that was found.
        instance: its server.
        folder: the client's text that named the workspace, None where an id did.
        match: says the values of a call, None where its body is something else.
        profile: what their sessions said, None in the era without.
        client: the row of the table of clients.
        written: how their messages are written for the server, None where that is as they come.
        figures, timings: of their workspace.
        recorded_at: when one was noted for the table of clients (monotonic).
        is_streamed: whether the last answer that was `response_body` is an event stream.
        stream_begin: the head of such an answer, up to the date.
    """

    __slots__ = (
        "_answer_begin",
        "_exchange",
        "_implied_workspace",
        "_known",
        "_known_size",
        "_passed",
        "_request_begin",
        "_sent_cwd",
        "_source",
        "_stream",
        "_trim",
        "client",
        "figures",
        "folder",
        "instance",
        "is_streamed",
        "located",
        "match",
        "metadata",
        "profile",
        "recorded_at",
        "stream_begin",
        "timings",
        "written",
    )

    def __init__(
        self,
        metadata: RequestMetadata,
        exchange: Exchange,
        located: Located,
        instance: Instance,
        *,
        patterns: tuple[Pattern, Pattern | None],
        upstream: bytes,
        client: Client,
        folder: str | None,
    ) -> None:
        """Args:
        exchange: one of these calls.
        patterns: as the client writes them, and as the server gets them, None where that is the same.
        upstream: the head of its request to the server up to the digits of the length.
        """
        self.metadata = metadata
        self.located = located
        self.instance = instance
        self.folder = folder
        self.figures = located.workspace.supervisor.figures
        self.timings = self.figures.timings
        self.client = client
        self._exchange = exchange
        self.match: Callable[[bytes], PatternValues | None] = patterns[0].match
        self.written = patterns[1]
        self._source = located.source.value
        self._sent_cwd = sent_cwd(exchange.claims)
        self._implied_workspace = located.implied_workspace
        self.recorded_at = 0.0
        self._stream = b""  # the head of event streams
        self._known = b""  # what comes before the message in answers of this size
        self._known_size = 0
        self._passed = 0  # where a stream begins behind its head, 0 in answers of JSON
        self._trim: ResultTrim | None = None
        self.is_streamed = False
        session, fields = exchange.session, exchange.headers
        self.profile = None if session is None else SessionProfile.of(session)
        self._request_begin = _around(upstream, None if session is None else _caller(session))
        self._answer_begin = _around(_answer_begin(fields), None if session is None else _name(session))
        self.stream_begin = _stream_begin(fields)

    # -- requests -------------------------------------------------------------------------------------------

    def request_begin(self, session: Session | None) -> bytes:
        """The head of a session's requests to the server, up to the digits of the length."""
        before, behind = self._request_begin
        return before if session is None else before + _caller(session) + behind

    def mark(self, session: Session) -> None:
        """Leave in the session what each of its requests leaves there."""
        session.source = self._source
        session.sent_cwd = self._sent_cwd
        if self._implied_workspace is not None:
            session.implied_workspace = self._implied_workspace

    def record(self, now: float) -> RequestRecord:
        """The call for the table of clients."""
        self.recorded_at = now
        exchange = self._exchange
        return RequestRecord(now, exchange.message.method, exchange.claims, exchange.headers)

    # -- answers --------------------------------------------------------------------------------------------

    def answer_begin(self, session: Session | None) -> bytes:
        """The head of answers in a session, up to the digits of the length."""
        before, behind = self._answer_begin
        return before if session is None else before + _name(session) + behind

    def response_body(self, data: bytes, identity: bytes) -> bytes | None:
        """The body for the client, where the data are a whole answer of the server that needs no thought.

        That of a stream comes in its chunk, as it came.

        Args:
            identity: the id of the call as JSON text.
        """
        is_known = len(data) == self._known_size and data.startswith(self._known)
        if not is_known and not self._takes(data):
            return None
        start, end, trim = len(self._known), len(data), self._trim
        if self._passed:
            if not data.endswith(_EVENT_END):
                return None
            end -= len(_EVENT_END)
            if trim is None and is_known and not sse.is_one_line(data, start, end):
                return None
        if self.profile is not None:
            return forwardable_result.for_session_client(data, start, end, identity, trim)
        is_plain = forwardable_result.is_forwardable(data, start, end, identity, trim)
        return data[self._passed or start :] if is_plain else None

    def _takes(self, data: bytes) -> bool:
        """Whether the data are a whole answer; then it is known what comes before its message."""
        size = len(self._stream)
        if not (size and data.startswith(self._stream)):
            found = header_cache.whole(data)
            if found is None or found[0].status != 200 or len(found[1]) > COLLECTED:
                return False
            head, body = found
            if head.content_type == b"application/json" and head.content_length is not None:
                self._know(data, len(data) - len(body), head.trim)
                return True
            if head.content_type != b"text/event-stream" or head.content_length is not None:
                return False
            size = data.index(_HEAD_END) + len(_HEAD_END)
            self._stream = data[:size]
        return self._takes_events(data, size)

    def _takes_events(self, data: bytes, start: int) -> bool:
        """The same of a stream; what is not one event in one chunk is read by others."""
        line, end = data.find(_LINE_END, start, start + _LONGEST_SIZE), len(data) - len(_LAST)
        first = line + len(_LINE_END)
        if line < 0 or not data.endswith(_LAST) or data[start:line].lower() != b"%x" % (end - first):
            return False
        event = sse.single_event(data, first, end) if self._exchange.accepts_events else None
        if event is None:
            return False
        self._know(data, event.start, ResultTrim.from_comment(event.comment), start)
        return True

    def _know(self, data: bytes, start: int, trim: ResultTrim | None, passed: int = 0) -> None:
        self._known, self._known_size, self._trim, self._passed = data[:start], len(data), trim, passed
        self.is_streamed = bool(passed) and self.profile is None


def _caller(session: Session) -> bytes:
    """The line for the server that says whose call it is."""
    return b"%b: %b\r\n" % caller_header(session.id)


def _name(session: Session) -> bytes:
    """The line for the client that names its session."""
    return f"{headers.SESSION}: {session.id}\r\n".encode()


def _around(head: bytes, line: bytes | None) -> tuple[bytes, bytes]:
    """What comes before and behind the one line of a head that differs between sessions."""
    if line is None:
        return head, b""
    before, _, behind = head.partition(b"\r\n" + line)
    return before + b"\r\n", behind


def _answer_begin(fields: Mapping[str, str]) -> bytes:
    return fixed_head_lines(200, JSON, tuple(fields.items()), is_last=False) + b"\r\nContent-Length: "


def _stream_begin(fields: Mapping[str, str]) -> bytes:
    said = {**fields, **STREAM_FIELDS, "Transfer-Encoding": "chunked"}
    return fixed_head_lines(200, EVENTS, tuple(said.items()), is_last=False)
