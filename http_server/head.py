"""The head of an HTTP/1.1 request as bytes: strict grammar, and the framing of the body behind it.

Stricter than parsers are on purpose (RFC 9112 without its leniencies): no bare LF, no folded lines, no blank
before a colon, no version but 1.0 and 1.1. What a well-formed head may say is for the door of
whoever is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from http_server.refusal import AdmissionRefusal

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z\-]{0,31}) ([\x21\x22\x24-\x7e]+) HTTP/1\.([01])\r\n")
# No two neighbouring repeats may match the same byte, or 16 KiB of blanks take minutes: the blanks around a
# value are therefore stripped, not matched.
_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"):([^\x00-\x08\x0a-\x1f\x7f]*)\r\n")
PLAIN_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,7})(?=\r\n)")
"""The length of a body as nearly all write it. In it alone the heads of one client's calls differ."""
_START: Final = re.compile(
    rb"[A-Z][A-Z\-]{0,31}(?:\Z| \Z| [\x21\x22\x24-\x7e]+(?:\Z| [HTP/1.0]{0,8}(?:\Z|\r\Z|\r\n)))"
)

MALFORMED: Final = AdmissionRefusal(
    400, "this is not a well-formed HTTP/1.1 request; speak plain HTTP/1.1 to this port"
)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of one request as it was received.

    `target` is the request target undecoded, query included; `headers` are (name, value) pairs in order, so
    that duplicates stay visible, values without the blanks around them.
    """

    method: str
    target: str
    headers: Iterable[tuple[bytes, bytes]]


def may_become_head(begin: bytes | bytearray) -> bool:
    """Whether these first bytes can still grow into a request head: false for TLS, HTTP/2, bare JSON."""
    return _START.match(begin) is not None and begin.count(b"\n") == begin.count(b"\r\n")


def parse_head(head: bytes) -> RequestHead | AdmissionRefusal:
    """Read one whole head, the empty line at its end included."""
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


@dataclass(frozen=True, slots=True)
class Framing:
    """How the connection goes on behind a head that passed the door.

    `length` is that of the body in bytes, None where it comes in chunks. `is_last` where no request follows.
    `waits` where the client wants to hear `100 Continue` before it sends the body. `allows_chunked` where the
    answer may come in chunks: not in HTTP/1.0.
    """

    length: int | None
    is_last: bool
    waits: bool
    allows_chunked: bool


def framing(head: bytes, facts: RequestHead) -> Framing:
    """How the connection goes on behind this head."""
    fields = {name.lower(): value.lower() for name, value in facts.headers}
    line_end = head.index(b"\r\n")
    wishes = {wish.strip() for wish in fields.get(b"connection", b"").split(b",")}
    is_old = head[line_end - 1 : line_end] == b"0"
    is_last = is_old or b"close" in wishes
    return Framing(body_length(facts), is_last, b"expect" in fields and not is_old, not is_old)


def body_length(facts: RequestHead) -> int | None:
    """Bytes of body behind a head that passed the door; None for a chunked body of unknown length."""
    for name, value in facts.headers:
        key = name.lower()
        if key == b"content-length":
            return int(value)
        if key == b"transfer-encoding":
            return None
    return 0
