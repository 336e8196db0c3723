"""The head of an HTTP/1.1 request as bytes: strict grammar, and the framing of the body behind it.

Stricter than parsers are on purpose (RFC 9112 without its leniencies): no bare LF, no folded lines, no blank
before a colon, no version but 1.0 and 1.1. What a well-formed head may say is judged by `door.py`.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from manager.routing.door import ANSWER_HEADERS, DoorRefusal, RequestFacts, refusal_body

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z\-]{0,31}) ([\x21\x22\x24-\x7e]+) HTTP/1\.[01]\r\n")
# No two neighbouring repeats may match the same byte, or 16 KiB of blanks take minutes: the blanks around a
# value are therefore stripped, not matched.
_FIELD: Final = re.compile(rb"(" + _TOKEN + rb"):([^\x00-\x08\x0a-\x1f\x7f]*)\r\n")
_START: Final = re.compile(
    rb"[A-Z][A-Z\-]{0,31}(?:\Z| \Z| [\x21\x22\x24-\x7e]+(?:\Z| [HTP/1.0]{0,8}(?:\Z|\r\Z|\r\n)))"
)

MALFORMED: Final = DoorRefusal(
    400, "this is not a well-formed HTTP/1.1 request; speak plain HTTP/1.1 to this port"
)


def may_become_head(begin: bytes | bytearray) -> bool:
    """Whether these first bytes can still grow into a request head: false for TLS, HTTP/2, bare JSON."""
    return _START.match(begin) is not None and begin.count(b"\n") == begin.count(b"\r\n")


def parse_head(head: bytes) -> RequestFacts | DoorRefusal:
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
    return RequestFacts(line[1].decode(), line[2].decode(), headers)


def body_length(facts: RequestFacts) -> int | None:
    """Bytes of body behind a head that passed the door; None for a chunked body of unknown length."""
    for name, value in facts.headers:
        key = name.lower()
        if key == b"content-length":
            return int(value)
        if key == b"transfer-encoding":
            return None
    return 0


def render_refusal(refusal: DoorRefusal, facts: RequestFacts | None) -> bytes:
    """The whole answer as bytes; it announces that the connection closes. HEAD gets no body."""
    method, target = (facts.method, facts.target) if facts else ("", "")
    body = refusal_body(refusal, method, target)
    fields = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        *ANSWER_HEADERS,
        *refusal.headers,
    ]
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    head = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n{lines}\r\n".encode("latin-1")
    return head if method == "HEAD" else head + body
