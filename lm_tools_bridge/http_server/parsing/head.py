"""Parses the head of an HTTP/1.1 request, strictly, and determines the framing of its body. Pure.

The grammar is RFC 9112 without its leniencies: no bare LF, no folded lines, no blank before a colon, no
version but 1.0 and 1.1. Whether a well-formed head is admitted is decided by each program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.http_server.refusal import AdmissionRefusal

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


@dataclass(frozen=True, slots=True)
class RequestHead:
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


@dataclass(frozen=True, slots=True)
class Framing:
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
