"""Cuts members out of the text of a JSON object; every other byte stays (white space, order, spelling).

The text was decoded before. The functions only find the positions of the members again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

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
