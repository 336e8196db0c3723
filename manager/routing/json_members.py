"""Finds the members of JSON objects by their position in the text, and cuts members out. Pure.

Whatever is cut out, every other byte stays (white space, order, spelling). The text was decoded before; the
functions only find the positions of its members again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc

_MEMBER: Final = re.compile(rb'[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_SEPARATOR: Final = re.compile(rb"[ \t\r\n]*([,}])")

Range = tuple[int, int]


class MemberSpan(msgspec.Struct, frozen=True):
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
