"""Works on JSON texts by position: checks a body before it is parsed, finds and cuts members afterwards.

The check (encoding, nesting depth, number of values) makes parsing safe; it does not validate. The parser
refuses NaN, trailing bytes and broken syntax (`lm_tools_bridge/protocol/jsonrpc.py`).

A cheap upper bound comes first: a body with at most 128 opening brackets is at most 128 levels deep. Only
above the bound are brackets outside of strings counted. The cost is linear, because all passes run in C: 1 to
2 µs for a message of 300 bytes, 7 ms per MiB of source code in strings, 20 ms per MiB of small objects (2
cores, Python 3.11).

Whatever cuts members out of a text keeps every other byte (white space, order, spelling). The text was
decoded before; the functions only find the positions of its members again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc

_MEMBER: Final = re.compile(rb'[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_SEPARATOR: Final = re.compile(rb"[ \t\r\n]*([,}])")

Range = tuple[int, int]


def is_compact(size: int, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object of `size` bytes is compact JSON: no white space, no escapes, no duplicate names.

    Encoding the members of a compact object again gives the same bytes, and is faster than finding their
    positions.
    """
    compact_size = 0
    for name, raw in members.items():  # sum() of a generator takes twice as long on this hot path
        compact_size += len(name.encode()) + memoryview(raw).nbytes + 4
    return size == 1 + (compact_size or 1)


@dataclass(frozen=True, slots=True)
class MemberSpan:
    """The span of a member, from after the comma before it (`begin`) to the comma after it (`end`)."""

    begin: int
    value: int
    end: int


def member_spans(text: bytes, start: int, members: Mapping[str, msgspec.Raw]) -> dict[str, MemberSpan] | None:
    """The spans of the members of the object at `start`, in order.

    Args:
        members: the decoded members of the object.

    Returns:
        None if a name contains escapes or occurs twice.
    """
    found: dict[str, MemberSpan] = {}
    position = text.index(b"{", start) + 1
    separator = b","
    for name, raw in members.items():
        head = _MEMBER.match(text, position)
        if head is None or head.group(1) != name.encode():
            return None
        tail = _SEPARATOR.match(text, head.end() + memoryview(raw).nbytes)
        if tail is None:
            return None
        separator = tail.group(1)
        found[name] = MemberSpan(position, head.end(), tail.end() - 1)
        position = tail.end()
    return found if separator == b"}" else None


def ranges_to_cut(where: Mapping[str, MemberSpan], dropped: Collection[str]) -> list[Range]:
    """The ranges to cut out of the text to remove these members, each with one comma."""
    kept = [place for name, place in where.items() if name not in dropped]
    last = list(where.values())[-1]
    if not kept:
        return [(next(iter(where.values())).begin, last.end)]
    found = [
        (place.begin, place.end + 1)
        for name, place in where.items()
        if name in dropped and place.begin < kept[-1].begin
    ]
    return found if kept[-1] is last else [*found, (kept[-1].end, last.end)]


def remove_ranges(text: bytes, ranges: Iterable[Range]) -> bytes:
    """The text without these ranges, which must not overlap."""
    view = memoryview(text)
    pieces: list[memoryview] = []
    position = 0
    for begin, end in sorted(ranges):
        pieces.append(view[position:begin])
        position = end
    return b"".join([*pieces, view[position:]])


MAX_DEPTH: Final = 128
MAX_NODES: Final = 200_000

_BOM: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_STRUCTURE: Final = b",[]{}"
_EVERYTHING_ELSE: Final = bytes(byte for byte in range(256) if byte not in _STRUCTURE)
_SIGNED: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_STRIDE: Final = 65_536
_LARGE: Final = 16 * 1024
"""Size in bytes from which searching for a few brackets is faster than counting them."""
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def check_json(body: bytes) -> str | None:
    """What is wrong with the body, as a message for the client; None if it may be parsed.

    Refuses a byte order mark, invalid UTF-8, lone surrogate escapes, more than 128 levels and more than
    200,000 values. Values are counted as commas and opening brackets outside of strings, which
    only counts empty containers twice. Where the syntax is broken the count holds up to the break, so that a
    parser, which stops there, never goes deeper than was allowed here.
    """
    return _text_problem(body) or _shape_problem(body)


def _text_problem(body: bytes) -> str | None:
    if body.startswith(_BOM):
        return "the body begins with a byte order mark; send plain UTF-8 without one"
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            return f"the body is not valid UTF-8 at byte {error.start}; send UTF-8"
    # one byte first: searching for it runs at memory speed
    if b"\\" in body and b"\\u" in body and _has_lone_surrogate(body):
        return "a string holds half of a surrogate pair; send whole characters"
    return None


def _has_lone_surrogate(body: bytes) -> bool:
    if b"\\ud" not in body and b"\\uD" not in body:
        return False
    without_escaped_backslashes = body.replace(b"\\\\", b"  ")
    return _SURROGATE.search(_SURROGATE_PAIR.sub(b" ", without_escaped_backslashes)) is not None


def _shape_problem(body: bytes) -> str | None:
    brackets = _brackets(body)
    nodes = brackets + body.count(b",") if len(body) >= MAX_NODES else 0
    if brackets <= MAX_DEPTH and nodes < MAX_NODES:
        return None
    structure = _outside_strings(body)
    if structure is None or len(structure) - structure.count(b"]") - structure.count(b"}") >= MAX_NODES:
        return f"the body has more than {MAX_NODES:,} values; send less at once"
    if _is_too_deep(structure.translate(_SIGNED, b",")):
        return f"the body is nested more than {MAX_DEPTH} levels deep; send flatter arguments"
    return None


def _brackets(body: bytes) -> int:
    """The number of opening brackets. In a large body, they are counted only above `MAX_DEPTH`."""
    if len(body) < _LARGE:
        return body.count(b"[") + body.count(b"{")
    found = 0
    for bracket in (b"[", b"{"):
        position = body.find(bracket)
        while position >= 0:
            found += 1
            if found > MAX_DEPTH:
                return body.count(b"[") + body.count(b"{")
            position = body.find(bracket, position + 1)
    return found


def _outside_strings(body: bytes) -> bytes | None:
    """The structural bytes outside of strings; None if there are more strings than allowed values.

    Every string is a value or the key of one, so more than four quotes per allowed value decide; without
    that, splitting a body made of quotes alone would cost many times its size.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 4 * MAX_NODES:
        return None
    return b"".join(body.split(b'"')[::2]).translate(None, _EVERYTHING_ELSE)


def _is_too_deep(signed: bytes) -> bool:
    depth = 0
    for start in range(0, len(signed), _STRIDE):
        depths = list(accumulate(memoryview(signed[start : start + _STRIDE]).cast("b"), initial=depth))
        if max(depths) > MAX_DEPTH:
            return True
        depth = depths[-1]
    return False


MIN_STRING: Final = 32 * 1024
"""Shortest string content in bytes that is left out."""


def members_between(text: bytes, start: int, end: int) -> Mapping[str, msgspec.Raw]:
    """The members of the object in `text[start:end]`; empty if it is not an object."""
    return _without_string(text, start, end) or jsonrpc.members_of(msgspec.Raw(memoryview(text)[start:end]))


def _without_string(text: bytes, start: int, end: int) -> Mapping[str, msgspec.Raw] | None:
    middle = (start + end) // 2
    left, right = text.rfind(b'"', start, middle) + 1, text.find(b'"', middle, end)
    if not left or right - left < MIN_STRING or text.find(b"\\", left, right) >= 0:
        return None
    short = text[start:left] + text[right:end]
    spans = member_spans(short, 0, members) if (members := jsonrpc.members_of(short)) else None
    if spans is None:
        return None
    gap, at = right - left, left - start
    view, found = memoryview(text)[start:end], {}
    is_in_value = False
    for name, raw in members.items():
        begin, size = spans[name].value, memoryview(raw).nbytes
        if begin > at:
            begin += gap
        elif begin + size > at:
            size += gap
            is_in_value = True
        found[name] = msgspec.Raw(view[begin : begin + size])
    return found if is_in_value else None  # otherwise it was a name
