"""Result trim: how many bytes to cut from both ends of a tool result for clients with sessions.

Legacy revisions (MCP 2025-11-25 and older) have neither `resultType` nor `serverInfo` in `_meta`. In nearly
all results these are the first and the last member. The workspace server sends their lengths in a header
(JSON response) or in a comment (event), so that the manager can cut them without parsing the result. A result
that differs in more than these members has no trim; the manager converts it
(`manager/routing/legacy_result.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names

TYPE: Final = b'"resultType":"complete",'
META: Final = b',"_meta":'
_LONGEST_META: Final = 1024
"""Longest `_meta` member in bytes that a trim can remove."""
_WORDS: Final = re.compile(rb"([0-9]{1,4}) ([0-9]{1,4})")
_COMMENT: Final = f" {headers.RESULT_TRIM}: ".encode()
_Absent = msgspec.UnsetType
_UNSET: Final = msgspec.UNSET


class ResultTrim(NamedTuple):
    """Bytes to cut: `first` after the opening brace of the result, `last` before its closing brace."""

    first: int
    last: int

    @classmethod
    def from_header(cls, value: bytes | None) -> ResultTrim | None:
        """Parse the value of the header; None if it is absent or invalid."""
        match = None if value is None else _WORDS.fullmatch(value)
        return None if match is None else cls(int(match[1]), int(match[2]))

    @classmethod
    def from_comment(cls, text: bytes | None) -> ResultTrim | None:
        """Parse the comment of an event; None if it is absent or no trim."""
        return (
            cls.from_header(text[len(_COMMENT) :]) if text is not None and text.startswith(_COMMENT) else None
        )

    @property
    def value(self) -> str:
        """The value of the header."""
        return f"{self.first} {self.last}"

    @property
    def comment(self) -> str:
        """The comment of an event."""
        return f"{headers.RESULT_TRIM}: {self.value}"


_NAMES: Final = {
    "result_type": "resultType",
    "ttl_ms": "ttlMs",
    "cache_scope": "cacheScope",
    "meta": "_meta",
    "structured_content": "structuredContent",
}


class _Result(msgspec.Struct, gc=False, rename=_NAMES):
    """The members that differ between legacy and modern results."""

    result_type: msgspec.Raw | _Absent = _UNSET
    ttl_ms: msgspec.Raw | _Absent = _UNSET
    cache_scope: msgspec.Raw | _Absent = _UNSET
    meta: msgspec.Raw | _Absent = _UNSET
    structured_content: msgspec.Raw | _Absent = _UNSET


_read: Final = msgspec.json.Decoder(_Result).decode


def compute_trim(text: bytes, begin: int, end: int) -> ResultTrim | None:
    """The trim of the tool result in `text[begin:end]`; None if it has none.

    The rest is parsed, to make sure that the cut removes whole members and leaves no modern ones.
    """
    if end - begin < 2 or not text.startswith(b"{", begin) or not text.endswith(b"}", begin, end):
        return None
    start, stop = begin + 1, end - 1
    if text.startswith(TYPE, start, stop):
        start += len(TYPE)
    meta = text.rfind(META, max(start, stop - _LONGEST_META), stop)
    if meta >= 0 and _has_only_server_info(text[meta + len(META) : stop]):
        stop = meta
    try:
        rest = _read(b"{%b}" % text[start:stop])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not (rest.result_type is rest.ttl_ms is rest.cache_scope is rest.meta is _UNSET):
        return None
    structured = rest.structured_content
    is_known = structured is _UNSET or bytes(structured)[:1] == b"{"
    return ResultTrim(start - begin - 1, end - 1 - stop) if is_known else None


@lru_cache(maxsize=64)  # a server sends the same `_meta` with every result
def _has_only_server_info(meta: bytes) -> bool:
    """Whether the JSON text is an object whose only member is `serverInfo`."""
    return jsonrpc.members_of(meta).keys() == {names.META_SERVER}
