"""Caches parsed response heads, since a server sends the same one again and again.

Two heads share an entry if they differ only in the digits of their single `Content-Length` and in the timing
of the call (`lm_tools_bridge/protocol/internal/call_reports.py`). For a chunked body the head must be
identical. The cache
handles a whole response in one read, and the beginning of a response of known length. Everything else goes to
the parser, which also adds the entries.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal import call_reports
from manager.configuration.budgets import MAX_ANSWER_HEADS
from manager.upstream.response_head import ResponseHead

LONGEST: Final = 2048
"""Most bytes of a cached head."""
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,9})(?=\r\n)")
_TOOK: Final = b"\r\n%b: " % headers.TOOK.encode()
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_LINE_END: Final = b"\r\n"
_END: Final = b"\r\n\r\n"
MAX_CHUNKS: Final = 16
"""Chunks of a body above which the parser is as fast."""

_heads: dict[bytes, ResponseHead] = {}


def whole(data: bytes) -> tuple[ResponseHead, bytes, bytes] | None:
    """Head, timing and body if `data` is exactly one response with a cached head, else None."""
    end = data.find(_END, 0, LONGEST) + len(_END)
    digits = _LENGTH.search(data, 0, end)
    if digits is None:
        chunked = _heads.get(data[:end])
        body = None if chunked is None else whole_chunks(data, end)
        return None if chunked is None or body is None else (chunked, b"", body)
    found = _of_length(data, digits, end) if end + int(digits[1]) == len(data) else None
    return None if found is None else (*found, data[end:])


def begun(data: bytes) -> tuple[ResponseHead, bytes, int] | None:
    """The cached head of an incomplete response of known length, its timing and the offset of its body.

    None if the response is complete or its head is not cached.
    """
    end = data.find(_END, 0, LONGEST) + len(_END)
    digits = _LENGTH.search(data, 0, end)
    if digits is None or end + int(digits[1]) <= len(data):
        return None
    found = _of_length(data, digits, end)
    return None if found is None else (*found, end)


def remember(data: bytes, head: ResponseHead) -> None:
    """Cache the head that `data` begins with and the parser parsed as `head`, on a keep-alive connection."""
    end = data.find(_END, 0, LONGEST) + len(_END)
    found = _LENGTH.findall(data, 0, end)
    expected = [head.content_length] if head.content_length is not None else []
    if [int(one) for one in found] != expected or end < len(_END) or not data.startswith(b"HTTP/1.1 "):
        return
    digits = _LENGTH.search(data, 0, end)
    key, took = (data[:end], b"") if digits is None else _key(data, *digits.span(1), end)
    if took != (head.header(headers.TOOK.encode()) or b""):
        return  # the timing is where it would not be found again
    if len(_heads) >= MAX_ANSWER_HEADS:
        _heads.clear()
    _heads[key] = head


def whole_chunks(data: bytes, start: int) -> bytes | None:
    """The chunked body that begins at `start`; None unless it ends with the data and has no trailer."""
    pieces: list[bytes] = []
    while len(pieces) < MAX_CHUNKS and (found := _SIZE.match(data, start)) is not None:
        size, begin = int(found[1], 16), found.end()
        start = begin + size + len(_LINE_END)
        if not data.startswith(_LINE_END, begin + size):
            return None
        if not size:
            return b"".join(pieces) if start == len(data) else None
        pieces.append(data[begin : begin + size])
    return None


def _key(data: bytes, begin: int, behind: int, end: int) -> tuple[bytes, bytes]:
    """The head without the length in `data[begin:behind]` and without the timing behind it; the latter."""
    took = data.find(_TOOK, behind, end)
    if took < 0:
        return data[:begin] + data[behind:end], b""
    took += len(_TOOK)
    line_end = data.index(_LINE_END, took)
    return data[:begin] + data[behind:took] + data[line_end:end], data[took:line_end]


def _of_length(data: bytes, digits: re.Match[bytes], end: int) -> tuple[ResponseHead, bytes] | None:
    """Cached head and timing of a response whose head ends at `end`, with the length that its digits say."""
    begin, behind = digits.span(1)
    key, took = _key(data, begin, behind, end)
    known = _heads.get(key)
    if known is None or len(took) > call_reports.LONGEST:
        return None
    return _with_length(known, int(digits[1])), took


def _with_length(head: ResponseHead, length: int) -> ResponseHead:
    if head.content_length == length:
        return head
    fields = tuple(
        (name, b"%d" % length if name == b"content-length" else value) for name, value in head.headers
    )
    return replace(head, headers=fields, content_length=length)
