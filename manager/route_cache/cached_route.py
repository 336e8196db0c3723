"""Holds a cached route: matches the bodies of its calls, and rewrites requests and responses.

A route keeps the workspace of its calls, the pattern of their bodies, and the bytes of their requests and
response heads. `route_cache.py` makes routes and checks for every call that its route is still valid;
`bound_route.py` adds the bytes of one session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from lm_tools_bridge.protocol import headers, sse
from lm_tools_bridge.protocol.call_pattern import Pattern, PatternValues
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.answers.exchange import Exchange, Located, sent_cwd
from manager.answers.upstream_request import caller_header
from manager.call_observer import CallLabel, CallOrigin
from manager.forwarding.answer import COLLECTED
from manager.http.event_response import STREAM_FIELDS
from manager.http.request import fixed_head_lines
from manager.routing import legacy_result
from manager.routing.request_metadata import EVENTS, JSON, RequestMetadata
from manager.routing.state.clients import Client, RequestRecord
from manager.routing.state.session_table import Session
from manager.supervision.instance import Instance
from manager.supervision.workspaces import Placement
from manager.upstream import response


class SessionProfile(msgspec.Struct, frozen=True, gc=False):
    """The state of a session that decides where its calls go, and how they are written for the server.

    Only the first four members can change (`is_current`).
    """

    workspace: str | None
    cwd: str | None
    roots: tuple[str, ...] | None
    log_level: str | None
    revision: str
    client_name: str | None
    client_version: str | None
    capabilities: bytes
    mode: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, session: Session) -> SessionProfile:
        """The current profile of a session."""
        return cls(
            session.workspace,
            session.cwd,
            session.roots,
            session.log_level,
            session.revision,
            session.client_name,
            session.client_version,
            session.capabilities,
            session.mode,
        )

    def is_current(self, session: Session) -> bool:
        """Whether a session that once had this profile still has it."""
        return (
            session.workspace == self.workspace
            and session.cwd == self.cwd
            and session.roots == self.roots
            and session.log_level == self.log_level
        )


RECORD_INTERVAL_S: Final = 0.01
"""Seconds between two calls of a route that are recorded in the table of clients."""
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_LAST: Final = b"\r\n0\r\n\r\n"
"""The bytes after the data of a body's only chunk."""
_EVENT_END: Final = sse.EVENT_END + _LAST
_LONGEST_SIZE: Final = 10
"""Longest line with the size of a chunk, in bytes."""


class CachedRoute:
    """The route of calls that differ only in id, arguments and session.

    Attributes:
        metadata: the metadata of their heads.
        located: their workspace, and how it was resolved; `is_pure` is read with every call.
        instance: the workspace server that gets them.
        folders: the client's texts that the workspace was decided from, each with where it lay; empty if the
            client named the id of the workspace.
        match: returns the values in a call's body, None if the body does not match.
        profile: the profile of their sessions; None for stateless clients.
        client: their row in the table of clients.
        written: the pattern of the bodies for the server; None if these are sent unchanged.
        figures, timings: the counters and timings of the workspace.
        recorded_at: when a call was last recorded in the table of clients (monotonic).
        label, trace: what the observer is told of each call; `label` is None if nobody observes.
        makes_traces: whether its calls get a trace context, because they bring none.
        took: where the time of the last call went in the server
        (`lm_tools_bridge/protocol/internal/call_reports.py`); empty
            if the server did not say.
        body_start: offset of the message in the last response.
        is_streamed: whether the last body from `response_body` was an event stream.
        stream_begin: the head of such a response, up to the `Date` line.
    """

    __slots__ = (
        "_answer_begin",
        "_exchange",
        "_implied_workspace",
        "_prefix",
        "_request_begin",
        "_sent_cwd",
        "_size",
        "_source",
        "_stream_head",
        "_stream_offset",
        "_took_size",
        "_trim",
        "body_start",
        "client",
        "figures",
        "folders",
        "instance",
        "is_pure",
        "is_streamed",
        "label",
        "located",
        "makes_traces",
        "match",
        "metadata",
        "profile",
        "recorded_at",
        "stream_begin",
        "timings",
        "took",
        "trace",
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
        folders: tuple[tuple[str, Placement], ...],
        origin: CallOrigin | None = None,
        makes_traces: bool = False,
    ) -> None:
        """Args:
        exchange: the call that the route is made from.
        patterns: of the client's bodies, and of the server's; the latter is None if both are the same.
        upstream: the head of the call's request to the server, up to the digits of `Content-Length`.
        origin: what the observer is told of the call.
        """
        self.label: CallLabel | None = None if origin is None else origin.label
        self.trace = "" if origin is None else origin.trace
        self.makes_traces = makes_traces
        self.took = b""
        self.body_start = 0
        self.metadata = metadata
        self.located = located
        self.is_pure = located.is_pure
        self.instance = instance
        self.folders = folders
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
        self._stream_head = b""  # the head of the server's event streams
        self._prefix = b""  # the bytes before `took`, or before the message, in responses of this size
        self._size = self._took_size = 0
        self._stream_offset = 0  # offset of a stream's first chunk; 0 for JSON
        self._trim: ResultTrim | None = None
        self.is_streamed = False
        session, fields = exchange.session, exchange.headers
        self.profile = None if session is None else SessionProfile.of(session)
        self._request_begin = _split_around(upstream, None if session is None else _caller_line(session))
        self._answer_begin = _split_around(
            _answer_begin(fields), None if session is None else _session_line(session)
        )
        self.stream_begin = _stream_begin(fields)

    # -- requests -------------------------------------------------------------------------------------------

    def request_begin(self, session: Session | None) -> bytes:
        """The head of a session's requests to the server, up to the digits of `Content-Length`."""
        before, behind = self._request_begin
        return before if session is None else before + _caller_line(session) + behind

    def mark(self, session: Session) -> None:
        """Update the session as a parsed request does: claim source, sent cwd, workspaces."""
        session.source = self._source
        session.last_workspace = self.located.workspace.id
        session.sent_cwd = self._sent_cwd
        if self._implied_workspace is not None:
            session.implied_workspace = self._implied_workspace

    def record(self, now: float) -> RequestRecord:
        """The record of a call at monotonic time `now`, for the table of clients."""
        self.recorded_at = now
        exchange = self._exchange
        return RequestRecord(now, exchange.message.method, exchange.claims, exchange.headers)

    # -- answers --------------------------------------------------------------------------------------------

    def answer_begin(self, session: Session | None) -> bytes:
        """The head of responses in a session, up to the digits of `Content-Length`."""
        before, behind = self._answer_begin
        return before if session is None else before + _session_line(session) + behind

    def response_body(self, data: bytes, identity: bytes) -> bytes | None:
        """The body for the client; None if the response is incomplete, or has to be parsed.

        For a stateless client, the body of a stream stays in its chunk and is not changed.

        Args:
            data: the first bytes of the server's response.
            identity: the id of the call as JSON text.
        """
        is_known = len(data) == self._size and data.startswith(self._prefix)
        if is_known and self._took_size:
            is_known = self._read_took(data)
        if not is_known and not self._parse_response(data):
            return None
        start, end, trim = self.body_start, len(data), self._trim
        if self._stream_offset:
            if not data.endswith(_EVENT_END):
                return None
            end -= len(_EVENT_END)
            if trim is None and is_known and not sse.is_one_line(data, start, end):
                return None
        if self.profile is not None:
            return legacy_result.for_session_client(data, start, end, identity, trim)
        is_plain = legacy_result.is_forwardable(data, start, end, identity, trim)
        return data[self._stream_offset or start :] if is_plain else None

    def _parse_response(self, data: bytes) -> bool:
        """Parse the head of a complete response and remember what precedes the message; False for others."""
        size = len(self._stream_head)
        if not (size and data.startswith(self._stream_head)):
            found = response.read_known_response(data)
            if found is None:
                return False
            head, took, body = found
            if head.status != 200 or len(body) > COLLECTED:
                return False
            if head.content_type == b"application/json" and head.content_length is not None:
                self._remember_prefix(data, len(data) - len(body), head.trim, took=took)
                return True
            if head.content_type != b"text/event-stream" or head.content_length is not None:
                return False
            size = data.index(_HEAD_END) + len(_HEAD_END)
            self._stream_head = data[:size]
        return self._parse_stream(data, size)

    def _parse_stream(self, data: bytes, start: int) -> bool:
        """Do the same for a stream of one event in one chunk; False for any other stream."""
        line, end = data.find(_LINE_END, start, start + _LONGEST_SIZE), len(data) - len(_LAST)
        first = line + len(_LINE_END)
        if line < 0 or not data.endswith(_LAST) or data[start:line].lower() != b"%x" % (end - first):
            return False
        event = sse.single_event(data, first, end) if self._exchange.accepts_events else None
        if event is None:
            return False
        self._remember_prefix(data, event.start, ResultTrim.from_comment(event.comment), start)
        return True

    def _remember_prefix(
        self, data: bytes, start: int, trim: ResultTrim | None, stream_offset: int = 0, took: bytes = b""
    ) -> None:
        self._size, self._trim, self._stream_offset = len(data), trim, stream_offset
        self.body_start, self.took, self._took_size = start, took, 0
        self.is_streamed = bool(stream_offset) and self.profile is None
        self._prefix = data[:start]
        if took and self._prefix.endswith(took + _HEAD_END):
            self._prefix, self._took_size = data[: start - len(took + _HEAD_END)], len(took)

    def _read_took(self, data: bytes) -> bool:
        """Read where the time of a call went, from a response with the known prefix and size."""
        begin = len(self._prefix)
        end = begin + self._took_size
        self.took = data[begin:end]
        return data.startswith(_HEAD_END, end)


def _caller_line(session: Session) -> bytes:
    """The header line that identifies the session to the server."""
    return b"%b: %b\r\n" % caller_header(session.id)


def _session_line(session: Session) -> bytes:
    """The `Mcp-Session-Id` header line for the client."""
    return f"{headers.SESSION}: {session.id}\r\n".encode()


def _split_around(head: bytes, line: bytes | None) -> tuple[bytes, bytes]:
    """Split a head around `line`, the only one that differs between sessions."""
    if line is None:
        return head, b""
    before, _, behind = head.partition(b"\r\n" + line)
    return before + b"\r\n", behind


def _answer_begin(fields: Mapping[str, str]) -> bytes:
    return fixed_head_lines(200, JSON, tuple(fields.items()), is_last=False) + b"\r\nContent-Length: "


def _stream_begin(fields: Mapping[str, str]) -> bytes:
    lines = {**fields, **STREAM_FIELDS, "Transfer-Encoding": "chunked"}
    return fixed_head_lines(200, EVENTS, tuple(lines.items()), is_last=False)
