"""Writes the head of a request to a workspace server, and rejects fields that would alter its framing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from lm_tools_bridge.protocol import trace_context

Fields = Sequence[tuple[bytes, bytes]]
"""Names and values of header fields."""
_FRAMING_FIELDS: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})
TRACE_BEGIN: Final = f"{trace_context.NAME}: ".encode()
"""The beginning of the line with the trace context."""
_NAME_OCTETS: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")


def request_head(
    method: bytes,
    target: bytes,
    host: bytes,
    headers: Fields,
    body_length: int,
    *,
    last_line: bytes = b"",
) -> bytes:
    """The complete head of a request, with Host and Content-Length added.

    Args:
        last_line: a whole line that differs with each request, so that all else is cached.

    Raises:
        ValueError: As by `head_before_length`.
    """
    head = head_before_length(method, target, host, tuple(headers))
    if body_length or method != b"GET":
        return b"%bContent-Length: %d\r\n%b\r\n" % (head, body_length, last_line)
    return head + b"\r\n"


def trace_line(number: int) -> bytes:
    """The line with the trace context of this number. It is the last of a head, where servers cut it off."""
    return b"%b%b\r\n" % (TRACE_BEGIN, trace_context.made(number))


@lru_cache(maxsize=256)  # a client's calls of one tool differ only in their bodies
def head_before_length(
    method: bytes, target: bytes, host: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    """The lines of a head, without Content-Length and the empty line.

    Raises:
        ValueError: The framing would be altered: by CR, LF or NUL, a space in method or target, a header name
            that is not a token, a framing field, or a method whose responses are framed differently.
    """
    names = [name.lower() for name, _ in headers]
    if not _NAME_OCTETS.fullmatch(b"".join(names)) or b"" in names:
        raise ValueError("header name is not a token")
    if not _FRAMING_FIELDS.isdisjoint(names):
        raise ValueError("framing fields are written by the connection")
    if method in (b"HEAD", b"CONNECT") or b" " in method or b" " in target:
        raise ValueError("unsupported method or target")
    lines = [
        b"%b %b HTTP/1.1" % (method, target),
        b"Host: " + host,
        *[b"%b: %b" % field for field in headers],
    ]
    head = b"\r\n".join(lines) + b"\r\n"
    line_ends = len(lines)
    if head.count(b"\n") != line_ends or head.count(b"\r") != line_ends or b"\0" in head:
        raise ValueError("CR, LF or NUL in the request head")
    return head
