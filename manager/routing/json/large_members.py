"""The members of a large JSON object, most of which is one long string: an image, a log, a file.

A decoder looks at each byte of it. But what stands between two quotes, without a quote or a backslash in it,
can be left out without any difference to the text around it, and looking for one byte is ten times as fast.
Where it was no string that was left out, two strings are next to each other then, which no decoder takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from manager.routing.json import cut
from protocol import jsonrpc

WORTH_IT: Final = 32 * 1024
"""Bytes of a string that is left out."""


def members_between(text: bytes, start: int, end: int) -> Mapping[str, msgspec.Raw]:
    """The members of the object that these bytes of the text are; empty where they are none."""
    return _without_a_string(text, start, end) or jsonrpc.members_of(msgspec.Raw(memoryview(text)[start:end]))


def _without_a_string(text: bytes, start: int, end: int) -> Mapping[str, msgspec.Raw] | None:
    middle = (start + end) // 2
    left, right = text.rfind(b'"', start, middle) + 1, text.find(b'"', middle, end)
    if not left or right - left < WORTH_IT or text.find(b"\\", left, right) >= 0:
        return None
    short = text[start:left] + text[right:end]
    places = cut.places(short, 0, members) if (members := jsonrpc.members_of(short)) else None
    if places is None:
        return None
    gap, at = right - left, left - start
    view, found = memoryview(text)[start:end], {}
    is_in_value = False
    for name, raw in members.items():
        begin, size = places[name].value, memoryview(raw).nbytes
        if begin > at:
            begin += gap
        elif begin + size > at:
            size += gap
            is_in_value = True
        found[name] = msgspec.Raw(view[begin : begin + size])
    return found if is_in_value else None  # it may have been a name
