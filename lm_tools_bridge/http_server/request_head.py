"""Parses and admits the head of an HTTP/1.1 request, strictly, with the framing of its body. Pure.

The grammar is RFC 9112 without its leniencies: no bare LF, no folded lines, no blank before a colon, no
version but 1.0 and 1.1. Whether a well-formed head is admitted is decided by each program.

A client sends the same head with every call but for the digits of its `Content-Length`, and clients of one
kind the same but for their session ids. Heads that differ in nothing else are parsed and admitted once.
Refused heads are never cached.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from lm_tools_bridge.http_server.refusal import AdmissionRefusal, body_too_large


def refuse_framing(fields: Mapping[bytes, bytes], body_cap: int) -> AdmissionRefusal | None:
    """Return the refusal of the first rule that is broken; None if none is.

    Args:
        fields: values by lower-case name; repeated fields are joined with `, `.
        body_cap: the most bytes of a body.
    """
    length = fields.get(b"content-length")
    if length is not None:
        if not length.isdigit() or b"transfer-encoding" in fields:
            return AdmissionRefusal(
                400, "send one plain Content-Length, or Transfer-Encoding: chunked, not both"
            )
        # The digits are counted first: int() raises ValueError for thousands of them.
        if len(length.lstrip(b"0")) > 18 or int(length) > body_cap:
            return body_too_large(body_cap)
    if fields.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        return AdmissionRefusal(400, "the only Transfer-Encoding understood is chunked")
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        return AdmissionRefusal(417, "the only expectation understood is 100-continue")
    return None


_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z\-]{0,31}) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])\r\n")
# No two neighbouring repeats may match the same byte, or 16 KiB of blanks take minutes: the blanks around a
# value are therefore stripped, not matched.
_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"):([^\x00-\x08\x0a-\x1f\x7f]*)\r\n")
PLAIN_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,7})(?=\r\n)")
"""`Content-Length` as nearly all clients write it; a client's calls mostly differ in its value alone."""
_START: Final = re.compile(
    rb"[A-Z][A-Z\-]{0,31}(?:\Z| \Z| [\x21\x22\x24-\x7e]+(?:\Z| [HTP/1.0]{0,8}(?:\Z|\r\Z|\r\n)))"
)

MALFORMED: Final = AdmissionRefusal(
    400, "this is not a well-formed HTTP/1.1 request; speak plain HTTP/1.1 to this port"
)


class RequestHead(msgspec.Struct, frozen=True):
    """The head of one request.

    Attributes:
        method: of HTTP.
        target: the request target, not decoded, with its query.
        headers: (name, value) pairs in order, duplicates included, values without the blanks around them.
    """

    method: str
    target: str
    headers: Iterable[tuple[bytes, bytes]]


def may_become_head(begin: bytes | bytearray) -> bool:
    """Whether a request can begin with these bytes: false for TLS, HTTP/2, bare JSON."""
    if begin in (b"", b"\r"):  # perhaps of an empty line, which is ignored
        return True
    return _START.match(begin) is not None and begin.count(b"\n") == begin.count(b"\r\n")


def parse_head(head: bytes) -> RequestHead | AdmissionRefusal:
    """Parse a whole head, the empty line at its end included."""
    line = _REQUEST_LINE.match(head)
    if line is None:
        return MALFORMED
    headers: list[tuple[bytes, bytes]] = []
    position = line.end()
    last = len(head) - 2
    while position < last:
        field = _FIELD.match(head, position)
        if field is None:
            return MALFORMED
        headers.append((field[1], field[2].strip(b" \t")))
        position = field.end()
    return RequestHead(line[1].decode(), line[2].decode(), headers)


class Framing(msgspec.Struct, frozen=True):
    """How the connection goes on behind an admitted head.

    Attributes:
        length: bytes of the body; None for a chunked body.
        is_last: whether no request follows.
        expects_continue: whether the client waits for `100 Continue` before it sends the body.
        allows_chunked: whether the response may be chunked: not in HTTP/1.0.
        is_head_only: whether the response has no body, because the method is HEAD.
    """

    length: int | None
    is_last: bool
    expects_continue: bool
    allows_chunked: bool
    is_head_only: bool


def framing(raw: bytes, head: RequestHead) -> Framing:
    """Determine the framing behind an admitted head; `raw` is the same head as bytes."""
    fields = {name.lower(): value.lower() for name, value in head.headers}
    line_end = raw.index(b"\r\n")
    options = {option.strip() for option in fields.get(b"connection", b"").split(b",")}
    is_old = raw[line_end - 1 : line_end] == b"0"
    return Framing(
        length=body_length(head),
        is_last=is_old or b"close" in options,
        expects_continue=b"expect" in fields and not is_old,
        allows_chunked=not is_old,
        is_head_only=head.method == "HEAD",
    )


def body_length(head: RequestHead) -> int | None:
    """Bytes of the body behind an admitted head; None for a chunked body."""
    for name, value in head.headers:
        key = name.lower()
        if key == b"content-length":
            return int(value)
        if key == b"transfer-encoding":
            return None
    return 0


MAX_CACHED_HEADS: Final = 1024
"""Heads in each cache; a full cache is emptied."""
MAX_CACHED_HEAD_BYTES: Final = 2048
"""Bytes of the longest head that is cached."""


class RefusedHead(msgspec.Struct, frozen=True):
    """A head that is not admitted; `parsed` where its grammar is right."""

    refusal: AdmissionRefusal
    parsed: RequestHead | None = None


class AdmittedHead(Protocol):
    """What admission makes of a head; a program adds what it needs."""

    @property
    def parsed(self) -> RequestHead:
        """Method, target and header fields."""

    @property
    def framing(self) -> Framing:
        """How the connection goes on behind the head."""


Head = TypeVar("Head", bound=AdmittedHead)


class ReadHead(NamedTuple, Generic[Head]):
    """An admitted head as it was received.

    Attributes:
        head: what it says; the same object for equal heads.
        length: bytes of the body; None for a chunked body.
        session: the session id that it names, if the reader looks for one.
        is_known: whether an equal head was received before.
        trace: the `traceparent` that a reader cut off before; empty for none.
    """

    head: Head
    length: int | None
    session: str | None
    is_known: bool
    trace: str = ""


class HeadReader(ABC, Generic[Head]):
    """The heads of one server.

    Args:
        head_cap: the most bytes of a head.
        too_large: the refusal of a larger one.
        body_cap: the most bytes of a body.
        session: matches the header field of a session id, whose value (group 1) must not influence admission.
    """

    def __init__(
        self,
        head_cap: int,
        too_large: AdmissionRefusal,
        body_cap: int,
        session: re.Pattern[bytes] | None = None,
    ) -> None:
        self._head_cap = head_cap
        self._too_large = too_large
        self._body_cap = body_cap
        self._session = session
        self._by_key: dict[bytes, Head] = {}  # by their bytes without the length's digits and the session id
        self._by_bytes: dict[bytes, ReadHead[Head]] = {}

    @abstractmethod
    def admit(self, raw: bytes, parsed: RequestHead) -> Head | AdmissionRefusal:
        """Apply the rules of admission to a head; `raw` is the same head as bytes."""

    def session_of(self, head: Head) -> str | None:
        """Return the session id of a head in which the pattern found none."""
        return None

    def read(self, raw: bytes) -> ReadHead[Head] | RefusedHead:
        """Read a whole head, the empty line at its end included."""
        return self._by_bytes.get(raw) or self._read(raw)

    def refuse_begin(self, begin: bytes) -> AdmissionRefusal | None:
        """Return why the beginning of a head can never be admitted; None where it can."""
        if len(begin) > self._head_cap:
            return self._too_large
        return None if may_become_head(begin) else MALFORMED

    def _read(self, raw: bytes) -> ReadHead[Head] | RefusedHead:
        if len(raw) > MAX_CACHED_HEAD_BYTES:
            return self._read_uncached(raw)
        session_match = None if self._session is None else self._session.search(raw)
        bare = raw if session_match is None else _without(raw, session_match)
        digits = PLAIN_LENGTH.search(bare)
        if digits is None:
            return self._read_uncached(raw)
        key, length = _without(bare, digits), int(digits[1])
        head = self._by_key.get(key)
        is_known = head is not None and length <= self._body_cap
        if head is None or not is_known:
            judged = self._judge(bare)
            if isinstance(judged, RefusedHead):
                return judged
            head = _put(self._by_key, key, judged)
        read = ReadHead(
            head,
            length,
            self.session_of(head) if session_match is None else session_match[1].decode(),
            is_known,
        )
        return _put(self._by_bytes, raw, read) if is_known else read

    def _read_uncached(self, raw: bytes) -> ReadHead[Head] | RefusedHead:
        head = self._judge(raw)
        if isinstance(head, RefusedHead):
            return head
        return ReadHead(head, head.framing.length, self.session_of(head), is_known=False)

    def _judge(self, raw: bytes) -> Head | RefusedHead:
        parsed = self._too_large if len(raw) > self._head_cap else parse_head(raw)
        if isinstance(parsed, AdmissionRefusal):
            return RefusedHead(parsed)
        admitted = self.admit(raw, parsed)
        return RefusedHead(admitted, parsed) if isinstance(admitted, AdmissionRefusal) else admitted


_Value = TypeVar("_Value")


def _put(cache: dict[bytes, _Value], key: bytes, value: _Value) -> _Value:
    """Add to a cache, which is emptied before where it is full."""
    if len(cache) >= MAX_CACHED_HEADS:
        cache.clear()
    cache[key] = value
    return value


def _without(text: bytes, match: re.Match[bytes]) -> bytes:
    """The text without the first group of a match."""
    begin, end = match.span(1)
    return text[:begin] + text[end:]
