"""Cuts members out of JSON objects; every other byte of the text stays: white space, order, spelling.

A decoder has read the text before; here it is only found again where each member stands. Nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

_MEMBER: Final = re.compile(rb'[ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
_SEPARATOR: Final = re.compile(rb"[ \t\r\n]*([,}])")

Cut = tuple[int, int]


def is_compact(size: int, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object of `size` bytes is written as we write: no white space, no escapes, no name twice.

    Encoding the members of such an object anew gives the same bytes, which is faster than looking for places.
    """
    explained = 0
    for name, raw in members.items():  # a sum() of a generator takes twice as long, and this is asked often
        explained += len(name.encode()) + memoryview(raw).nbytes + 4
    return size == 1 + (explained or 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a member stands: from behind the comma before it (`begin`) to the one after it (`end`)."""

    begin: int
    value: int
    end: int


def places(text: bytes, start: int, members: Mapping[str, msgspec.Raw]) -> dict[str, Place] | None:
    """The members of the object that begins at `start`, in order.

    Args:
        members: what a decoder made of the object.

    Returns:
        None where a name is written with escapes or stands twice.
    """
    found: dict[str, Place] = {}
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
        found[name] = Place(position, head.end(), tail.end() - 1)
        position = tail.end()
    return found if separator == b"}" else None


def cuts(where: Mapping[str, Place], dropped: Collection[str]) -> list[Cut]:
    """What to cut out of the text so that these members are gone, each with one comma."""
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


def without(text: bytes, ranges: Iterable[Cut]) -> bytes:
    """The text without these ranges, which do not overlap."""
    view = memoryview(text)
    pieces: list[memoryview] = []
    position = 0
    for begin, end in sorted(ranges):
        pieces.append(view[position:begin])
        position = end
    return b"".join([*pieces, view[position:]])
