"""Finds the request ids that an unreadable answer names, so that its callers are refused at once. Pure.

Such an answer is no JSON (a control character in a string, bytes behind its end, nesting deeper than a parser
goes), or names an id twice. Only its two ends are searched, because an id in the middle of a large result is
none of the message's own.
"""

from __future__ import annotations

import re
from typing import Final

_END: Final = 64 * 1024
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
_ID_VALUE: Final = re.compile(rb'\s*:\s*("?)(\d{1,18})\1(?=[\s,}])')
_LAST_ID: Final = re.compile(rb'[,{]\s*"id"\s*:\s*("?)(\d{1,18})\1\s*}[\s\0]*\Z')
_STEP: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


def ids_in(line: bytes) -> tuple[bytes, ...]:
    """The ids that a text names, if it looks like a JSON-RPC response; all of them if there are several."""
    head, tail = line[:_END], line[-_END:]
    if head.lstrip()[:1] != b"{" or not _is_response(head, tail):
        return ()
    names, ids = _top_level(head)
    if b'"method"' in names:
        return ()
    last = _LAST_ID.search(tail, max(0, len(tail) - 200))
    if last is not None:
        ids.append(last[2])
    return tuple(dict.fromkeys(ids))


def _is_response(head: bytes, tail: bytes) -> bool:
    ends = head + tail
    return b'"jsonrpc"' in ends and (b'"result"' in ends or b'"error"' in ends)


def _top_level(text: bytes) -> tuple[set[bytes], list[bytes]]:
    """The strings at the top level of the first object in a text, and the values of its members `id`."""
    names: set[bytes] = set()
    ids: list[bytes] = []
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in _STEP:
            depth += _STEP[token[0]]
            if depth == 0:
                break
        elif depth == 1:
            names.add(token[0])
            found = _ID_VALUE.match(text, token.end()) if token[0] == b'"id"' else None
            if found is not None:
                ids.append(found[2])
    return names, ids
