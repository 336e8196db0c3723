"""What holds for all calls of one tool that come with the same head: bytes that were written once, for reuse.

Compares and joins bytes. What a call means was decided when the route was made (`fast_path.py`), and whether
that still holds is asked there for every call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from manager.answers.exchange import Exchange, Located
from manager.routing import plain_results
from manager.routing.arrival import EVENTS, JSON, Arrival
from manager.routing.clients import Client, Seen
from manager.routing.sessions import Session
from manager.upstream import learned
from manager.upstream.answer import COLLECTED
from manager.upstream.instance import Instance
from manager.web.arrival import sent_cwd
from manager.web.event_response import STREAM_FIELDS
from manager.web.incoming import lasting_lines
from protocol import sse
from protocol.call_pattern import Filled, Pattern

NOTED_S: Final = 0.01
"""Of calls in quick succession one in this time is noted for the table of clients."""
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,7})(?=\r\n)")
_LONGEST_LENGTH: Final = 7
_CR: Final = ord("\r")


class Chosen(msgspec.Struct, frozen=True, gc=False):
    """What of a session had a part in the decision."""

    workspace: str | None
    roots: tuple[str, ...] | None
    log_level: str | None

    @classmethod
    def of(cls, session: Session) -> Chosen:
        """As it is now."""
        return cls(session.workspace, session.roots, session.log_level)


class FastRoute:
    """The way of such calls: how they are known, where they go, how they are written in both directions.

    Attributes:
        arrival: what their head says.
        located: their workspace, and how that was found.
        instance: its server.
        folder: the client's text that named the workspace, None where an id did.
        session: theirs, and what was `chosen` in it.
        figures, timings: of their workspace.
    """

    __slots__ = (
        "_answer_head",
        "_answer_lasting",
        "_begin",
        "_client",
        "_date",
        "_exchange",
        "_head",
        "_head_size",
        "_heard",
        "_is_events",
        "_known",
        "_known_size",
        "_length",
        "_longest",
        "_noted_at",
        "_pattern",
        "_rest",
        "_sent_cwd",
        "_size",
        "_stream_lasting",
        "_upstream",
        "_written",
        "arrival",
        "chosen",
        "figures",
        "folder",
        "instance",
        "located",
        "session",
        "timings",
    )

    def __init__(
        self,
        arrival: Arrival,
        exchange: Exchange,
        located: Located,
        instance: Instance,
        *,
        patterns: tuple[Pattern, Pattern | None],
        upstream: bytes,
        client: Client,
        folder: str | None,
        longest: int,
    ) -> None:
        """Args:
        exchange: one of these calls.
        patterns: as the client writes them, and as the server gets them, None where that is the same.
        upstream: the head of requests to the server up to the digits of the length.
        longest: bytes of a body that the door lets in.
        """
        self.arrival = arrival
        self.located = located
        self.instance = instance
        self.folder = folder
        self.figures = located.workspace.supervisor.figures
        self.timings = self.figures.timings
        self.session = exchange.session
        self.chosen = None if exchange.session is None else Chosen.of(exchange.session)
        self._exchange = exchange
        self._pattern, self._written = patterns
        self._upstream = upstream
        self._client = client
        self._longest = longest
        self._sent_cwd = sent_cwd(exchange.claims)
        self._heard = located.heard
        self._noted_at = 0.0
        self._head = self._begin = self._rest = self._known = self._answer_head = b""
        self._head_size = self._known_size = self._length = 0
        self._size = -1
        self._date = b""
        self._is_events = False
        self._answer_lasting = _answer_lasting(exchange.headers)
        self._stream_lasting = _stream_lasting(exchange.headers)

    # -- requests -------------------------------------------------------------------------------------------

    def comes_with(self, head: bytes) -> None:
        """The bytes of the head with which such a call came."""
        digits = _LENGTH.search(head)
        if digits is not None:
            self._begin, self._rest = head[: digits.start(1)], head[digits.end(1) :]

    def body_at(self, data: bytes) -> int:
        """Where in a whole request the body begins; -1 where the head is another, or it is not whole.

        Two heads that differ in the length alone, and tell it rightly, are the same (`routing/heads.py`).
        """
        if len(data) == self._size and data.startswith(self._head):
            return self._head_size
        begin = self._begin
        if not begin or not data.startswith(begin):
            return -1
        stop = data.find(_CR, len(begin), len(begin) + _LONGEST_LENGTH + 1)
        if stop < 0 or not data.startswith(self._rest, stop):
            return -1
        digits, start = data[len(begin) : stop], stop + len(self._rest)
        if not digits.isdigit() or start + int(digits) != len(data) or int(digits) > self._longest:
            return -1
        self._head, self._head_size, self._size = data[:start], start, len(data)
        return start

    def match(self, body: bytes) -> Filled | None:
        """The values of a call, None where the body is something else."""
        return self._pattern.match(body)

    def request(self, body: bytes, found: Filled) -> bytes:
        """The request for the workspace server."""
        sent = body if self._written is None else self._written.filled(found)
        return b"%b%d\r\n\r\n%b" % (self._upstream, len(sent), sent)

    def mark(self, session: Session) -> None:
        """Leave in the session what each of its requests leaves there."""
        session.source = self.located.source.value
        session.sent_cwd = self._sent_cwd
        if self._heard is not None:
            session.heard = self._heard

    def note(self, now: float) -> Seen | None:
        """The call for the table of clients, now and then."""
        if now - self._noted_at < NOTED_S:
            return None
        self._noted_at = now
        exchange = self._exchange
        return Seen(now, exchange.message.method, exchange.claims, exchange.headers)

    @property
    def client(self) -> Client:
        """Whose row that is."""
        return self._client

    # -- answers --------------------------------------------------------------------------------------------

    def answer(self, data: bytes, date: bytes) -> bytes | None:
        """The answer to the client, where the data are a whole answer of the server that needs no thought.

        Args:
            date: the line of the head that tells it.
        """
        body, is_events = self._body_of(data)
        message = sse.lone_message(body) if is_events else body
        if message is None or (is_events and not self._exchange.accepts_events):
            return None
        if self.session is not None:
            fitting = plain_results.in_session(message)
            return None if fitting is None else self._json(fitting, date)
        if plain_results.as_it_is(message) is None:
            return None
        return self._events(body, date) if is_events else self._json(body, date)

    def _body_of(self, data: bytes) -> tuple[bytes, bool]:
        """The body of a whole answer, and whether it is an event stream; empty where it is neither."""
        if len(data) == self._known_size and data.startswith(self._known):
            return data[len(self._known) :], self._is_events
        found = learned.whole(data)
        if found is None or found[0].status != 200 or len(found[1]) > COLLECTED:
            return b"", False
        head, body = found
        is_events = head.content_type == b"text/event-stream"
        if not is_events and head.content_type != b"application/json":
            return b"", False
        if head.content_length is not None:
            self._known, self._known_size = data[: len(data) - len(body)], len(data)
            self._is_events = is_events
        return body, is_events

    def _json(self, body: bytes, date: bytes) -> bytes:
        if len(body) != self._length or date is not self._date:
            self._length, self._date = len(body), date
            self._answer_head = b"%b%d%b" % (self._answer_lasting, len(body), date)
        return self._answer_head + body

    def _events(self, body: bytes, date: bytes) -> bytes:
        return b"%b%b%x\r\n%b\r\n0\r\n\r\n" % (self._stream_lasting, date, len(body), body)


def _answer_lasting(fields: Mapping[str, str]) -> bytes:
    return lasting_lines(200, JSON, tuple(fields.items()), is_last=False) + b"\r\nContent-Length: "


def _stream_lasting(fields: Mapping[str, str]) -> bytes:
    said = {**fields, **STREAM_FIELDS, "Transfer-Encoding": "chunked"}
    return lasting_lines(200, EVENTS, tuple(said.items()), is_last=False)
